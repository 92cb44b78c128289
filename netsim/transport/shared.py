"""What all agents of one run share: its time, its rounds and its tally."""

from collections.abc import Callable, Hashable

from netsim.clock.clock import LocalClock, Loop
from netsim.clock.rounds import RoundClock
from netsim.core import Tally
from netsim.core.frame import FrameEncoder

__all__ = ["Shared"]


class Shared:
    """What all agents of one run share.

    Attributes
    ----------
    clock : LocalClock or None
        Their own clock, where that is off: then only one agent has part in this.
    encoder : FrameEncoder
        Writes the frames.
    begun : bool
        Whether the run has begun: its agents are no more as they were made.
    over : bool
        Whether the run has ended: nothing is sent any more.
    on_send : callable or None
        Called with an agent's name each time before it sends.
    looks : bool
        Whether one of the two is to be looked at before anything is sent.
    """

    __slots__ = ("begun", "clock", "encoder", "looks", "loop", "on_send", "over", "rounds", "tally")

    def __init__(self, loop: Loop, tally: Tally, rounds: RoundClock, clock: LocalClock | None = None) -> None:
        self.loop = loop
        self.clock = clock
        self.tally = tally
        self.rounds = rounds
        self.begun = self.over = self.looks = False
        self.on_send: Callable[[Hashable], None] | None = None
        self.encoder = FrameEncoder()

    def end(self) -> None:
        """The run has ended."""
        self.over = self.looks = True

    def tell_sends(self, told: Callable[[Hashable], None] | None) -> None:
        """Call ``told`` with an agent's name each time before it sends; None: nobody any more."""
        self.on_send, self.looks = told, self.over or told is not None
