"""Agreement among generals of whom some may be traitors (Lamport, Shostak and Pease 1982)."""

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
    """Return what more than half say, or the default."""
    ((most, count),) = Counter(votes).most_common(1)
    return most if 2 * count > len(votes) else DEFAULT


def is_order(frame: Frame) -> bool:
    """Return whether a frame holds a path that ends with its sender, and an order; a traitor may send anything."""
    payload = frame.payload
    if type(payload) is not tuple or list(map(type, payload)) != [tuple, str]:
        return False
    try:
        hash(payload)
    except TypeError:
        # Something in the path, such as an array or a list, is no name.
        return False
    path, _ = payload
    # Nobody can speak in another's name.
    return bool(path[-1:] == (frame.sender,))


class OralMessages(Agent, papers.Cited):
    """A loyal general of OM(m), which agrees in spite of up to m traitors if there are more than 3m generals.

    In the first round the commander sends an order to all lieutenants. In each of the m rounds that follow, each
    lieutenant tells all who have not handled it what it heard in the round before, with the way that it took. Then each
    decides from the last round backwards: what j said counts as the majority of what j told me and what the others say
    that j told them.

    The loyal lieutenants all decide the same (IC1); and if the commander is loyal, they decide what it ordered (IC2).

    Parameters
    ----------
    commander : node
        The name of the commander.
    m : int
        The number of rounds of relaying: how many traitors it should stand.
    order : str
        The order that this general gives if it is the commander.

    Attributes
    ----------
    heard : dict
        By path the order that came on it.
    decision : str
        "undecided", and at the end the decision.

    Notes
    -----
    The graph must be complete. The paper asks of the network what holds here: messages arrive (no loss), within a
    round (a latency below ``round_period``); who receives one knows who sent it; a message that is missing is noticed,
    as a round has an end. OM(m) of n generals sends (n-1) + (n-1)(n-2) + … + (n-1)(n-2)…(n-m-1) messages.

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
        """Tell and hear in m + 1 rounds, and decide."""
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
        """Tell one general what came on a path; a `Traitor` does otherwise."""
        await self.send(to, "order", (path, order), label=f"{'>'.join(map(str, path))}: {order}"[:40])

    def paths(self, length: int) -> list[Path]:
        """Return the paths of the orders that this general has after so many rounds, and must pass on."""
        if length == 0 or self.name == self.commander:
            return [()] if length == 0 and self.name == self.commander else []
        return [(self.commander, *rest) for rest in permutations(self.others(), length - 1)]

    def others(self) -> list[Hashable]:
        """Return the other lieutenants."""
        return [j for j in self.neighbors if j != self.commander]

    def decide(self, path: Path) -> str:
        """Return what the last general of a path is held to have said: the majority of what is known of that."""
        votes = [self.heard.get(path, DEFAULT)]
        if len(path) <= self.m:
            votes += [self.decide((*path, j)) for j in self.others() if j not in path]
        return majority(votes)


class Traitor(OralMessages):
    """A general that lies: it tells each of the others what it likes, or nothing.

    Parameters
    ----------
    commander, m, order
        As of `OralMessages`.
    lie : callable
        ``lie(to, path, order)`` returns what it tells general ``to`` in place of the order that came on a path, whose
        last general is itself; None: it keeps silent.
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
        """Tell what the strategy says."""
        told = self.lie(to, path, order)
        if told is not None:
            await super().tell(to, path, told)
