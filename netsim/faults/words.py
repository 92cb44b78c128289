"""Parse faults written as text, such as ``--at "1.2 crash 3 until 2"``, and append them to a network's own faults.

Such a text is called an order: it begins a fault, or ends one.
"""

import dataclasses
import math
import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import networkx as nx

from netsim.errors import BadInput
from netsim.faults.events import Crash, Fault, LinkDown, Lose, Partition, Straggler
from netsim.faults.script import Faults

__all__ = ["FORMS", "Order", "append", "appending", "as_text", "joined", "parse"]

FORMS = (
    "TIME crash NODE [until TIME] [keeping state]",
    "TIME restart NODE [keeping state]",
    "TIME cut NODE-NODE [until TIME]",
    "TIME cut NODE->NODE [until TIME]",
    "TIME heal NODE-NODE",
    "TIME delay NODE by SECONDS [until TIME]",
    "TIME lose NODE-NODE",
    "TIME partition NODE,NODE,… [until TIME]",
)
"""The forms of an order. Times are in seconds of simulated time; NODE is a node's name, converted to text."""

_WORDS = re.compile(
    r"(?P<at>\S+)\s+(?P<what>\S+)\s+(?P<target>\S.*?)(?:\s+by\s+(?P<by>\S+))?(?:\s+until\s+(?P<until>\S+))?"
    r"(?P<keeps>\s+keeping\s+state)?"
)

# The maximum number of node names that an error message lists.
_MOST_SHOWN = 12


@dataclass(frozen=True)
class Order:
    """An order after parsing; node names are looked up later, when the graph is known.

    Attributes
    ----------
    text : str
        The text of the order, with single blanks between words.
    at : float
        The time of the order in seconds.
    by, until : float or None
        The delay that follows the word "by", and the time that follows the word "until", in seconds. None if the order
        lacks the word.
    what : str
        The verb, such as "crash".
    target : str
        The nodes or the link, as text.
    keeps_state : bool
        Whether the node keeps its state until it returns.
    """

    text: str
    at: float
    what: str
    target: str
    by: float | None
    until: float | None
    keeps_state: bool

    @classmethod
    def of(cls, text: str) -> "Order":
        """Parse a text; raises BadInput if it has none of the `FORMS`."""
        text = " ".join(text.split())
        found = _WORDS.fullmatch(text)
        if found is None:
            raise _refused(text, f"one of: {'; '.join(FORMS)}")
        what, keeps = found["what"], found["keeps"] is not None
        form = next((form for form in FORMS if form.split()[1] == what), None)
        if form is None:
            raise _refused(text, f"one of: {'; '.join(FORMS)}")
        at, by, until = (_seconds(text, name, found[name]) for name in ("at", "by", "until"))
        if (by is None) != ("by" not in form) or (until is not None and "until" not in form):
            raise _refused(text, form)
        if keeps and "keeping" not in form:
            raise _refused(text, form)
        if what == "crash" and keeps and until is None:
            # A crash without an end keeps no state. If a later "restart" order ends the crash, that order says whether
            # the state is kept.
            raise _refused(text, f"{FORMS[0]}, with until if the state is kept; or {FORMS[1]} later on")
        assert at is not None
        if until is not None and until <= at:
            raise _refused(text, f"{form}, which ends after {at:g} s")
        return cls(text, at, what, found["target"], by, until, keeps)

    def onto(self, faults: Faults, graph: "nx.Graph[Any]") -> Faults:
        """Return ``faults`` with the order applied: one fault is appended, or faults are ended.

        Raises BadInput if the graph lacks the order's nodes or link, or if there is no fault to end.
        """
        if self.what in ("restart", "heal"):
            return (_restart if self.what == "restart" else _heal)(self, faults, graph)
        return Faults([*faults, _new(self, graph)])

    def refused(self, allowed: str) -> BadInput:
        """Return the error for an order that cannot be applied."""
        return _refused(self.text, allowed)


def _refused(text: str, allowed: str) -> BadInput:
    return BadInput(f"at = {text!r}: must be {allowed}")


def _seconds(text: str, name: str, word: str | None) -> float | None:
    """Parse a word as a number of seconds (None stays None); raises BadInput if it is no valid number."""
    if word is None:
        return None
    try:
        value = float(word)
    except ValueError:
        value = math.nan
    if not math.isfinite(value) or value < 0 or (name == "by" and value == 0):
        place = {"at": "begin with a time", "by": "name a delay", "until": "end at a time"}[name]
        raise BadInput(f"at = {text!r}: must {place} in seconds, {'>' if name == 'by' else '>='} 0, not {word!r}")
    return value


# --- names of a graph -------------------------------------------------------------------------------------------------


def _nodes(graph: "nx.Graph[Any]") -> dict[str, Hashable]:
    """Return {text of the name: node}, without nodes whose names have the same text, such as 1 and "1"."""
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
    """Return all links that the order's target may name: there may be several, as node names may contain hyphens."""
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
    """Return the nodes that the order's target lists; as names may contain commas, the longest matching name wins."""
    nodes, side = _nodes(graph), []
    words = order.target.split(",")
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


def _with_ends(order: Order, faults: Faults, concerned: Callable[[Fault], bool], what: str, **more: Any) -> Faults:
    """Return a copy of ``faults``, with an end at the order's time for the active faults that ``concerned`` accepts.

    The copy leaves out a fault that begins exactly at the order's time, because this fault would have no duration.
    """
    begun = [fault for fault in faults if fault.begins <= order.at and (fault.ends is None or fault.ends > order.at)]
    held = [fault for fault in begun if concerned(fault)]
    if not held:
        raise order.refused(f"of {what} at that time")
    ending: Any = dataclasses.replace
    ends = {id(fault): ending(fault, until=order.at, **more) for fault in held if fault.begins < order.at}
    return Faults([ends.get(id(fault), fault) for fault in faults if id(fault) in ends or fault not in held])


def _new(order: Order, graph: "nx.Graph[Any]") -> Fault:
    """Return the fault that an order begins."""
    match order.what:
        case "crash":
            return Crash(_node(order, graph), order.at, order.until, keeps_state=order.keeps_state)
        case "cut":
            one_way = "->" in order.target and not _links(order, graph, "-")
            return LinkDown(*_link(order, graph, "->" if one_way else "-"), order.at, order.until, one_way)
        case "delay":
            assert order.by is not None
            return Straggler(_node(order, graph), order.by, order.at, order.until)
        case "lose":
            return Lose(_link(order, graph), order.at)
    return Partition(_side(order, graph), order.at, order.until)


def _restart(order: Order, faults: Faults, graph: "nx.Graph[Any]") -> Faults:
    node = _node(order, graph)

    def concerned(fault: Fault) -> bool:
        return isinstance(fault, Crash) and fault.agent == node

    return _with_ends(order, faults, concerned, "a node that has crashed, and is down", keeps_state=order.keeps_state)


def _heal(order: Order, faults: Faults, graph: "nx.Graph[Any]") -> Faults:
    link = _link(order, graph)

    def concerned(fault: Fault) -> bool:
        if isinstance(fault, Partition):
            return link in fault.cut(graph)
        return isinstance(fault, LinkDown) and (link in fault.links() or link[::-1] in fault.links())

    return _with_ends(order, faults, concerned, "a link that is cut")


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
        Orders of the `FORMS`; one text may hold several, separated by semicolons. ``restart`` ends a `Crash`, and
        ``heal`` ends a `LinkDown` or a `Partition`; the fault that is ended may be one of the network's own.
    graph : networkx Graph
        The network's graph; nodes are found by the text of their names.
    own : iterable of Fault
        The network's own faults.

    Raises
    ------
    BadInput
        If a text is no order, the graph lacks a node or link of an order, or there is no fault to end.
    """
    faults = Faults(own)
    for order in _orders(texts):
        faults = order.onto(faults, graph)
    faults.must_fit(graph)
    return faults


# --- from faults to words ---------------------------------------------------------------------------------------------


def as_text(faults: Iterable[Fault], graph: "nx.Graph[Any]") -> str | None:
    """Write faults as a text of orders from which `parse` restores them; "" for no faults.

    Returns None if that is not possible: some kinds of fault have no order, and different nodes' names may have the
    same text.
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
        case LinkDown(sender=sender, receiver=receiver, one_way=one_way):
            return f"{at} cut {sender}{'->' if one_way else '-'}{receiver}{until}"
        case Lose(link=link):
            sender, receiver = link
            return f"{at} lose {sender}-{receiver}"
        case Partition(side=side):
            return f"{at} partition {','.join(map(str, side))}{until}"
        case Straggler(agent=agent, delay=delay):
            return f"{at} delay {agent} by {_number(delay)}{until}"
    return None


def _number(value: float) -> str:
    """Return a short text from which float() restores exactly this number."""
    short = f"{value:g}"
    return short if float(short) == value else repr(float(value))


def _comparable(fault: Fault) -> Fault:
    """Return a fault for comparison: if the node never returns, ``keeps_state`` has no effect and is reset."""
    if isinstance(fault, Crash) and fault.until is None:
        return dataclasses.replace(fault, keeps_state=False)
    return fault


# --- appended in every run --------------------------------------------------------------------------------------------


class _ContextOrders:
    """The orders that `appending` applies in all runs of its context; each order must fit at least one run."""

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
        """Raise BadInput if there is an order that fitted none of the runs; the error is that of the first run."""
        for order, why in self._why.items():
            if order not in self._fit:
                raise why


_APPENDED: ContextVar[_ContextOrders | None] = ContextVar("APPENDED", default=None)


@contextmanager
def appending(texts: str | Iterable[str] | None) -> Iterator[None]:
    """In all runs inside the context, apply orders to the network's own faults; a run skips orders that do not fit it.

    Raises BadInput at once for a text that is no order, and at the end of the context if an order fitted no run.
    """
    if not texts:
        yield
        return
    appended = _ContextOrders(_orders(texts))
    token = _APPENDED.set(appended)
    try:
        yield
    finally:
        _APPENDED.reset(token)
    appended.must_have_fit()


def append(faults: Faults, graph: "nx.Graph[Any]") -> Faults:
    """Return a network's faults with the orders of the enclosing context `appending`, if any, applied."""
    appended = _APPENDED.get()
    return faults if appended is None else appended.to(faults, graph)
