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
        self._set("bits", check.finite("budget", self.bits, above=0))
        self._set("per", check.one_of("per", self.per, ("round", "second")))
        self._set("over", check.one_of("over", self.over, ("refuse", "wait")))
        if self.burst is not None:
            self._set("burst", check.finite("burst", self.burst, above=0))
            if self.per == "round":
                raise BadInput(f"burst = {self.burst:g}: must be None for a budget per round")

    def _set(self, name: str, value: float | str) -> None:
        object.__setattr__(self, name, value)
