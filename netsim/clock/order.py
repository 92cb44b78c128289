"""The order of an agent's steps within one instant: drawn from a seed, or taken from a schedule.

asyncio runs callbacks in the order in which they became ready, so a run shows only one of the possible orders of tasks,
timers and frames. An `Order` selects another one. It reorders only steps of the same agent: agents share no state, so
the steps of one agent at an instant do not affect another agent in that instant. Hence a choice is identified by its
agent, its time and its number, and does not change if a run omits another choice or uses more workers.

Over links without latency, and on a radio, an agent does affect others within an instant. In such networks the order of
agents is chosen as well: whenever it is an agent's turn, another ready agent may run instead. This choice is identified
by the agent whose turn it was.

Callbacks without an agent (rounds, faults, the radio, probes) keep their position in the queue, and no other callback
overtakes them. Callbacks of asyncio and netsim that are neither task steps nor timers also keep their position. So do
frames of one link, and callbacks of ``call_soon``, for which asyncio guarantees first in, first out.
"""

import ast
import asyncio
import inspect
import itertools
import operator
import os
import re
import sys
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from types import BuiltinFunctionType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from netsim._version import __version__
from netsim.clock.clock import END_OF_SLEEP, timed
from netsim.clock.task import OWNER, TaskOwner
from netsim.errors import BadInput
from netsim.util import check, draws
from netsim.util.variables import assigned

if TYPE_CHECKING:
    from netsim.clock.clock import Loop

__all__ = ["Choice", "Chooser", "Deferral", "Method", "Order", "install", "ordered", "ordering", "read"]

Method = Literal["random", "priorities"]
Kind = Literal["step", "frame", "agent"]

# A choice among agents considers at most this many agents, found in this many first entries of the queue.
_MOST_AGENTS, _MOST_PLACES = 8, 64

_tuple = tuple.__new__
# With method "priorities", changes of priority occur only within this number of an agent's first choices.
_CHANGE_WITHIN = 50

_VERSION = f"netsim {__version__}, Python {sys.version_info.major}.{sys.version_info.minor}"
# The folders of netsim's own code, and of the standard library.
_FOLDERS = (os.path.dirname(os.path.dirname(__file__)), os.path.dirname(os.__file__))

_WORDS = re.compile(
    r"at (?P<time>\S+) s agent (?P<agent>b?'(?:[^'\\]|\\.)*'|b?\"(?:[^\"\\]|\\.)*\"|.+?)"
    r"(?:, choice (?P<number>\d+))?: (?:"
    r"(?P<held>.+) waits until nothing else is ready|(?P<first>.+?) comes before .+?(?: and (?P<more>\d+) more)?)"
)
_FRAME, _LINK, _CALLBACK, _ARRIVAL = "the frame ", "the link from ", "the callback ", "an arrival of frames"
_AGENT = "agent "


class Choice(NamedTuple):
    """A choice in a run: candidate ``taken``, out of ``among`` ready candidates, ran first.

    Attributes
    ----------
    agent : Hashable
        The agent's name.
    time : float
        The simulated time in seconds.
    number : int
        The number of earlier choices of this agent at this time.
    taken, among : int
        The index of the chosen candidate in asyncio's order, from 0, and the number of candidates.
    kind : {"step", "frame", "agent"}
        The kind of candidates: steps of tasks, timers and callbacks; frames of several links; or agents.
    words : str
        The choice as text; empty if asyncio would have chosen the same.
    things : tuple of str
        The candidates' keys: names of tasks, senders, or agents.
    """

    agent: Hashable
    time: float
    number: int
    taken: int
    among: int = 0
    kind: Kind = "step"
    words: str = ""
    things: tuple[str, ...] = ()

    @property
    def place(self) -> tuple[Hashable, float, int, str]:
        """The fields that identify the choice."""
        return self.agent, self.time, self.number, self.kind

    def __str__(self) -> str:
        where = _where(self.agent, self.time, self.number)
        return self.words or f"{where}: {self.kind} {self.taken} of {self.among} first"


class Deferral(NamedTuple):
    """Delays a task of an agent, or a link to it, at one instant until nothing else of the agent is ready.

    To hold a link's frames for longer than an instant, use the fault `netsim.faults.Hold`.

    Where the order of agents is chosen, a deferral may also delay an agent until no other agent is ready.

    Attributes
    ----------
    agent : Hashable
        The agent's name.
    time : float
        The simulated time in seconds.
    thing : str
        The key of the delayed task, link or agent, as in `Choice.things`.
    words : str
        The deferral as text.
    """

    agent: Hashable
    time: float
    thing: str
    words: str = ""

    def __str__(self) -> str:
        return self.words or f"{_where(self.agent, self.time)}: {self.thing} waits until nothing else is ready"


def _where(agent: Hashable, time: float, number: int = 0) -> str:
    exact = f"{time:g}"
    shown = exact if float(exact) == time else repr(time)
    return f"at {shown} s agent {draws.plain_name(agent)!r}" + (f", choice {number + 1}" if number else "")


class Order:
    """Chooses which step of an agent runs first within an instant; ``Order()`` is asyncio's order.

    Parameters
    ----------
    seed : int, optional
        The seed of the choices; each agent has its own stream.
    method : {"random", "priorities"}
        "random" chooses uniformly. "priorities" gives each task and each link a priority; ``changes`` times, the
        priority of the chosen one drops below all others. This method can keep a task waiting for long (Burckhardt et
        al. 2010, "A randomized scheduler with probabilistic guarantees of finding bugs").
    changes : int
        With method "priorities": how often a priority drops.
    schedule : iterable of Choice or Deferral
        The choices that differ from asyncio's order. Cannot be combined with a seed.
    version : str
        The versions of netsim and Python with which the schedule was recorded.
    records : bool
        Whether to record the choices of the run.

    Attributes
    ----------
    choices : list of Choice
        The choices of the last run, if ``records`` is true; empty after a run with several workers.
    deferrals : list of Deferral
        The deferrals that had an effect in the last run, with their text.
    tells : bool
        Whether to describe recorded choices as text, which takes longer than to record them.

    Raises
    ------
    BadInput
        If an argument cannot be used.
    """

    def __init__(
        self,
        seed: int | None = None,
        *,
        method: Method = "random",
        changes: int = 2,
        schedule: Iterable[Choice | Deferral] = (),
        version: str = _VERSION,
        records: bool = False,
    ) -> None:
        self.seed = None if seed is None else check.integer("order", seed, low=0)
        self.method = check.one_of("method", method, ("random", "priorities"))
        self.changes = check.integer("changes", changes, low=0)
        self.schedule, self.version = tuple(schedule), version
        for each in self.schedule:
            check.instance("schedule", each, Choice | Deferral, "of netsim.testing.Choice and Deferral")
        if self.schedule and seed is not None:
            raise BadInput("schedule: must be left out with a seed, which draws all choices")
        self.records = self.tells = check.flag("records", records)
        self.choices: list[Choice] = []
        self.deferrals: list[Deferral] = []

    @classmethod
    def parse(cls, text: str) -> "Order":
        """Parse a seed, or a schedule with one change per line (or separated by semicolons), and return the order.

        Raises BadInput if the text is neither.
        """
        if text.strip().isdecimal():
            return cls(int(text))
        lines = [line for line in (each.strip() for each in re.split(r"\n|; (?=at )", text)) if line]
        version = lines.pop(0).removeprefix("# ") if lines and lines[0].startswith("# ") else _VERSION
        return cls(schedule=[_parsed(line) for line in lines], version=version)

    def __str__(self) -> str:
        if self.seed is not None:
            return f"order {self.seed}, {self.method}"
        return "\n".join([f"# {self.version}", *map(str, self.schedule)])

    def again(self) -> "Order":
        """Return the schedule that repeats the choices recorded in the last run."""
        return Order(schedule=[*self.deferrals, *(each for each in self.choices if each.taken)])

    def must_fit(self) -> None:
        """Raise BadInput if another version of Python or netsim made the schedule, because callbacks may differ."""
        if self.schedule and self.version != _VERSION:
            raise check.refuse("order", self.version, f"a schedule of {_VERSION}, whose callbacks have this order")


def _parsed(line: str) -> Choice | Deferral:
    found = _WORDS.fullmatch(line)
    if found is None:
        forms = "at TIME s agent NAME[, choice NUMBER]: … comes before …[ and NUMBER more], or … waits until nothing …"
        raise check.refuse("order", line, f"a seed, a file, or words of a schedule: {forms}")
    try:
        time, agent = float(found["time"]), ast.literal_eval(found["agent"])
    except (ValueError, SyntaxError):
        raise check.refuse("order", line, "words with a time in seconds and the name of an agent") from None
    if found["held"]:
        is_task = not found["held"].startswith((_LINK, _CALLBACK, _ARRIVAL, _AGENT))
        task = re.search(r"\((?:line \d+, )?([^()]+)\)$", found["held"]) if is_task else None
        return Deferral(agent, time, task[1] if task else found["held"], line)
    number, taken = int(found["number"] or 1) - 1, int(found["more"] or 0) + 1
    first = found["first"]
    kind: Kind = "frame" if first.startswith(_FRAME) else "agent" if first.startswith(_AGENT) else "step"
    return Choice(agent, time, number, taken, kind=kind, words=line)


_ORDER: ContextVar[Order | None] = ContextVar("ORDER", default=None)


def read(text: str) -> str:
    """Return an order as one line of text; the argument is a seed, a schedule (`Order.parse`) or a schedule's file.

    Raises BadInput for any other text, and for a schedule of other versions.
    """
    is_file = not text.lstrip().startswith("at ") and os.path.isfile(text)
    order = Order.parse(Path(text).read_text(encoding="utf-8") if is_file else text)
    order.must_fit()
    return "; ".join(map(str, order.schedule)) if order.seed is None else str(order.seed)


@contextmanager
def ordering(order: str | Order | None) -> Iterator[None]:
    """Use this order (as text: see `Order.parse`) in all runs inside the context that have no order of their own."""
    if order is None:
        yield
        return
    with assigned(_ORDER, Order.parse(order) if isinstance(order, str) else order):
        yield


def ordered(order: int | Order | None) -> Order | None:
    """Return the order for a run's argument ``order``; raise BadInput if the current context does not allow it."""
    found = _ORDER.get() if order is None else order if isinstance(order, Order) else Order(order)
    if found is not None:
        found.must_fit()
    return found


_Words = Callable[[Any, bool], str]
"""Returns the description of a candidate; with True, a description that includes the key used by `Deferral`."""

# --- choosing ---------------------------------------------------------------------------------------------------------


class Chooser:
    """Makes one agent's choices in one run: among its steps, among arriving frames, or among agents at its turn.

    Each kind of choice has its own random stream, so the draws do not depend on when an inbox is read.

    Parameters
    ----------
    order : Order
        The order of the run.
    agent : Hashable
        The agent's name.
    kind : {"step", "frame", "agent"}
        The kind of candidates.
    note : callable
        Called with a description of each change by a schedule.
    priorities : dict, optional
        Priorities shared by several choosers, by the candidates' keys.

    Attributes
    ----------
    draw : callable or None
        Returns the next random number of this chooser, uniform on [0, 1).
    is_plain : bool
        Whether every choice is simply ``int(draw() * count)``.
    is_settled : bool
        Whether every further choice is simply the highest priority, because priorities no longer change.
    is_numbered : bool
        Whether choices are counted, because they are recorded or taken from a schedule.
    deferrals : dict
        The agent's deferrals, as {time: {key: Deferral}}; deferrals of all agents, if the chooser's kind is "agent".
    moved : set of float
        The times (s) at which the chooser has reordered frames of different links. Frames that arrive at such a time
        but are processed later come after these.
    """

    def __init__(
        self,
        order: Order,
        agent: Hashable,
        kind: Kind,
        note: Callable[[str], None],
        priorities: dict[str, float] | None = None,
    ) -> None:
        self.agent, self._kind, self._order, self._note = agent, kind, order, note
        self._taken = {
            each.place[1:3]: each.taken
            for each in order.schedule
            if isinstance(each, Choice) and each.agent == agent and each.kind == kind
        }
        self.deferrals: dict[float, dict[str, Deferral]] = {}
        for each in order.schedule:
            if isinstance(each, Deferral) and (
                each.thing.startswith(_AGENT) if kind == "agent" else each.agent == agent
            ):
                self.deferrals.setdefault(each.time, {})[each.thing] = each
        self.moved: set[float] = set()
        self._time, self._number, self._made = -1.0, 0, 0
        self._priorities: dict[str, float] = {} if priorities is None else priorities
        self.draw: Callable[[], float] | None = None
        self._changes: list[int] | None = None
        if order.seed is not None:
            purpose = {"step": "order", "frame": "order of frames", "agent": "order of agents"}[kind]
            self.draw = draws.Stream(draws.stream_key(order.seed, draws.name_key(agent), purpose)).uniform
            if order.method == "priorities":
                self._changes = [int(self.draw() * _CHANGE_WITHIN) for _ in range(order.changes)]
        self.is_numbered = order.records or bool(self._taken)
        self.is_settled = False
        self.is_plain = self.draw is not None and self._changes is None and not self.is_numbered

    def pick(
        self, time: float, things: Sequence[Any], keys: Sequence[str], words: _Words, ranks: list[float] | None = None
    ) -> int:
        """Return the index of the candidate that is first; ``keys`` identify the candidates, unless ``is_plain``.

        ``ranks`` are as for `by_priority`.
        """
        which = 0
        if self.draw is not None:
            if self._changes is None:
                which = int(self.draw() * len(things))
            else:
                which = self.by_priority(keys, [] if ranks is None else ranks)
        if not self.is_numbered:
            return which
        number = self._number = self._number + 1 if time == self._time else 0
        self._time = time
        if self._taken:
            which = min(self._taken.get((time, number), 0), len(things) - 1)
        order, words_of_it = self._order, ""
        if which and (order.tells or not order.records):
            more = f" and {which - 1} more" if which > 1 else ""
            said = f"{words(things[which], False)} comes before {words(things[0], False)}{more}"
            words_of_it = f"{_where(self.agent, time, number)}: {said}"
            if self._taken:
                self._note(said)
        if order.records:
            # This takes half the time of the constructor, with the same result.
            order.choices.append(
                _tuple(Choice, (self.agent, time, number, which, len(things), self._kind, words_of_it, tuple(keys)))
            )
        return which

    def by_priority(self, keys: Sequence[str], ranks: list[float]) -> int:
        """Return the index of the step with the highest priority.

        ``ranks`` holds the priorities of the first steps, as far as known from the last choice; the others are
        appended.
        """
        priorities, made = self._priorities, self._made
        self._made = made + 1
        self.add_ranks(keys, ranks)
        place = ranks.index(max(ranks))
        if made >= _CHANGE_WITHIN:
            self.is_settled = not self.is_numbered
        elif made in self._changes:  # type: ignore[operator]
            for number, step in enumerate(self._changes or ()):
                if step == made:
                    priorities[keys[place]] = -1.0 - number
                    ranks[:] = [priorities[each] for each in keys]
                    place = ranks.index(max(ranks))
        return place

    def add_ranks(self, keys: Sequence[str], ranks: list[float]) -> None:
        """Append priorities for the steps that have none in ``ranks``."""
        priorities = self._priorities
        for each in keys[len(ranks) :]:
            rank = priorities.get(each)
            if rank is None:
                rank = priorities[each] = self.draw()  # type: ignore[misc]
            ranks.append(rank)

    def rest(self, time: float, things: Sequence[Any], keys: Sequence[str], words: _Words) -> list[int]:
        """Return the indices of the candidates that no deferral delays or, if all are delayed, of all candidates."""
        held = self.deferrals.get(time, {})
        left = [place for place, key in enumerate(keys) if key not in held]
        if not left or len(left) == len(things):
            return list(range(len(things)))
        for key, thing in zip(keys, things, strict=True):
            hold = held.get(key)
            if hold is not None and all(known[:3] != hold[:3] for known in self._order.deferrals):
                said = f"{words(thing, True)} waits until nothing else is ready"
                self._order.deferrals.append(hold._replace(words=f"{_where(hold.agent, time)}: {said}"))
                self._note(said)
        return left

    def arrange(self, entries: list[Any]) -> list[Any]:
        """Return sorted arrivals (`netsim.core.arrival_queue.Entry`), with those of equal time in the chosen order."""
        arranged: list[Any] = []
        first, count = 0, len(entries)
        while first < count:
            time, end = entries[first][0], first + 1
            while end < count and entries[end][0] == time:
                end += 1
            links: dict[Hashable, deque[Any]] = {}
            for entry in entries[first:end]:
                links.setdefault(entry[3].sender, deque()).append(entry)
            while links:
                heads = sorted((link[0] for link in links.values()), key=lambda entry: entry[1])
                if time in self.deferrals:
                    heads = [heads[each] for each in self.rest(time, heads, [*map(_sender, heads)], _frame_in_words)]
                keys = () if self.is_plain else [_sender(each) for each in heads]
                which = self.pick(time, heads, keys, _frame_in_words) if len(heads) > 1 else 0
                link = links[heads[which][3].sender]
                arranged.append(link.popleft())
                if not link:
                    del links[heads[which][3].sender]
            if any(map(operator.is_not, arranged[first:], entries[first:end])):
                self.moved.add(time)
            first = end
        return arranged


def _sender(entry: Any) -> str:
    return f"{_LINK}{entry[3].sender!r}"


def _frame_in_words(entry: Any, named: bool) -> str:
    return _sender(entry) if named else f"{_FRAME}{entry[3].kind!r} of {entry[3].sender!r}"


# --- ready callbacks --------------------------------------------------------------------------------------------------

# Names by which a callback is recognised as a task step: asyncio's compiled tasks use a wrapper object for steps, and a
# function for steps after a future.
_STEP = "TaskStepMethWrapper"
_STEPS = frozenset([_STEP, "task_wakeup", "TaskWakeup", "__step", "__wakeup"])

Choosers = tuple[Chooser, Chooser | None]
"""An agent's two choosers: among its steps and, if the order of agents is chosen, among agents."""

_PLAIN = object()
"""Marks a callback that keeps its position."""


class _Bare(NamedTuple):
    """An agent's callback that is not a task step; with ``in_turn`` such callbacks keep their mutual order."""

    name: str
    in_turn: bool


_UNAWAITED = _Bare("the end of a sleep", in_turn=False)


class _AgentQueue:
    """The ready callbacks of one agent, in segments separated by callbacks that no agent owns.

    Attributes
    ----------
    name : str
        The agent's key in choices among agents.
    turns : Chooser or None
        Chooses which agent runs at this agent's turn; None if the order of agents is not chosen.
    handles : list
        The callbacks of the first segment, in asyncio's order.
    things : list
        What each of the first callbacks resumes, such as a task (`_thing`); computed when a choice is due.
    keys : list of str
        The keys of ``things``; empty if the chooser does not need them.
    ranks : list of float
        The priorities of the first of ``things``, for the chooser.
    special : int
        How many of ``things`` are neither tasks nor timeouts.
    later : deque of list
        The callbacks of the other segments.
    last : list
        The callbacks of the last segment, whose number is ``epoch``.
    """

    __slots__ = ("chooser", "epoch", "handles", "keys", "last", "later", "name", "ranks", "special", "things", "turns")

    def __init__(self, chooser: Chooser, turns: Chooser | None) -> None:
        self.chooser, self.turns = chooser, turns
        self.name = _named(chooser.agent)
        self.clear()

    def clear(self) -> None:
        """Remove all callbacks."""
        self.handles: list[Any] = []
        self._forget_things()
        self.later: deque[list[Any]] = deque()
        self.last, self.epoch = self.handles, -1

    def _forget_things(self) -> None:
        self.things: list[Any] = []
        self.keys: list[str] = []
        self.ranks: list[float] = []
        self.special = 0

    def open(self, epoch: int) -> None:
        """Begin a segment."""
        self.epoch = epoch
        if self.handles or self.later:
            self.last = []
            self.later.append(self.last)

    def pop(self, now: Callable[[], float]) -> Any:
        """Remove and return the callback that is next."""
        handles, things, chooser = self.handles, self.things, self.chooser
        if not handles:
            handles = self.handles = self.later.popleft()
        if len(handles) == 1:
            if things:
                self._forget_things()
            return handles.pop()
        if len(things) < len(handles):
            self._find_things()
        if self.special or chooser.deferrals:
            place = self._place(now())
            self.special -= things[place] is _PLAIN or type(things[place]) is _Bare
            self.ranks.clear()
        elif chooser.is_plain:
            place = int(chooser.draw() * len(handles))  # type: ignore[misc]
        elif chooser.is_settled:
            ranks = self.ranks
            if len(ranks) < len(handles):
                chooser.add_ranks(self.keys, ranks)
            place = ranks.index(max(ranks))
        elif chooser.is_numbered or chooser.draw is None:
            place = chooser.pick(now(), things, self.keys, _in_words, self.ranks)
        else:
            place = chooser.by_priority(self.keys, self.ranks)
        if self.ranks:
            del self.ranks[place]
        del things[place]
        if not chooser.is_plain:
            del self.keys[place]
        return handles.pop(place)

    def _find_things(self) -> None:
        """Determine ``things`` and ``keys`` for the callbacks that were added since the last choice."""
        things, keys = self.things, None if self.chooser.is_plain else self.keys
        for handle in self.handles[len(things) :]:
            callback = handle._callback
            kind = type(callback)
            if kind.__name__ == _STEP or (kind is BuiltinFunctionType and callback.__name__ in _STEPS):
                thing = callback.__self__
                if keys is not None:
                    keys.append(thing.get_name())
            elif keys is None and callback is END_OF_SLEEP:
                # Without keys, it does not matter which task was sleeping.
                thing = None
            else:
                thing = (_waiting(handle._args[0]) or _UNAWAITED) if callback is END_OF_SLEEP else _thing(handle)
                self.special += thing is _PLAIN or thing.__class__ is _Bare
                if keys is not None:
                    keys.append(_key(thing))
            things.append(thing)

    def _place(self, now: float) -> int:
        """Return the index of the next callback, if deferrals or callbacks with a fixed position limit the choice."""
        chooser, things, keys = self.chooser, self.things, self.keys
        places = chooser.rest(now, things, keys, _in_words) if chooser.deferrals else list(range(len(things)))
        offered: list[int] = []
        in_turn = False
        for place in places:
            thing = things[place]
            if thing is _PLAIN:
                if not offered:
                    return place
                continue
            if type(thing) is _Bare and thing.in_turn:
                if in_turn:
                    continue
                in_turn = True
            offered.append(place)
        if len(offered) == 1:
            return offered[0]
        own = [keys[place] for place in offered] if keys else ()
        return offered[chooser.pick(now, [things[place] for place in offered], own, _in_words)]


def _named(agent: Hashable) -> str:
    return f"{_AGENT}{draws.plain_name(agent)!r}"


def _agent_in_words(queue: _AgentQueue, named: bool) -> str:
    return queue.name


class ReadyQueue:
    """A loop's ready callbacks, in place of asyncio's deque; an `Order` determines the order of an agent's callbacks.

    Each entry of the queue is an agent or a callback without an agent. When an agent's entry is reached, the agent's
    next callback is chosen. So each agent has as many entries as callbacks, and its choices do not depend on other
    agents.
    """

    def __init__(self, ready: Iterable[Any], loop: "Loop", choosers: Mapping[TaskOwner, Choosers]) -> None:
        self._now = loop.now
        self._places: deque[Any] = deque()
        self._queues = {owner: _AgentQueue(*own) for owner, own in choosers.items()}
        self._epoch = 0
        for handle in ready:
            self.append(handle)

    def append(self, handle: Any) -> None:
        """Add a callback."""
        queue = self._queues.get(handle._context.get(OWNER))
        if queue is None:
            self._epoch += 1
            self._places.append(handle)
            return
        if queue.epoch != self._epoch:
            queue.open(self._epoch)
        queue.last.append(handle)
        self._places.append(queue)

    def popleft(self) -> Any:
        """Remove and return the callback that is next."""
        place = self._places.popleft()
        if type(place) is not _AgentQueue:
            return place
        if place.turns is not None and self._places:
            place = self._turn(place, place.turns)
        return place.pop(self._now)

    def _turn(self, first: _AgentQueue, turns: Chooser) -> _AgentQueue:
        """Return the agent that runs at the turn of ``first``; if it is another agent, ``first`` gets the next turn."""
        places, now = self._places, self._now()
        is_held = now in turns.deferrals
        found = {first: -1}
        for at, place in enumerate(places):
            # No agent overtakes a callback without an agent. Looking at the first entries suffices, unless an agent is
            # delayed.
            if type(place) is not _AgentQueue or (not is_held and (at == _MOST_PLACES or len(found) == _MOST_AGENTS)):
                break
            found.setdefault(place, at)
        if len(found) == 1:
            return first
        ready = list(found)
        keys = [queue.name for queue in ready]
        if is_held:
            ready = [ready[each] for each in turns.rest(now, ready, keys, _agent_in_words)][:_MOST_AGENTS]
            keys = [queue.name for queue in ready]
        chosen = ready[turns.pick(now, ready, keys, _agent_in_words) if len(ready) > 1 else 0]
        if chosen is not first:
            del places[found[chosen]]
            places.appendleft(first)
        return chosen

    def clear(self) -> None:
        """Remove all callbacks."""
        self._places.clear()
        for queue in self._queues.values():
            queue.clear()

    def __len__(self) -> int:
        return len(self._places)

    def __iter__(self) -> Iterator[Any]:
        own = {queue: itertools.chain(list(queue.handles), *map(list, queue.later)) for queue in self._queues.values()}
        return iter([next(own[place]) if type(place) is _AgentQueue else place for place in self._places])


def install(loop: "Loop", choosers: Mapping[TaskOwner, Choosers]) -> None:
    """From now on, let a loop run each agent's callbacks in the order that the agent's choosers determine."""
    asyncios: Any = loop
    asyncios._ready = loop.clock.ready = ReadyQueue(asyncios._ready, loop, choosers)


def _thing(handle: Any) -> Any:
    """Return what a callback resumes: a task, a timeout or a `_Bare` callback; `_PLAIN` if it keeps its position."""
    callback, args, is_timer = timed(handle)
    if callback is None:
        return _PLAIN
    if _is_step(callback):
        return callback.__self__
    found = getattr(callback, "__self__", None)
    if is_timer and isinstance(getattr(found, "_task", None), asyncio.Task):
        return found
    is_library = _is_library(callback)
    if is_timer and is_library:
        if getattr(callback, "__name__", "") == "_on_timer":
            return _Bare(_ARRIVAL, in_turn=False)
        for waited in args:
            if (task := _waiting(waited)) is not None:
                return task
    if is_library:
        return _PLAIN
    name = getattr(callback, "__qualname__", None) or type(callback).__name__
    return _Bare(f"{_CALLBACK}{_short(name)}", in_turn=not is_timer)


def _waiting(future: Any) -> Any:
    """Return the task that waits for a future; None if there is none."""
    callbacks = getattr(future, "_callbacks", None) or ()
    return next((waiting.__self__ for waiting, _ in callbacks if _is_step(waiting)), None)


def _is_step(callback: Any) -> bool:
    name = getattr(callback, "__name__", type(callback).__name__)
    return name in _STEPS and isinstance(callback.__self__, asyncio.Task)


def _is_library(callback: Any) -> bool:
    callback = getattr(callback, "func", callback)
    module = getattr(callback, "__module__", None) or type(getattr(callback, "__self__", callback)).__module__
    return str(module).partition(".")[0] in ("asyncio", "_asyncio", "netsim")


def _key(thing: Any) -> str:
    if isinstance(thing, asyncio.Task):
        return thing.get_name()
    if isinstance(thing, _Bare):
        return thing.name
    return "" if thing is _PLAIN else str(thing._task.get_name())


def _in_words(thing: Any, named: bool) -> str:
    if isinstance(thing, _Bare):
        return thing.name
    if isinstance(thing, asyncio.Task):
        return _task_in_words(thing, named)
    return f"the timeout of {_task_in_words(thing._task, named)}"


def _task_in_words(task: "asyncio.Task[Any]", named: bool) -> str:
    """Return a task's function, the line of the agent's code at which it waits and, if ``named``, its name."""
    inner: Any = task.get_coro()
    function, line = _short(inner.__qualname__), ""
    while inspect.iscoroutine(inner) and inner.cr_frame is not None:
        if inner.cr_code.co_filename.startswith(_FOLDERS):
            break
        line = f"line {inner.cr_frame.f_lineno}"
        inner = inner.cr_await
    more = ", ".join(filter(None, [line, task.get_name() if named else ""]))
    return f"{function} ({more})" if more else function


def _short(name: str) -> str:
    return name.rpartition("<locals>.")[2]
