"""The record of all frames, with payloads, that agents' code received in a run."""

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from netsim.core import Frame
from netsim.core.records import as_column

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Hearings"]

Hearing = tuple[float, int, Frame]
"""The time (s) at which an agent received a frame, the agent's index, and the frame."""


class Hearings:
    """The frames received in one run, in each agent's order.

    Attributes
    ----------
    entries : list of Hearing
        The frames, in order for each agent; frames of different agents are interleaved arbitrarily.
    """

    def __init__(self) -> None:
        self.entries: list[Hearing] = []

    def of(self, receiver: int, now: Callable[[], float]) -> Callable[[Iterable[Frame]], None]:
        """Return a function that records the frames one agent receives at the time ``now()`` (s)."""
        entries = self.entries

        def note(frames: Iterable[Frame]) -> None:
            time = now()
            # The receiver may modify a payload that is not plain, so store a copy.
            entries.extend([(time, receiver, frame if frame.plain else frame.copy()) for frame in frames])

        return note

    def learn(self, entries: Iterable[Hearing], until: float) -> None:
        """Add the frames that agents of another process received up to ``until`` (s)."""
        self.entries += [entry for entry in entries if entry[0] <= until]

    def table(self, agents: Sequence[Any]) -> "pd.DataFrame":
        """Return one row for each frame, by time and then by agent; see `netsim.Run.deliveries`."""
        import pandas as pd

        # The order of agents at one instant has no meaning and depends on the number of workers, so sort by agent.
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
