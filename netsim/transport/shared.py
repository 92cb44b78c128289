"""State that the agents of one run share."""

from collections.abc import Callable, Hashable, Sequence

from netsim.clock.clock import LocalClock, Loop
from netsim.clock.rounds import RoundClock
from netsim.core import Tally
from netsim.core.frame import FrameEncoder

__all__ = ["Shared"]


class Shared:
    """State that the agents of one run share: event loop, tally, round clock, and flags of the run.

    Attributes
    ----------
    clock : LocalClock or None
        The agent's own clock, if it has one; such an agent has its own `Shared`.
    encoder : FrameEncoder
        Encodes the frames of all agents.
    begun : bool
        Whether the run has begun. From then on its agents may have changed.
    over : bool
        Whether the run has ended, so that no agent can send any more.
    overrun : bool
        Whether the run has warned that an agent missed a round.
    overslept : bool
        Whether the run has warned of radios that sleep through whole rounds.
    on_send : callable or None
        Called with an agent's name before each of its messages.
    looks : bool
        Whether ``over`` or ``on_send`` is set, so that senders need to test only one flag.
    """

    __slots__ = (
        "begun",
        "clock",
        "encoder",
        "looks",
        "loop",
        "on_send",
        "over",
        "overrun",
        "overslept",
        "rounds",
        "tally",
    )

    def __init__(
        self,
        loop: Loop,
        tally: Tally,
        rounds: RoundClock,
        clock: LocalClock | None = None,
        kinds: Sequence[str] = (),
    ) -> None:
        self.loop = loop
        self.clock = clock
        self.tally = tally
        self.rounds = rounds
        self.begun = self.over = self.overrun = self.overslept = self.looks = False
        self.on_send: Callable[[Hashable], None] | None = None
        self.encoder = FrameEncoder(kinds)

    def end(self) -> None:
        """Mark the run as ended."""
        self.over = self.looks = True

    def note_sends(self, note: Callable[[Hashable], None] | None) -> None:
        """Call ``note`` with an agent's name before each of its messages; with None, stop calling."""
        self.on_send, self.looks = note, self.over or note is not None
