"""What all agents of one run share: its time, its rounds and its tally."""

from netsim.core import Tally
from netsim.transport.clock import Loop
from netsim.transport.frame import FrameEncoder
from netsim.transport.rounds import RoundClock

__all__ = ["Shared"]


class Shared:
    """What all agents of one run share.

    Attributes
    ----------
    encoder : FrameEncoder
        Writes the frames.
    begun : bool
        Whether the run has begun: its agents are no more as they were made.
    over : bool
        Whether the run has ended: nothing is sent any more.
    """

    __slots__ = ("begun", "encoder", "loop", "over", "rounds", "tally")

    def __init__(self, loop: Loop, tally: Tally, rounds: RoundClock) -> None:
        self.loop = loop
        self.tally = tally
        self.rounds = rounds
        self.begun = self.over = False
        self.encoder = FrameEncoder()
