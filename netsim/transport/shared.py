"""State that the agents of one run share."""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import InitVar, dataclass, field
from typing import TYPE_CHECKING

from netsim.clock.clock import LocalClock, Loop
from netsim.clock.rounds import RoundClock
from netsim.core import Tally
from netsim.core.frame import FrameEncoder

if TYPE_CHECKING:
    from netsim.ipv6.stack import IPv6Stack
    from netsim.transport.sharing import Sharing

__all__ = ["Shared"]


@dataclass(slots=True, eq=False, repr=False)
class Shared:
    """State that the agents of one run share: event loop, tally, round clock, and flags of the run.

    Attributes
    ----------
    clock : LocalClock or None
        The clock of an agent with a clock of its own. Such an agent has a separate `Shared`.
    encoder : FrameEncoder
        Encodes the frames of all agents.
    begun : bool
        Whether the run has begun, so that the states of its agents may have changed.
    over : bool
        Whether the run has ended, so that no agent can send any more.
    overrun : bool
        Whether the run has warned that an agent missed a round.
    overslept : bool
        Whether the run has warned of radios that sleep through whole rounds.
    on_send : callable or None
        Called with an agent's name before each of its messages.
    looks : bool
        Whether ``over`` or ``on_send`` is set: senders then need to test one flag only.
    stack : IPv6Stack or None
        If the network has a protocol stack: it makes the frames instead of the encoder.
    sharing : Sharing or None
        If the network has nodes with capacities: the transfers between them.
    """

    loop: Loop
    tally: Tally
    rounds: RoundClock
    clock: LocalClock | None = None
    kinds: InitVar[Sequence[str]] = ()
    encoder: FrameEncoder = field(init=False)
    begun: bool = False
    over: bool = False
    overrun: bool = False
    overslept: bool = False
    looks: bool = False
    on_send: Callable[[Hashable], None] | None = None
    stack: "IPv6Stack | None" = None
    sharing: "Sharing | None" = None

    def __post_init__(self, kinds: Sequence[str]) -> None:
        self.encoder = FrameEncoder(kinds)

    def end(self) -> None:
        """Mark the run as ended."""
        self.over = self.looks = True

    def note_sends(self, note: Callable[[Hashable], None] | None) -> None:
        """Call ``note`` with an agent's name before each of its messages; with None, stop calling."""
        self.on_send, self.looks = note, self.over or note is not None
