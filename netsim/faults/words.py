"""Parse faults written as text, such as ``--at "1.2 crash 3 until 2"``, and append them to a network's own faults.

Such a text is called an order. An order begins a fault, or ends one.
"""

import csv
import dataclasses
import math
import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import networkx as nx

from netsim.errors import BadInput, one_line
from netsim.faults.events import Crash, Fault, Hold, LinkChange, LinkDown, Lose, Partition, Straggler
from netsim.faults.script import Faults
from netsim.util import check
from netsim.util.datafiles import used
from netsim.util.variables import assigned

__all__ = ["FORMS", "Order", "append", "appending", "as_text", "joined", "parse", "read"]

FORMS = (
    "TIME crash NODE [until TIME] [keeping state]",
    "TIME restart NODE [keeping state]",
    "TIME cut NODE-NODE [until TIME] [dropping frames]",
    "TIME cut NODE->NODE [until TIME] [dropping frames]",
    "TIME heal NODE-NODE",
    "TIME heal NODE->NODE",
    "TIME hold NODE-NODE [until TIME]",
    "TIME hold NODE->NODE [until TIME]",
    "TIME hold NODE [until TIME]",
    "TIME release NODE-NODE",
    "TIME release NODE->NODE",
    "TIME release NODE",
    "TIME change NODE-NODE to SETTING=NUMBER,… [until TIME]",
    "TIME change NODE->NODE to SETTING=NUMBER,… [until TIME]",
    "TIME delay NODE by SECONDS [until TIME]",
    "TIME lose NODE-NODE",
    "TIME partition NODE,NODE,… [until TIME] [dropping frames]",
    "TIME partition NODE,NODE,…-> [until TIME] [dropping frames]",
)
"""The forms of an order. Times are in seconds of simulated time; NODE is a node's name, converted to text; SETTING is
the name of a setting of `netsim.Link` that may change, such as ``loss``.
"""

_WORDS = re.compile(
    r"(?P<at>\S+)\s+(?P<what>\S+)\s+(?P<target>\S.*?)(?:\s+by\s+(?P<by>\S+))?(?:\s+to\s+(?P<to>\S+))?"
    r"(?:\s+until\s+(?P<until>\S+))?(?P<keeps>\s+keeping\s+state)?(?P<drops>\s+dropping\s+frames)?"
)

# Suffix of an order that drops frames in flight.
_DROPPING = " dropping frames"

# The columns of a schedule file, see `read`.
_COLUMNS = ["time", "link", "what"]

# The maximum number of node names that an error message lists.
_MOST_SHOWN = 12


@dataclass(frozen=True)
class Order:
    """An order after parsing; node names are looked up later, when the graph is known.

    Attributes
    ----------
    text : str
        The text of the order, with single spaces between words.
    at : float
        The time of the order in seconds.
    by, until : float or None
        The delay after the word "by", and the time after the word "until", in seconds. None if the order does not
        contain the word.
    what : str
        The verb, such as "crash".
    target : str
        The nodes or the link, as text.
    keeps_state : bool
        Whether a crashed node keeps its state.
    drops : bool
        Whether frames in flight are dropped.
    to : tuple of pairs
        The changed settings of a link: (name, number).
    """

    text: str
    at: float
    what: str
    target: str
    by: float | None
    until: float | None
    keeps_state: bool
    drops: bool = False
    to: tuple[tuple[str, float], ...] = ()

    @classmethod
    def of(cls, text: str) -> "Order":
        """Parse a text; raises BadInput if it matches none of the `FORMS`."""
        text = " ".join(text.split())
        found = _WORDS.fullmatch(text)
        if found is None:
            raise _refused(text, f"one of: {'; '.join(FORMS)}")
        what, keeps, drops = found["what"], found["keeps"] is not None, found["drops"] is not None
        form = next((form for form in FORMS if form.split()[1] == what), None)
        if form is None:
            raise _refused(text, f"one of: {'; '.join(FORMS)}")
        at, by, until = (_seconds(text, name, found[name]) for name in ("at", "by", "until"))
        if (by is None) != ("by" not in form) or (until is not None and "until" not in form):
            raise _refused(text, form)
        if (keeps and "keeping" not in form) or (drops and "dropping" not in form):
            raise _refused(text, form)
        if (found["to"] is None) != (" to " not in form):
            raise _refused(text, form)
        to = () if found["to"] is None else _settings(text, found["to"])
        if what == "crash" and keeps and until is None:
            # An order "crash" without "until" must not specify whether the state is kept: a later order "restart" does,
            # if there is one.
            raise _refused(text, f"{FORMS[0]}, with until if the state is kept; or {FORMS[1]} later on")
        assert at is not None
        if until is not None and until <= at:
            raise _refused(text, f"{form}, which ends after {at:g} s")
        return cls(text, at, what, found["target"], by, until, keeps, drops, to)

    def onto(self, faults: Faults, graph: "nx.Graph[Any]") -> Faults:
        """Return ``faults`` with the order applied: one fault is appended, or faults are ended.

        Raises BadInput if the graph lacks the order's nodes or link, or if there is no fault to end.
        """
        if self.what in _ENDING:
            return _ENDING[self.what](self, faults, graph)
        return Faults([*faults, _new(self, graph)])

    def refused(self, allowed: str) -> BadInput:
        """Return the error for an order that cannot be applied."""
        return _refused(self.text, allowed)


def _refused(text: str, allowed: str) -> BadInput:
    return BadInput(f"at = {text!r}: must be {allowed}")


def _seconds(text: str, name: str, word: str | None) -> float | None:
    """Parse a word as a number of seconds; None stays None. Raises BadInput for an invalid number."""
    if word is None:
        return None
    value = _number_of(word)
    if not math.isfinite(value) or value < 0 or (name == "by" and value == 0):
        place = {"at": "begin with a time", "by": "name a delay", "until": "end at a time"}[name]
        raise BadInput(f"at = {text!r}: must {place} in seconds, {'>' if name == 'by' else '>='} 0, not {word!r}")
    return value


def _number_of(word: str) -> float:
    """Return a word as a number; NaN if it is none."""
    try:
        return float(word)
    except ValueError:
        return math.nan


def _settings(text: str, words: str) -> tuple[tuple[str, float], ...]:
    """Parse changed settings, such as "loss=0.3,rate=1e6"; raises BadInput for any other text."""
    found = []
    for part in words.split(","):
        name, _, word = part.partition("=")
        value = _number_of(word)
        if name not in _NUMBERS or math.isnan(value):
            raise BadInput(f"at = {text!r}: must have SETTING=NUMBER of {', '.join(_NUMBERS)}, not {part!r}")
        found.append((name, int(value) if _NUMBERS[name] is int and value.is_integer() else value))
    return tuple(found)


# The settings of a link that an order may change, and the types of their values.
_NUMBERS: dict[str, type] = {
    "latency": float,
    "loss": float,
    "rate": float,
    "queue": int,
    "queue_bits": int,
    "duplicate": float,
    "corrupt": float,
}


# --- names of a graph -------------------------------------------------------------------------------------------------


def _nodes(graph: "nx.Graph[Any]") -> dict[str, Hashable]:
    """Return {name as text: node}, without nodes whose names have the same text, such as 1 and "1"."""
    found: dict[str, Hashable] = {}
    twice = set()
    for node in graph:
        text = " ".join(str(node).split())
        (twice.add(text) if text in found else found.__setitem__(text, node))
    return {text: node for text, node in found.items() if text not in twice}


def _shown(graph: "nx.Graph[Any]") -> str:
    names = [str(node) for _, node in zip(range(_MOST_SHOWN), graph, strict=False)]
    return ", ".join(names) + (f", … ({len(graph)} in all)" if len(graph) > len(names) else "")


def _node(order: Order, graph: "nx.Graph[Any]") -> Hashable:
    nodes = _nodes(graph)
    if order.target not in nodes:
        raise order.refused(f"of a node of the graph: {_shown(graph)}")
    return nodes[order.target]


def _links(order: Order, graph: "nx.Graph[Any]", between: str) -> list[tuple[Hashable, Hashable]]:
    """Return all links that the order's target may mean: there may be several, because names may contain hyphens."""
    nodes, target = _nodes(graph), order.target
    places = [place for place in range(len(target)) if target.startswith(between, place)]
    parts = [(target[:place].strip(), target[place + len(between) :].strip()) for place in places]
    return [(nodes[a], nodes[b]) for a, b in parts if a in nodes and b in nodes and graph.has_edge(nodes[a], nodes[b])]


def _link(order: Order, graph: "nx.Graph[Any]", between: str = "-") -> tuple[Hashable, Hashable]:
    """Return the link that the order's target names; raises BadInput unless there is exactly one."""
    found = _links(order, graph, between)
    if len(found) != 1:
        raise order.refused(f"of a link of the graph, NODE{between}NODE, of nodes {_shown(graph)}")
    return found[0]


def _side(order: Order, graph: "nx.Graph[Any]") -> list[Hashable]:
    """Return the nodes that the order's target lists. Names may contain commas, so the longest match is taken."""
    nodes, side = _nodes(graph), []
    words = order.target.removesuffix("->").split(",")
    while words:
        texts = [",".join(words[:count]).strip() for count in range(len(words), 0, -1)]
        name = next((text for text in texts if text in nodes), None)
        if name is None:
            raise order.refused(f"of nodes of the graph, with commas between: {_shown(graph)}")
        side.append(nodes[name])
        words = words[1 + name.count(",") :]
    if not len(set(side)) < len(graph):
        raise order.refused("of some of the nodes, and not all")
    return side


# --- what each verb does ----------------------------------------------------------------------------------------------


def _with_ends(
    order: Order, faults: Faults, concerned: Callable[[Fault], bool], what: str, *, way: Any = None, **more: Any
) -> Faults:
    """Return a copy of ``faults`` in which the active faults that ``concerned`` accepts end at the order's time.

    The copy leaves out a fault that begins exactly at the order's time, because this fault would have no duration. If
    the directed link ``way`` is given, and a fault concerns both directions of the link, the fault ends only for this
    direction.
    """
    kept: list[Fault] = []
    changed: Any = dataclasses.replace
    held = False
    for fault in faults:
        active = fault.begins <= order.at and (fault.ends is None or fault.ends > order.at)
        if not (active and concerned(fault)):
            kept.append(fault)
            continue
        held, change = True, dict(more)
        if way is not None and isinstance(fault, LinkDown | Hold) and way[::-1] in fault.links():
            change |= {"sender": way[0], "receiver": way[1], "one_way": True}
            # The other direction stays on hold without interruption, because even an instant would release its frames.
            kept.append(changed(fault, sender=way[1], receiver=way[0], one_way=True))
        if fault.begins < order.at:
            kept.append(changed(fault, until=order.at, **change))
    if not held:
        raise order.refused(f"of {what} at that time")
    return Faults(kept)


def _new(order: Order, graph: "nx.Graph[Any]") -> Fault:
    """Return the fault that begins by an order."""
    match order.what:
        case "crash":
            return Crash(_node(order, graph), order.at, order.until, keeps_state=order.keeps_state)
        case "cut":
            sender, receiver, one_way = _ends(order, graph)
            return LinkDown(sender, receiver, order.at, order.until, one_way, order.drops)
        case "change":
            sender, receiver, one_way = _ends(order, graph)
            settings: dict[str, Any] = dict(order.to)
            with check.naming(f"at = {order.text!r}: "):
                return LinkChange(sender, receiver, order.at, order.until, one_way, **settings)
        case "hold":
            held, other, one_way = _held(order, graph)
            return Hold(held, other, order.at, order.until, one_way)
        case "delay":
            assert order.by is not None
            return Straggler(_node(order, graph), order.by, order.at, order.until)
        case "lose":
            return Lose(*_link(order, graph), order.at)
    return Partition(_side(order, graph), order.at, order.until, order.target.endswith("->"), order.drops)


def _ends(order: Order, graph: "nx.Graph[Any]") -> tuple[Hashable, Hashable, bool]:
    """Return (sender, receiver, one_way) of the link that the order's target names."""
    one_way = "->" in order.target and not _links(order, graph, "-")
    return *_link(order, graph, "->" if one_way else "-"), one_way


def _held(order: Order, graph: "nx.Graph[Any]") -> tuple[Hashable, Hashable | None, bool]:
    """Return (sender, receiver, one_way) of the link on hold; if a node is on hold, (node, None, False)."""
    if order.target in _nodes(graph):
        return _node(order, graph), None, False
    return _ends(order, graph)


def _release(order: Order, faults: Faults, graph: "nx.Graph[Any]") -> Faults:
    sender, receiver, one_way = _held(order, graph)
    way = (sender, receiver)

    def concerned(fault: Fault) -> bool:
        if not isinstance(fault, Hold) or (receiver is None) != (fault.receiver is None):
            return False
        if receiver is None:
            return fault.sender == sender
        return way in fault.links() or (not one_way and way[::-1] in fault.links())

    way_only = way if one_way and graph.has_edge(receiver, sender) else None
    return _with_ends(order, faults, concerned, "a link or a node that is on hold", way=way_only)


def _restart(order: Order, faults: Faults, graph: "nx.Graph[Any]") -> Faults:
    node = _node(order, graph)

    def concerned(fault: Fault) -> bool:
        return isinstance(fault, Crash) and fault.agent == node

    return _with_ends(order, faults, concerned, "a node that has crashed, and is down", keeps_state=order.keeps_state)


def _heal(order: Order, faults: Faults, graph: "nx.Graph[Any]") -> Faults:
    sender, receiver, one_way = _ends(order, graph)
    way = (sender, receiver)

    def concerned(fault: Fault) -> bool:
        if not isinstance(fault, LinkDown | Partition):
            return False
        links = fault.links_in(graph)
        return way in links or (not one_way and way[::-1] in links)

    way_only = way if one_way and graph.has_edge(receiver, sender) else None
    return _with_ends(order, faults, concerned, "a link that is cut", way=way_only)


_ENDING = {"restart": _restart, "heal": _heal, "release": _release}


# --- several orders ---------------------------------------------------------------------------------------------------


def _orders(texts: str | Iterable[str]) -> list[Order]:
    """Parse texts, each with one or more orders separated by semicolons, and return the orders sorted by time."""
    several = [texts] if isinstance(texts, str) else list(texts)
    if not all(isinstance(text, str) for text in several):
        raise BadInput(f"at = {several!r}: must be a text, or a list of texts, such as '1.2 crash 3'")
    parts = [part for text in several for part in text.split(";")]
    # Sort by time: "restart" or "heal" must come after the order that began the fault.
    return sorted((Order.of(part) for part in parts), key=lambda order: order.at)


def joined(texts: str | Sequence[str]) -> str:
    """Join orders into one text, separated by semicolons and sorted by time; raises BadInput if a text is no order."""
    return "; ".join(order.text for order in _orders(texts))


def parse(texts: str | Iterable[str], graph: "nx.Graph[Any]", own: Iterable[Fault] = ()) -> Faults:
    """Parse orders, and apply them to a network's own faults.

    Parameters
    ----------
    texts : str or iterable of str
        Orders of the `FORMS`; one text may contain several orders, separated by semicolons. ``restart`` ends a `Crash`,
        ``heal`` ends a `LinkDown` or a `Partition`, and ``release`` ends a `Hold`. These orders may also end faults in
        ``own``.
    graph : networkx Graph
        The network's graph; orders name its nodes by the text of their names.
    own : iterable of Fault
        The faults that the network has already.

    Raises
    ------
    BadInput
        If a text is not an order, the graph lacks an order's node or link, or there is no fault to end.
    """
    faults = Faults(own)
    for order in _orders(texts):
        faults = order.onto(faults, graph)
    faults.must_fit(graph)
    return faults


def read(path: str | Path, graph: "nx.Graph[Any]", own: Iterable[Fault] = ()) -> Faults:
    """Read orders from a csv file, and apply them to a network's own faults as `parse` does.

    Parameters
    ----------
    path : path
        A file with three columns. ``time`` is in seconds. ``link`` is a link or node as in the `FORMS`, such as ``0-1``
        or ``0->1``. ``what`` is the rest of the order, such as ``cut``, ``heal``, ``hold``, ``release``, ``lose``,
        ``cut until 5`` or ``change to loss=0.3``. It may also be only changed settings such as ``loss=0.3``; several
        need quotation marks: ``"loss=0.3,rate=1e6"``.
    graph : networkx Graph
        The network's graph; orders name its nodes by the text of their names.
    own : iterable of Fault
        The faults that the network has already.

    Raises
    ------
    BadInput
        As `parse` does, or if the file cannot be read, or a row is not an order; the message names the row.
    """
    place = used(Path(path))
    try:
        with place.open(encoding="utf-8-sig", newline="") as file:
            rows = list(csv.reader(file, skipinitialspace=True))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise BadInput(f"path = {str(path)!r}: must be a csv file that can be read ({one_line(error)})") from None
    if not rows or [name.strip().lower() for name in rows[0]] != _COLUMNS:
        raise check.refuse("path", str(path), f"a csv file with the columns {', '.join(_COLUMNS)}")
    orders, faults = [], list(Faults(own))
    for number, row in enumerate(rows[1:], 2):
        with check.naming(f"path = {str(path)!r}: line {number}: "):
            orders += [(_row_order(row), number)] if row else []
    for order, number in sorted(orders, key=lambda each: each[0].at):
        with check.naming(f"path = {str(path)!r}: line {number}: "):
            if order.what in _ENDING:
                faults = list(order.onto(Faults(faults), graph))
            else:
                faults.append(_new(order, graph))
    found = Faults(faults)
    found.must_fit(graph)
    return found


def _row_order(row: Sequence[str]) -> Order:
    """Return the order in a row of a schedule; raises BadInput for any other row."""
    if len(row) != len(_COLUMNS):
        raise BadInput(f"must have {len(_COLUMNS)} columns, not {len(row)}")
    time, link, what = (cell.strip() for cell in row)
    verb, _, rest = (f"change to {what}" if "=" in what.split(" ")[0] else what).partition(" ")
    return Order.of(f"{time} {verb} {link} {rest}")


# --- from faults to words ---------------------------------------------------------------------------------------------


def as_text(faults: Iterable[Fault], graph: "nx.Graph[Any]") -> str | None:
    """Return faults as a text of orders, from which `parse` restores the same faults; "" for no faults.

    Returns None if this is not possible, because a kind of fault has no order, or two nodes' names have the same text.
    """
    listed = Faults(faults)
    texts = [_text_of(fault) for fault in listed]
    if not all(texts):
        return None
    text = "; ".join(map(str, texts))
    try:
        found = parse(text, graph) if text else Faults()
    except BadInput:
        return None
    return text if list(map(_comparable, found)) == list(map(_comparable, listed)) else None


def _text_of(fault: Fault) -> str | None:
    at, until = _number(fault.begins), "" if fault.ends is None else f" until {_number(fault.ends)}"
    match fault:
        case Crash(agent=agent, keeps_state=keeps):
            return f"{at} crash {agent}{until}" + (" keeping state" if keeps and until else "")
        case LinkDown(sender=sender, receiver=receiver, one_way=one_way, drops=drops):
            return f"{at} cut {sender}{'->' if one_way else '-'}{receiver}{until}{_DROPPING if drops else ''}"
        case LinkChange(sender=sender, receiver=receiver, one_way=one_way, settings=settings):
            if not all(name in _NUMBERS and isinstance(value, float | int) for name, value in settings.items()):
                return None
            to = ",".join(f"{name}={_number(value)}" for name, value in settings.items())
            return f"{at} change {sender}{'->' if one_way else '-'}{receiver} to {to}{until}"
        case Hold(sender=sender, receiver=None, one_way=False):
            return f"{at} hold {sender}{until}"
        case Hold(sender=sender, receiver=receiver, one_way=one_way) if receiver is not None:
            return f"{at} hold {sender}{'->' if one_way else '-'}{receiver}{until}"
        case Lose(sender=sender, receiver=receiver):
            return f"{at} lose {sender}-{receiver}"
        case Partition(side=side, one_way=one_way, drops=drops):
            arrow, dropping = "->" if one_way else "", _DROPPING if drops else ""
            return f"{at} partition {','.join(map(str, side))}{arrow}{until}{dropping}"
        case Straggler(agent=agent, delay=delay):
            return f"{at} delay {agent} by {_number(delay)}{until}"
    return None


def _number(value: float) -> str:
    """Return a short text that float() converts to exactly this number."""
    short = f"{value:g}"
    return short if float(short) == value else repr(float(value))


def _comparable(fault: Fault) -> Fault:
    """Return a fault for comparison: if a node never recovers, ``keeps_state`` has no effect, so it is set to False."""
    if isinstance(fault, Crash) and fault.until is None:
        return dataclasses.replace(fault, keeps_state=False)
    return fault


# --- appended in every run --------------------------------------------------------------------------------------------


class _ContextOrders:
    """The orders that `appending` applies in all runs of its context; each must be applicable to at least one run."""

    def __init__(self, orders: Sequence[Order]) -> None:
        self._orders = orders
        self._fit: set[Order] = set()
        self._why: dict[Order, BadInput] = {}

    def to(self, faults: Faults, graph: "nx.Graph[Any]") -> Faults:
        for order in self._orders:
            try:
                faults = order.onto(faults, graph)
                self._fit.add(order)
            except BadInput as error:
                self._why.setdefault(order, error)
        return faults

    def must_have_fit(self) -> None:
        """Raise the BadInput of the first run if an order was not applicable to any run."""
        for order, why in self._why.items():
            if order not in self._fit:
                raise why


_APPENDED: ContextVar[_ContextOrders | None] = ContextVar("APPENDED", default=None)


@contextmanager
def appending(texts: str | Iterable[str] | None) -> Iterator[None]:
    """In all runs inside the context, apply orders to the network's faults; a run skips orders not applicable to it.

    Raises BadInput immediately if a text is not an order, and at the end of the context if an order was applicable to
    no run.
    """
    if not texts:
        yield
        return
    appended = _ContextOrders(_orders(texts))
    with assigned(_APPENDED, appended):
        yield
    appended.must_have_fit()


def append(faults: Faults, graph: "nx.Graph[Any]") -> Faults:
    """Apply the orders of the enclosing context `appending`, if any, to a network's faults, and return the result."""
    appended = _APPENDED.get()
    return faults if appended is None else appended.to(faults, graph)
