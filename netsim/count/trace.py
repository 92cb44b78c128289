"""What happened, in order: hashed always, kept when asked for, saved and loaded whole or not at all."""

import hashlib
import json
from collections.abc import Hashable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from netsim.draws import mix_words
from netsim.errors import BadInput, one_line
from netsim.files import write_whole

if TYPE_CHECKING:
    import pandas as pd

    from netsim.count.ledger import Ledger

SENT = np.dtype(
    [
        ("time", "<f8"),
        ("key", "<i8"),
        ("sender", "<i4"),
        ("links", "<i4"),
        ("taken", "<i4"),
        ("payload_bits", "<i8"),
        ("raw_data_bits", "<i8"),
        ("wire_bits", "<i8"),
        ("each", "<i8"),
        ("saturated", "<i8"),
        ("checksum", "<u4"),
    ]
)
"""A transmission: the key of its first link message (number·2³² + kind × links + link), over how many links (0: to one
neighbour only), the bits on each of them, the CRC-32 of its bytes."""

EXIT = np.dtype([("time", "<f8"), ("key", "<i8"), ("cause", "<i4")])
"""The end of a link message."""

_STREAMS = ("sent", "delivered", "dropped")


class Recorder:
    """Hashes the records of a run as they come, and keeps them if asked to.

    Transmissions are hashed in their order. The ends of link messages are recorded when somebody looks into an inbox;
    as they carry their keys and times, their hash does without the order, so it does not matter who looked when.
    """

    def __init__(self, keep: bool) -> None:
        self._sent = hashlib.sha256()
        self._exits = np.zeros(2, dtype=np.uint64)
        self._kept: dict[str, list[NDArray[np.void]]] | None = {name: [] for name in _STREAMS} if keep else None

    def add(self, stream: str, records: NDArray[np.void]) -> None:
        """Record transmissions (``sent``, of dtype `SENT`), or ``delivered`` or ``dropped`` link messages (`EXIT`)."""
        if stream == "sent":
            self._sent.update(records.tobytes())
        else:
            mixed = mix_words(records["time"].view(np.uint64), records["key"].view(np.uint64), records["cause"])
            self._exits += np.array([mixed.sum(), mix_words(mixed).sum()], dtype=np.uint64)
        if self._kept is not None:
            self._kept[stream].append(records)

    def hexdigest(self) -> str:
        """Return the hash of all that was recorded."""
        return hashlib.sha256(self._sent.digest() + self._exits.tobytes()).hexdigest()[:32]

    def records(self) -> dict[str, NDArray[np.void]] | None:
        """Return the kept records by stream, or None if none were to be kept."""
        if self._kept is None:
            return None
        none = {name: np.empty(0, SENT if name == "sent" else EXIT) for name in _STREAMS}
        return {name: np.concatenate(self._kept[name] or [none[name]]) for name in _STREAMS}


class Trace:
    """The event log of a run.

    Attributes
    ----------
    agents : list
        The agents' names (as text once loaded from a file).
    hash : str
        The trace hash of the run.
    """

    def __init__(
        self,
        records: dict[str, NDArray[np.void]],
        agents: Sequence[Hashable],
        kinds: Sequence[str],
        senders: NDArray[np.int64],
        receivers: NDArray[np.int64],
    ) -> None:
        self._records = records
        self.agents = list(agents)
        self.kinds = list(kinds)
        self._senders = senders
        self._receivers = receivers
        recorder = Recorder(keep=False)
        for name in _STREAMS:
            recorder.add(name, records[name])
        self.hash = recorder.hexdigest()

    @classmethod
    def of(cls, ledger: "Ledger") -> "Trace | None":
        """Return the trace of a run's ledger, or None if it was not kept."""
        ledger.fold()
        records = ledger.recorder.records()
        if records is None:
            return None
        return cls(records, ledger.agents, list(ledger.kinds), ledger.senders, ledger.receivers)

    def __len__(self) -> int:
        return sum(map(len, self._records.values()))

    def table(self) -> "pd.DataFrame":
        """Return the events in order of time.

        Columns: time_s, event (sent, or the cause of a link message's end), message (number of the link message; for a
        broadcast the first of its several), sender, receiver (empty for a broadcast), kind, payload_bits, wire_bits
        (both for ``sent`` only).
        """
        import pandas as pd

        from netsim.count.ledger import CAUSES

        sent = self._records["sent"]
        names = np.empty(len(self.agents) + 1, dtype=object)
        names[:] = [*self.agents, None]
        kinds, causes = np.array([*self.kinds, ""], dtype=object), np.array(CAUSES, dtype=object)
        links = max(len(self._senders), 1)
        receiver_of = np.append(self._receivers, len(self.agents))
        slot = sent["key"] & 0xFFFFFFFF
        to = np.where(sent["links"] > 0, -1, slot % links)
        parts = [
            pd.DataFrame(
                {
                    "time_s": sent["time"],
                    "event": "sent",
                    "message": sent["key"] >> 32,
                    "sender": names[sent["sender"]],
                    "receiver": names[receiver_of[to]],
                    "kind": kinds[slot // links],
                    "payload_bits": sent["payload_bits"],
                    "wire_bits": sent["wire_bits"],
                }
            )
        ]
        for stream in ("delivered", "dropped"):
            ends = self._records[stream]
            slot = ends["key"] & 0xFFFFFFFF
            link = slot % links
            parts.append(
                pd.DataFrame(
                    {
                        "time_s": ends["time"],
                        "event": causes[ends["cause"]],
                        "message": ends["key"] >> 32,
                        "sender": names[self._senders[link]],
                        "receiver": names[self._receivers[link]],
                        "kind": kinds[slot // links],
                    }
                )
            )
        table = pd.concat([part for part in parts if len(part)] or parts[:1], ignore_index=True)
        for column in ("payload_bits", "wire_bits"):
            table[column] = table[column].astype("Int64")
        return table.sort_values(["time_s", "message"], kind="stable", ignore_index=True)

    def save(self, path: str | Path) -> None:
        """Write the trace to one file (numpy's npz), whole or not at all."""
        meta = json.dumps({"agents": [str(a) for a in self.agents], "kinds": self.kinds, "hash": self.hash})
        parts: dict[str, Any] = {
            "meta": np.array(meta),
            "senders": self._senders,
            "receivers": self._receivers,
            **self._records,
        }
        with write_whole(path) as file:
            np.savez_compressed(file, **parts)

    @classmethod
    def load(cls, path: str | Path) -> "Trace":
        """Read a trace that `save` wrote.

        Raises
        ------
        BadInput
            If the file is missing, cut short, changed, or no trace.
        """
        try:
            with open(path, "rb") as opened, np.load(opened) as file:
                parts: dict[str, Any] = {name: file[name] for name in file.files}
            meta = json.loads(str(parts.pop("meta")))
            senders, receivers = parts.pop("senders"), parts.pop("receivers")
            trace = cls({name: parts[name] for name in _STREAMS}, meta["agents"], meta["kinds"], senders, receivers)
            written = meta["hash"]
        except FileNotFoundError:
            raise BadInput(f"trace = {str(path)!r}: must be an existing file") from None
        except Exception as error:
            # A damaged file can make zipfile, zlib, numpy and json raise many things; what they mean here is one.
            reason = one_line(error) or type(error).__name__
            raise BadInput(f"trace = {str(path)!r}: must be a whole trace file; this one is none ({reason})") from None
        if trace.hash != written:
            raise BadInput(f"trace = {str(path)!r}: must be unchanged; its events do not have the hash that it records")
        return trace
