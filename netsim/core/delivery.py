"""The outcome of a message: the results of `netsim.Agent.deliver` and of `netsim.radio.handle.RadioHandle.transmit`."""

import math
from dataclasses import dataclass
from typing import Any

__all__ = ["Delivery", "Sent"]


class Delivery(int):
    """The result of `netsim.Agent.deliver`: the integer 1 if the message was acknowledged, else 0.

    So ``if``, ``not``, ``sum`` and ``==`` work as with a bool; ``is True`` does not, and arrays of results are arrays
    of integers.

    Attributes
    ----------
    attempts : int
        The number of fragments sent, repetitions included; 0 if none left the node.
    backoffs : int
        The number of random back-offs that the sender waited.
    reason : str
        The ledger's cause: "delivered", or why the message did not arrive. A message that arrived while all of its
        acknowledgements were lost has the reason "delivered", but the result is 0.
    energy_j : float or None
        Joules that the sender spent on sending the message; None without an energy model.
    began, ended : float
        When the last transmission began and ended, by the sender's own clock (s); NaN if there was none.
    channel : int
        The channel of the last transmission; −1 if there was none.
    complete : bool
        Whether the sender completed the message: it received the acknowledgement or, for a message that nothing
        acknowledges, it sent the last fragment to its end.
    """

    attempts: int
    backoffs: int
    reason: str
    energy_j: float | None
    began: float
    ended: float
    channel: int
    complete: bool

    def __new__(
        cls,
        acknowledged: bool,
        attempts: int,
        backoffs: int,
        reason: str,
        energy_j: float | None = None,
        began: float = math.nan,
        ended: float = math.nan,
        channel: int = -1,
        complete: bool = False,
    ) -> "Delivery":
        """Return the integer 1 or 0 (``acknowledged``), with the other arguments as attributes."""
        self = super().__new__(cls, acknowledged)
        self.attempts, self.backoffs, self.reason, self.energy_j = attempts, backoffs, reason, energy_j
        self.began, self.ended, self.channel, self.complete = began, ended, channel, complete
        return self

    def __getnewargs__(self) -> tuple[Any, ...]:
        when = self.began, self.ended, self.channel, self.complete
        return bool(self), self.attempts, self.backoffs, self.reason, self.energy_j, *when

    def __repr__(self) -> str:
        spent = "" if self.energy_j is None else f", {self.energy_j:.3g} J"
        result = "acknowledged" if self else "not acknowledged"
        return f"<{result}: {self.reason}, attempts {self.attempts}, back-offs {self.backoffs}{spent}>"


@dataclass(frozen=True, slots=True)
class Sent:
    """The result of `netsim.radio.handle.RadioHandle.transmit`: a message's outcome, once it has left the air.

    Attributes
    ----------
    on_air : bool
        Whether the message was transmitted, even if it did not arrive. A fragmented message without acknowledgements
        counts as transmitted only if all its fragments were.
    acknowledged : bool or None
        Whether it was acknowledged; None if nothing acknowledges it: a broadcast, or a `netsim.Radio` without ``acks``.
    began, ended : float
        When the message's last transmission (for a fragmented message, that of its last fragment) began and ended, by
        the sender's own clock (s); NaN if there was none.
    channel : int
        The channel of the last transmission; −1 if there was none.
    attempts, backoffs : int
        The number of fragments sent, repetitions included, and the number of random back-offs that the sender waited.
    reason : str
        Why the message was given up, a cause of the ledger; "" if the message was acknowledged or, without
        acknowledgements, transmitted.
    energy_j : float or None
        Joules that the sender spent on sending the message; None without an energy model.
    """

    on_air: bool
    acknowledged: bool | None
    began: float
    ended: float
    channel: int
    attempts: int
    backoffs: int
    reason: str
    energy_j: float | None

    @classmethod
    def of(cls, outcome: Delivery, *, is_acknowledged: bool) -> "Sent":
        """Return the result for a message with this outcome."""
        when, tries = (outcome.began, outcome.ended, outcome.channel), (outcome.attempts, outcome.backoffs)
        acknowledged = bool(outcome) if is_acknowledged else None
        on_air = outcome.complete or (is_acknowledged and outcome.attempts > 0)
        return cls(on_air, acknowledged, *when, *tries, "" if outcome.complete else outcome.reason, outcome.energy_j)
