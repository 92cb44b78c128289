"""What all parts of one run share."""

from netsim.clock import Loop
from netsim.ledger import Ledger
from netsim.rounds import RoundClock


class Exchange:
    """The loop, the ledger, the rounds and the numbering of link messages of one run.

    Attributes
    ----------
    sequence : int
        The number of the next link message.
    watched : bool
        Whether some inbox was ever watched, so that senders must tell it of arrivals.
    """

    __slots__ = ("ledger", "loop", "rounds", "sequence", "watched")

    def __init__(self, loop: Loop, ledger: Ledger, rounds: RoundClock) -> None:
        self.loop = loop
        self.ledger = ledger
        self.rounds = rounds
        self.sequence = 0
        self.watched = False
