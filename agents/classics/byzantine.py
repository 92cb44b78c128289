"""Agreement among generals, some of whom may be traitors (Lamport, Shostak and Pease 1982)."""

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from itertools import permutations
from typing import ClassVar

from netsim.agent import Agent
from netsim.agents import papers
from netsim.core import Frame
from netsim.draw import Role, Star
from netsim.util import check

__all__ = ["OralMessages", "Traitor"]

DEFAULT = "retreat"
"""What stands for an order that has not come, and for a vote without a majority."""

Path = tuple[Hashable, ...]
"""Through whose hands an order went: (0, 2) is what 2 says that commander 0 told it."""


def majority(votes: Sequence[str]) -> str:
    """Return the absolute majority of the votes, or the default."""
    ((most, count),) = Counter(votes).most_common(1)
    return most if 2 * count > len(votes) else DEFAULT


def is_order(frame: Frame) -> bool:
    """Return whether a frame has a valid order and a path that ends with its sender; traitors may send anything."""
    payload = frame.payload
    if type(payload) is not tuple or list(map(type, payload)) != [tuple, str]:
        return False
    try:
        hash(payload)
    except TypeError:
        # An array or a list in the path is not a name.
        return False
    path, _ = payload
    # The network authenticates senders: no general can impersonate another.
    return bool(path[-1:] == (frame.sender,))


class OralMessages(Agent, papers.Cited):
    """A loyal general of OM(m), which reaches agreement despite up to m traitors among more than 3m generals.

    In the first round the commander sends an order to all lieutenants. In each of the m following rounds, each
    lieutenant relays the orders of the previous round, with their paths, to all generals not in the path. Finally each
    decides, from the last round backwards: j's order counts as the majority of the order that j sent directly and the
    orders that the other lieutenants report from j.

    All loyal lieutenants decide the same (IC1); if the commander is loyal, they decide its order (IC2).

    Parameters
    ----------
    commander : node
        The name of the commander.
    m : int
        The number of rounds of relaying: the number of traitors to tolerate.
    order : str
        The order that this general gives if it is the commander.

    Attributes
    ----------
    heard : dict
        The order received over each path.
    decision : str
        "undecided", and at the end the decision.

    Notes
    -----
    The graph must be complete. The paper's assumptions must hold: messages arrive (no loss), within a round (a latency
    below ``round_period``); the receiver knows the sender; a missing message is noticed, because rounds end. OM(m) of n
    generals sends (n-1) + (n-1)(n-2) + … + (n-1)(n-2)…(n-m-1) messages.

    Source: L. Lamport, R. Shostak and M. Pease, The Byzantine generals problem, ACM TOPLAS 4(3), 1982, section 3.
    """

    draw: ClassVar = {"decision": Role(usual="undecided"), "commander": Star(lambda a: a.name == a.commander)}

    paper = papers.BYZANTINE
    role = "loyal"

    def __init__(self, commander: Hashable, m: int, order: str = DEFAULT) -> None:
        self.commander, self.m, self.order = commander, check.integer("m", m, low=0), order
        self.heard: dict[Path, str] = {}
        self.decision = "undecided"

    async def run(self) -> None:
        """Send and collect in m + 1 rounds, and decide."""
        async for k in self.rounds(self.m + 1):
            for path in self.paths(k - 1):
                for to in self.neighbors:
                    if to not in path:
                        await self.tell(to, (*path, self.name), self.heard.get(path, DEFAULT) if path else self.order)
            for frame in await self.collect():
                if is_order(frame):
                    self.heard.setdefault(*frame.payload)
        self.decision = self.order if self.name == self.commander else self.decide((self.commander,))
        self.note(f"decides: {self.decision}")

    async def tell(self, to: Hashable, path: Path, order: str) -> None:
        """Send one general the order that came on a path; a `Traitor` overrides this."""
        await self.send(to, "order", (path, order), label=f"{'>'.join(map(str, path))}: {order}"[:40])

    def paths(self, length: int) -> list[Path]:
        """Return the paths of the given length whose orders this general has and must relay."""
        if length == 0 or self.name == self.commander:
            return [()] if length == 0 and self.name == self.commander else []
        return [(self.commander, *rest) for rest in permutations(self.others(), length - 1)]

    def others(self) -> list[Hashable]:
        """Return the other lieutenants."""
        return [j for j in self.neighbors if j != self.commander]

    def decide(self, path: Path) -> str:
        """Return the order attributed to the last general of a path: the majority of the reports."""
        votes = [self.heard.get(path, DEFAULT)]
        if len(path) <= self.m:
            votes += [self.decide((*path, j)) for j in self.others() if j not in path]
        return majority(votes)


class Traitor(OralMessages):
    """A general that lies: it sends each general any order, or none.

    Parameters
    ----------
    commander, m, order
        As of `OralMessages`.
    lie : callable
        ``lie(to, path, order)`` returns the false order that it sends to general ``to``, given the path of the true
        order, which ends at itself, and this order; None: it sends nothing.
    """

    role = "traitor"

    def __init__(
        self, commander: Hashable, m: int, lie: Callable[[Hashable, Path, str], str | None], order: str = DEFAULT
    ) -> None:
        super().__init__(commander, m, order)
        if not callable(lie):
            raise check.refuse("lie", lie, "a function of the receiver, the path and the order")
        self.lie = lie

    async def tell(self, to: Hashable, path: Path, order: str) -> None:
        """Send the strategy's order."""
        told = self.lie(to, path, order)
        if told is not None:
            await super().tell(to, path, told)
