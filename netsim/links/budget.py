"""Bits that a link may carry a round or a second."""

from dataclasses import dataclass
from typing import Literal

from netsim.errors import BadInput
from netsim.util import check

__all__ = ["Budget"]


@dataclass(frozen=True)
class Budget:
    """Bits that may be sent, per second or per round; what exceeds it is refused or waits.

    Parameters
    ----------
    bits : float
        Bits per round, or per second.
    per : {"round", "second"}
        Per round: a fresh ``bits`` at each round's opening, nothing saved. Per second: a token bucket that fills at
        ``bits`` a second, so that any window of t seconds carries at most ``burst`` + ``bits``·t.
    over : {"refuse", "wait"}
        What happens to a frame that does not fit: it is refused, or it waits for its turn. A frame larger than the
        whole budget (or burst) is always refused.
    burst : float, optional
        Size of the bucket in bits, full at first; default ``bits`` (one second's worth). Per second only.
    """

    bits: float
    per: Literal["round", "second"] = "round"
    over: Literal["refuse", "wait"] = "refuse"
    burst: float | None = None

    def __post_init__(self) -> None:
        check.put(self, bits=check.finite("budget", self.bits, above=0))
        check.fields(self, check.one_of, "per", allowed=("round", "second"))
        check.fields(self, check.one_of, "over", allowed=("refuse", "wait"))
        check.fields(self, check.finite, "burst", above=0, optional=True)
        if self.burst is not None and self.per == "round":
            raise BadInput(f"burst = {self.burst:g}: must be None for a budget per round")
