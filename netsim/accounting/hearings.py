"""What agents heard in a run: the frames that their code was given, with their payloads."""

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from netsim.core import Frame
from netsim.core.records import as_column

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Hearings"]

Hearing = tuple[float, int, Frame]
"""When an agent was given a frame (s), the agent's number, and the frame."""


class Hearings:
    """The frames that agents were given in one run, in the order of each agent.

    Attributes
    ----------
    entries : list of Hearing
        The frames; of several agents in any order.
    """

    def __init__(self) -> None:
        self.entries: list[Hearing] = []

    def of(self, receiver: int, now: Callable[[], float]) -> Callable[[Iterable[Frame]], None]:
        """Return a function that notes what one agent is given at the time ``now()`` (s)."""
        entries = self.entries

        def note(frames: Iterable[Frame]) -> None:
            time = now()
            # A payload that is not plain is the receiver's own, which may change it.
            entries.extend([(time, receiver, frame if frame.plain else frame.copy()) for frame in frames])

        return note

    def learn(self, entries: Iterable[Hearing], until: float) -> None:
        """Add what agents of another process were given up to ``until`` (s)."""
        self.entries += [entry for entry in entries if entry[0] <= until]

    def table(self, agents: Sequence[Any]) -> "pd.DataFrame":
        """Return one row for each frame, by time and then by agent; see `netsim.Run.deliveries`."""
        import pandas as pd

        # Which agent was given its frame first at one instant means nothing, and depends on the number of workers.
        heard = sorted(self.entries, key=lambda entry: entry[:2])
        frames = [frame for _, _, frame in heard]
        columns: dict[str, Any] = {
            "time_s": [time for time, _, _ in heard],
            "receiver": as_column([agents[number] for _, number, _ in heard]),
            "sender": as_column([frame.sender for frame in frames]),
            "kind": [frame.kind for frame in frames],
            "round": [frame.round for frame in frames],
            "payload": as_column([frame.payload for frame in frames]),
            "sent_s": [frame.sent_at for frame in frames],
        }
        types = {"time_s": float, "kind": object, "round": int, "sent_s": float}
        return pd.DataFrame(columns).astype(types)
