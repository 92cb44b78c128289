"""A frame on its way through a station: its fragments, how often they were sent, and who has received what."""

from netsim.transport.offered import Offered

__all__ = ["Job"]


class Job:
    """One frame.

    Attributes
    ----------
    offered : Offered
        What the outbox handed over.
    fragments : list of int
        The bits of each, headers included.
    places : frozenset of int
        For which of the sender's links it is.
    since : float
        Since when it waits for what comes next, in seconds.
    not_before : float
        When its budget lets it go, in seconds.
    index, retries : int
        The fragment that is being sent, and how often it was sent again.
    begun : bool
        Whether any of it was on the air.
    received : int
        For one neighbour with acknowledgements: how many fragments that has.
    cause : int
        Then: what became of the fragment when it was last sent.
    failed : dict
        By place, the cause for which the first fragment that did not arrive did not; with acknowledgements, that the
        neighbour has lost those that did.
    energy : float
        What it has cost its sender so far, in joules, if that is kept.
    open : set of int
        The places for which it is not known yet what becomes of the frame.
    """

    __slots__ = (
        "begun",
        "cause",
        "energy",
        "failed",
        "fragments",
        "index",
        "not_before",
        "offered",
        "open",
        "places",
        "received",
        "retries",
        "since",
    )

    def __init__(self, offered: Offered, fragments: list[int], now: float, not_before: float) -> None:
        self.offered = offered
        self.fragments = fragments
        self.since = now
        self.not_before = not_before
        self.index = self.retries = self.received = self.cause = 0
        self.begun = False
        self.energy = 0.0
        self.failed: dict[int, int] = {}
        self.places = frozenset(offered.places)
        self.open = set(offered.places)

    @property
    def bits(self) -> int:
        """What is being sent, or waits to be."""
        return self.fragments[self.index]

    @property
    def is_last(self) -> bool:
        """Whether that is the last fragment."""
        return self.index == len(self.fragments) - 1

    def conclude(self, acknowledged: bool) -> None:
        """Tell whoever waits for it whether it was acknowledged."""
        outcome = self.offered.outcome
        if outcome is not None and not outcome.done():
            outcome.set_result(acknowledged)
