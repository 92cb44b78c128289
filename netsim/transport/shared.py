"""What all parts of one run share."""

from netsim.count.ledger import Ledger
from netsim.transport.clock import Loop
from netsim.transport.frame import FrameEncoder
from netsim.transport.rounds import RoundClock


class Shared:
    """The loop, the ledger, the rounds and the numbering of link messages of one run.

    Attributes
    ----------
    sequence : int
        The number of the next link message.
    watched : bool
        Whether some inbox was ever watched, so that senders must tell it of arrivals.
    careful : bool
        Whether some frame was ever sent that receivers must look at one by one: one that may come late, belongs to a
        request, or holds what could be changed in place.
    encoder : FrameEncoder
        Writes the frames.
    over : bool
        Whether the run has ended: nothing is sent any more.
    """

    __slots__ = ("careful", "encoder", "ledger", "loop", "over", "rounds", "sequence", "watched")

    def __init__(self, loop: Loop, ledger: Ledger, rounds: RoundClock) -> None:
        self.loop = loop
        self.ledger = ledger
        self.rounds = rounds
        self.sequence = 0
        self.watched = False
        self.careful = False
        self.over = False
        self.encoder = FrameEncoder()
