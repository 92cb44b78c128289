"""The event log of a run: what was sent and how each frame ended; saved and loaded whole or not at all."""

import hashlib
import json
import zipfile
from collections.abc import Hashable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from netsim.accounting.scene import Scene
from netsim.core.records import ALL_CAUSES, DETAIL, EXIT, IN_FLIGHT, LEFT, SENT, TO_ALL, as_column, key_shift
from netsim.core.tally import mix_exits, mix_sent, trace_hash
from netsim.errors import BadInput, one_line
from netsim.util import draws
from netsim.util.draws import Keys
from netsim.util.files import write_whole

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["CHUNK", "STREAMS", "Trace", "check_meta", "check_sizes"]

STREAMS = {"sent": SENT, "exits": EXIT, "details": DETAIL, "left": LEFT, "in_flight": IN_FLIGHT}
"""What a trace holds, and of which dtype. Traces of earlier versions have the first two only."""

CHUNK = 1 << 18
"""Records that are looked at in one go."""

# What zlib makes of an honest event log is some 5 to 50 times smaller than the log.
_MOST_PACKED = 200


class Trace:
    """The event log of a run.

    Parameters
    ----------
    records : mapping
        ``sent`` (an array of dtype `netsim.core.records.SENT`), ``exits`` (of dtype `EXIT`), and where they are known
        ``details``, ``left`` and ``in_flight``.
    agents : sequence
        The agents' names.
    kinds : sequence of str
        The kinds of message.
    agent_keys : uint64 array, shape (agents,)
        Keys of the agents' names.
    senders, receivers : int arrays, shape (links,)
        The numbers of the agents at each directed link's ends.
    scene : Scene, optional
        Where and when the run took place.

    Attributes
    ----------
    agents : list
        The agents' names (as text once loaded from a file).
    hash : str
        The trace hash of the run.
    scene : Scene or None
        As given.
    """

    def __init__(
        self,
        records: Mapping[str, NDArray[np.void]],
        agents: Sequence[Hashable],
        kinds: Sequence[str],
        agent_keys: Keys,
        senders: NDArray[np.int64],
        receivers: NDArray[np.int64],
        scene: Scene | None = None,
    ) -> None:
        self._sent, self._exits = records["sent"], records["exits"]
        self._records = {name: records[name] for name in STREAMS if name in records}
        self.scene = scene
        self.agents = list(agents)
        self.kinds = list(kinds)
        self._agent_keys = agent_keys
        self._senders = senders
        self._receivers = receivers
        self._shift = key_shift(len(senders))
        link_keys = draws.link_keys(agent_keys[senders], agent_keys[receivers])
        kind_keys = np.array([draws.name_key(kind) for kind in kinds], dtype=np.uint64)
        time = np.ascontiguousarray(self._exits["time"])
        key, kind, cause = (self._exits[name].astype(np.int64) for name in ("key", "kind", "cause"))
        mixed = (
            mix_sent(self._sent, agent_keys, link_keys, kind_keys),
            mix_exits(time, key, kind, cause, self._shift, link_keys, kind_keys),
        )
        self.hash = trace_hash(agent_keys, senders, receivers, *mixed)

    def __len__(self) -> int:
        return len(self._sent) + len(self._exits)

    @property
    def links(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The numbers of the agents at each directed link's ends: senders and receivers."""
        return self._senders, self._receivers

    def count(self, stream: str) -> int:
        """Return how many records there are of a kind, one of `STREAMS`."""
        return len(self._records.get(stream, ()))

    def chunks(self, stream: str) -> Iterator[NDArray[np.void]]:
        """Yield the records of a kind, one of `STREAMS`, some at a time."""
        for first in range(0, self.count(stream), CHUNK):
            yield self._records[stream][first : first + CHUNK]

    def table(self) -> "pd.DataFrame":
        """Return the events in order of time.

        Columns: time_s, event (sent, or the cause of a link message's end), message (how many of its sender came
        before it), sender, receiver (empty for a broadcast), kind, payload_bits, wire_bits (both for ``sent``
        only).
        """
        import pandas as pd

        sent, exits = self._sent, self._exits
        names = as_column([*self.agents, None])
        kinds, causes = as_column([*self.kinds, ""]), as_column(ALL_CAUSES)
        # A broadcast has no receiver: the name behind the last.
        receivers = np.append(self._receivers, len(self.agents))
        link = exits["key"] >> self._shift
        parts = [
            pd.DataFrame(
                {
                    "time_s": sent["time"],
                    "event": "sent",
                    "message": sent["number"],
                    "sender": names[sent["sender"]],
                    "receiver": names[receivers[np.where(sent["link"] == TO_ALL, -1, sent["link"])]],
                    "kind": kinds[sent["kind"]],
                    "payload_bits": sent["payload_bits"],
                    "wire_bits": sent["wire_bits"],
                }
            ),
            pd.DataFrame(
                {
                    "time_s": exits["time"],
                    "event": causes[exits["cause"]],
                    "message": exits["key"] & ((1 << self._shift) - 1),
                    "sender": names[self._senders[link]],
                    "receiver": names[self._receivers[link]],
                    "kind": kinds[exits["kind"]],
                }
            ),
        ]
        # Who looked into an inbox when decides in which order ends are recorded; a table is not to depend on it.
        order = np.lexsort(
            (
                np.concatenate([np.zeros(len(sent)), 1 + exits["cause"]]),
                np.concatenate([np.where(sent["link"] == TO_ALL, -1, sent["link"]), link]),
                np.concatenate([sent["number"], parts[1]["message"]]),
                np.concatenate([sent["sender"], self._senders[link]]),
                np.concatenate([sent["time"], exits["time"]]),
            )
        )
        table = pd.concat([part for part in parts if len(part)] or parts[:1], ignore_index=True)
        for column in ("payload_bits", "wire_bits"):
            table[column] = table[column].astype("Int64")
        return table.iloc[order].reset_index(drop=True)

    def save(self, path: str | Path) -> None:
        """Write the trace to one file (numpy's npz), whole or not at all."""
        scene = {} if self.scene is None else {"scene": self.scene.as_dict()}
        meta = json.dumps({"agents": [str(a) for a in self.agents], "kinds": self.kinds, "hash": self.hash} | scene)
        parts: dict[str, Any] = {
            "meta": np.array(meta),
            "check": np.array(_check(meta)),
            "agent_keys": self._agent_keys,
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
            check_sizes(path)
            with open(path, "rb") as opened, np.load(opened) as file:
                parts: dict[str, Any] = {name: file[name] for name in file.files}
            meta, scene, whole = check_meta(parts)
            ends = parts["senders"], parts["receivers"]
            trace = cls(_typed(parts), meta["agents"], meta["kinds"], parts["agent_keys"], *ends, scene)
            unchanged = whole and trace.hash == meta["hash"]
        except FileNotFoundError:
            raise BadInput(f"trace = {str(path)!r}: must be an existing file") from None
        except Exception as error:
            # A damaged file can make zipfile, zlib, numpy and json raise many things; what they mean here is one.
            reason = one_line(error) or type(error).__name__
            raise BadInput(f"trace = {str(path)!r}: must be a whole trace file; this one is none ({reason})") from None
        if not unchanged:
            raise BadInput(f"trace = {str(path)!r}: must be unchanged; its events do not have the hash that it records")
        return trace


def _check(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _typed(parts: Mapping[str, Any]) -> dict[str, NDArray[np.void]]:
    """Return the records of a file, if they are what a trace holds."""
    found = {name: parts[name] for name in STREAMS if name in parts or name in ("sent", "exits")}
    for name, records in found.items():
        if records.dtype != STREAMS[name] or records.ndim != 1:
            raise ValueError(f"its events ({name}) are of another form")
    return found


def check_meta(parts: Mapping[str, Any]) -> tuple[dict[str, Any], Scene | None, bool]:
    """Return what a file says of itself, where and when the run took place, and whether that is unchanged."""
    text = str(parts["meta"])
    meta = json.loads(text)
    # What an earlier version says of a run is not all that there is to know.
    scene = Scene.from_dict(meta["scene"], len(meta["agents"])) if "rounds" in meta.get("scene", ()) else None
    return meta, scene, str(parts["check"]) == _check(text)


def check_sizes(path: str | Path) -> None:
    """Raise ValueError for a small file that claims to hold very much, before any of it is unpacked."""
    with zipfile.ZipFile(path) as packed:
        sizes = {member.filename: member.file_size for member in packed.infolist()}
        for member in packed.infolist():
            # Outside rounds the details are zeros, which pack better than anything; of transmissions there are as many.
            most = sizes.get("sent.npy", 0) if member.filename == "details.npy" else _MOST_PACKED * member.compress_size
            if member.file_size > most + (1 << 20):
                raise ValueError(f"{member.filename} would be {member.file_size:,} bytes")
