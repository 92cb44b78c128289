"""The outcome of a message that its sender wants acknowledged: the result of `netsim.Agent.deliver`."""

from typing import Any

from netsim.core.records import ALL_CAUSES

__all__ = ["Delivery"]


class Delivery(int):
    """The result of `netsim.Agent.deliver`: the integer 1 if the message was acknowledged, else 0.

    So ``if``, ``not``, ``sum`` and ``==`` work as with a bool; ``is True`` does not, and arrays of results are arrays
    of integers.

    Attributes
    ----------
    attempts : int
        How many fragments were sent, repetitions included; 0 if none left the node.
    backoffs : int
        How many random back-offs the sender waited.
    reason : str
        The ledger's cause: "delivered", or why the message did not arrive. A message that arrived while all of its
        acknowledgements were lost has the reason "delivered", but the result is 0.
    energy_j : float or None
        Joules that the sender spent on sending the message; None without an energy model.
    """

    attempts: int
    backoffs: int
    reason: str
    energy_j: float | None

    def __new__(
        cls, acknowledged: bool, attempts: int, backoffs: int, reason: str, energy_j: float | None
    ) -> "Delivery":
        """Return the integer 1 or 0 (``acknowledged``), with the other arguments as attributes."""
        self = super().__new__(cls, acknowledged)
        self.attempts, self.backoffs, self.reason, self.energy_j = attempts, backoffs, reason, energy_j
        return self

    @classmethod
    def ended(
        cls, acknowledged: bool, attempts: int, backoffs: int, cause: int, energy_j: float | None = None
    ) -> "Delivery":
        """Return a result whose ``reason`` is the cause with the number ``cause`` in `ALL_CAUSES`."""
        return cls(acknowledged, attempts, backoffs, ALL_CAUSES[cause], energy_j)

    def __getnewargs__(self) -> tuple[Any, ...]:
        return bool(self), self.attempts, self.backoffs, self.reason, self.energy_j

    def __repr__(self) -> str:
        spent = "" if self.energy_j is None else f", {self.energy_j:.3g} J"
        result = "acknowledged" if self else "not acknowledged"
        return f"<{result}: {self.reason}, attempts {self.attempts}, back-offs {self.backoffs}{spent}>"
