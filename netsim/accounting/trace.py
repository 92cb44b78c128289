"""The event log of a run: all transmissions and the outcome of each frame.

`Trace` holds the log in memory. `TraceFile` reads a saved trace in chunks, so that a log of any length takes little
memory. `Trace.load` and `TraceFile` make the same checks of a file.
"""

import hashlib
import json
import zipfile
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from netsim.accounting.captions import LABELLED, NOTED
from netsim.accounting.run_metadata import RunMetadata
from netsim.core.records import ALL_CAUSES, IN_FLIGHT, KEPT, ON_AIR, TO_ALL, as_column, key_shift
from netsim.core.tally import mix_outcomes, mix_sent, sums_of, trace_hash
from netsim.errors import BadInput, one_line
from netsim.util import draws
from netsim.util.draws import Keys
from netsim.util.files import write_whole

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["STREAMS", "Trace", "TraceFile"]

STREAMS = {**KEPT, "in_flight": IN_FLIGHT}
"""The records in a trace and their dtypes. Traces of earlier versions have only ``sent`` and ``exits``."""

# The dtypes of additional records, if the run is on a `netsim.Radio`: the frames on the air, and the bytes that the
# frames carry, concatenated.
_ON_RADIO = {"on_air": ON_AIR, "contents": np.dtype("u1")}
# The dtypes of additional records, if the agents labelled messages or wrote notes.
_CAPTIONS = {"labels": LABELLED, "notes": NOTED}
_ALL_STREAMS = {**STREAMS, **_ON_RADIO, **_CAPTIONS}

# Number of records read at a time.
_CHUNK = 1 << 18

# Maximum ratio of an array's size to its compressed size (1 MB is always allowed); larger arrays are rejected. zlib
# compresses real event logs to between 1/5 and 1/50 of their size.
_MAX_COMPRESSION = 200

_METADATA = ("meta", "check", "agent_keys", "senders", "receivers")


class Trace:
    """The event log of a run.

    Parameters
    ----------
    records : mapping
        ``sent`` and ``exits``, and if known ``details``, ``left`` and ``in_flight``: arrays of the dtypes in `STREAMS`.
        A run on a `netsim.Radio` adds ``on_air`` (`netsim.core.records.ON_AIR`) and ``contents``: the bytes that its
        frames carry, concatenated. A run whose agents labelled messages or wrote notes adds ``labels`` and ``notes``
        (`netsim.accounting.captions`).
    agents : sequence
        The agents' names.
    kinds : sequence of str
        The kinds of message.
    agent_keys : uint64 array, shape (agents,)
        The 64-bit hash of each agent's name.
    senders, receivers : int arrays, shape (links,)
        The indices of the agents at the ends of each directed link.
    scene : RunMetadata, optional
        Times, medium, positions and faults of the run.
    texts : sequence of str
        The texts to which labels and notes refer by index.

    Attributes
    ----------
    agents : list
        The agents' names (as text once loaded from a file).
    scene : RunMetadata or None
        Times, medium and positions of the run.
    links : pair of int arrays, shape (links,) each
        ``senders`` and ``receivers``.
    """

    def __init__(
        self,
        records: Mapping[str, NDArray[np.void]],
        agents: Sequence[Hashable],
        kinds: Sequence[str],
        agent_keys: Keys,
        senders: NDArray[np.int64],
        receivers: NDArray[np.int64],
        scene: RunMetadata | None = None,
        texts: Sequence[str] = (),
    ) -> None:
        self._sent, self._exits = records["sent"], records["exits"]
        self._records = {name: records[name] for name in _ALL_STREAMS if name in records}
        self.scene = scene
        self.agents = list(agents)
        self.kinds = list(kinds)
        self.texts = list(texts)
        self._agent_keys = agent_keys
        self.links = senders, receivers
        self._shift = key_shift(len(senders))

    @cached_property
    def hash(self) -> str:
        """The trace hash of the run."""
        return _hash(self, self._agent_keys)

    def __len__(self) -> int:
        return len(self._sent) + len(self._exits)

    def count(self, stream: str) -> int:
        """Return the number of records of a type: a key of `STREAMS`, "on_air", "contents", "labels" or "notes"."""
        return len(self._records.get(stream, ()))

    def chunks(self, stream: str) -> Iterator[NDArray[np.void]]:
        """Yield, in chunks, the records of a type (see `count`)."""
        for first in range(0, self.count(stream), _CHUNK):
            yield self._records[stream][first : first + _CHUNK]

    def table(self) -> "pd.DataFrame":
        """Return the events in order of time.

        Columns: time_s, event (sent, or the outcome of a link message), message (its number, from 0 for each sender),
        sender, receiver (empty for a broadcast), kind, payload_bits, wire_bits (both for ``sent`` only).
        """
        import pandas as pd

        sent, exits = self._sent, self._exits
        senders, ends = self.links
        names = as_column([*self.agents, None])
        kinds, causes = as_column([*self.kinds, ""]), as_column(ALL_CAUSES)
        # A broadcast has no receiver. Its link is -1 below, which selects the last element of `receivers`. This element
        # is the index of the None that `names` has after the agents' names.
        receivers = np.append(ends, len(self.agents))
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
                    "sender": names[senders[link]],
                    "receiver": names[ends[link]],
                    "kind": kinds[exits["kind"]],
                }
            ),
        ]
        # Outcomes were recorded in the order in which inboxes were read. Sort them, because the table must not depend
        # on that order.
        order = np.lexsort(
            (
                np.concatenate([np.zeros(len(sent)), 1 + exits["cause"]]),
                np.concatenate([np.where(sent["link"] == TO_ALL, -1, sent["link"]), link]),
                np.concatenate([sent["number"], parts[1]["message"]]),
                np.concatenate([sent["sender"], senders[link]]),
                np.concatenate([sent["time"], exits["time"]]),
            )
        )
        table = pd.concat([part for part in parts if len(part)] or parts[:1], ignore_index=True)
        for column in ("payload_bits", "wire_bits"):
            table[column] = table[column].astype("Int64")
        return table.iloc[order].reset_index(drop=True)

    def save(self, path: str | Path) -> None:
        """Write the trace to one file (numpy's npz), atomically."""
        scene = {} if self.scene is None else {"scene": self.scene.as_dict()}
        texts = {"texts": self.texts} if self.texts else {}
        names = {"agents": [str(a) for a in self.agents], "kinds": self.kinds}
        meta = json.dumps(names | texts | {"hash": self.hash} | scene)
        parts: dict[str, Any] = {
            "meta": np.array(meta),
            "check": np.array(_check(meta)),
            "agent_keys": self._agent_keys,
            **dict(zip(("senders", "receivers"), self.links, strict=True)),
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
            If the file is missing, truncated, changed, or not a trace.
        """
        with _checked(path):
            with open(path, "rb") as opened, np.load(opened) as file:
                parts: dict[str, Any] = {name: file[name] for name in file.files}
            meta, scene = _meta_of(parts)
            ends = parts["senders"], parts["receivers"]
            records, texts = _typed(parts), _texts_of(meta)
            for name in _CAPTIONS.keys() & records.keys():
                _check_caption(records[name], len(meta["agents"]), len(texts))
            trace = cls(records, meta["agents"], meta["kinds"], parts["agent_keys"], *ends, scene, texts)
            _compare(path, trace.hash, meta)
        return trace


class TraceFile:
    """Reads a file that `Trace.save` wrote, in chunks, after the checks of `Trace.load`.

    Parameters
    ----------
    path : str or Path
        The file, which must not change while this object is used.
    progress : callable, optional
        Called periodically with the number of records read so far. A record that is read twice counts twice.

    Attributes
    ----------
    agents, kinds, texts : list of str
        The agents' names, the kinds of message, and the texts of labels and notes.
    scene : RunMetadata or None
        Times, medium and positions of the run; None in a file of an earlier version.
    links : pair of int arrays, shape (links,) each
        The indices of the agents at the ends of each directed link: senders and receivers.

    Raises
    ------
    BadInput
        If the file is missing, truncated, changed, or not a trace.
    """

    def __init__(self, path: str | Path, progress: Callable[[int], None] | None = None) -> None:
        self.path = Path(path)
        self._progress, self._seen = progress, 0
        self.agents: list[str]
        self.kinds: list[str]
        self.texts: list[str]
        self.scene: RunMetadata | None
        self.links: tuple[NDArray[np.int64], NDArray[np.int64]]
        self._counts: dict[str, int] = {}
        with _checked(path):
            self._read()

    def count(self, stream: str) -> int:
        """Return the number of records of a type: a key of `STREAMS`, "on_air", "contents", "labels" or "notes"."""
        return self._counts.get(stream, 0)

    def chunks(self, stream: str) -> Iterator[NDArray[np.void]]:
        """Yield, in chunks, the records of a type (see `count`)."""
        if stream not in self._counts:
            return
        dtype, left = _ALL_STREAMS[stream], self._counts[stream]
        with zipfile.ZipFile(self.path) as archive, archive.open(f"{stream}.npy") as file:
            _header(file)
            while left:
                count = min(left, _CHUNK)
                data = file.read(count * dtype.itemsize)
                self._seen += count
                if self._progress is not None:
                    self._progress(self._seen)
                yield np.frombuffer(data, dtype)
                left -= count
            # zipfile compares the checksum only when the end of the file is read, so try to read one more byte.
            if file.read(1):
                raise ValueError(f"it has more events ({stream}) than its header states")

    def _read(self) -> None:
        with open(self.path, "rb") as opened, np.load(opened) as file:
            parts: dict[str, Any] = {name: file[name] for name in _METADATA}
        meta, self.scene = _meta_of(parts)
        self.agents, self.kinds, self.texts = list(meta["agents"]), list(meta["kinds"]), _texts_of(meta)
        self.links = parts["senders"], parts["receivers"]
        with zipfile.ZipFile(self.path) as archive:
            for name in _ALL_STREAMS.keys() & {each.removesuffix(".npy") for each in archive.namelist()}:
                with archive.open(f"{name}.npy") as records:
                    shape, dtype = _header(records)
                if dtype != _ALL_STREAMS[name] or len(shape) != 1:
                    raise ValueError(f"its events ({name}) have another dtype or shape")
                self._counts[name] = shape[0]
        for name in ("details", "left", "in_flight", *_ON_RADIO):
            for _ in self.chunks(name):
                pass
        for name in _CAPTIONS:
            for said in self.chunks(name):
                _check_caption(said, len(self.agents), len(self.texts))
        _compare(self.path, _hash(self, parts["agent_keys"]), meta)


def _hash(log: Trace | TraceFile, agent_keys: Keys) -> str:
    """Return the trace hash of an event log."""
    senders, receivers = log.links
    links = draws.link_keys(agent_keys[senders], agent_keys[receivers])
    kinds = np.array([draws.name_key(kind) for kind in log.kinds], dtype=np.uint64)
    sums = np.zeros(2, dtype=np.uint64)
    for sent in log.chunks("sent"):
        sums += sums_of(mix_sent(sent, agent_keys, links, kinds))
    for outcomes in log.chunks("exits"):
        sums += sums_of(mix_outcomes(outcomes, key_shift(len(senders)), links, kinds))
    return trace_hash(agent_keys, senders, receivers, sums)


def _check(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


@contextmanager
def _checked(path: str | Path) -> Iterator[None]:
    """Check the sizes in a trace file, and turn any error of the block that reads it into BadInput."""
    try:
        _check_sizes(path)
        yield
    except BadInput:
        raise
    except FileNotFoundError:
        raise BadInput(f"trace = {str(path)!r}: must be an existing file") from None
    except Exception as error:
        # Damage makes zipfile, zlib, numpy and json raise exceptions of many types; here all mean a damaged file.
        reason = one_line(error) or type(error).__name__
        raise BadInput(f"trace = {str(path)!r}: must be a whole trace file; it is not one ({reason})") from None


def _compare(path: str | Path, found: str, meta: Mapping[str, Any]) -> None:
    if found != meta["hash"]:
        raise BadInput(f"trace = {str(path)!r}: must be unchanged; its events do not have the hash that it records")


def _typed(parts: Mapping[str, Any]) -> dict[str, NDArray[np.void]]:
    """Return the records of a file; raises ValueError unless they have the dtypes in `_ALL_STREAMS`."""
    found = {name: parts[name] for name in _ALL_STREAMS if name in parts or name in ("sent", "exits")}
    for name, records in found.items():
        if records.dtype != _ALL_STREAMS[name] or records.ndim != 1:
            raise ValueError(f"its events ({name}) have another dtype or shape")
    return found


def _meta_of(parts: Mapping[str, Any]) -> tuple[dict[str, Any], RunMetadata | None]:
    """Return a file's metadata, and the scene in the metadata (None if they contain no complete scene).

    If the metadata do not match their checksum, their ``hash`` is set to None, so that `_compare` refuses the file.
    """
    text = str(parts["meta"])
    meta = json.loads(text)
    # A scene without ``rounds`` is one of an earlier version, and incomplete: ignore it.
    scene = RunMetadata.from_dict(meta["scene"], len(meta["agents"])) if "rounds" in meta.get("scene", ()) else None
    if str(parts["check"]) != _check(text):
        meta["hash"] = None
    return meta, scene


def _texts_of(meta: Mapping[str, Any]) -> list[str]:
    """Return the texts of labels and notes; raises ValueError if they are not a list of texts."""
    texts = meta.get("texts", [])
    if not (isinstance(texts, list) and all(isinstance(each, str) for each in texts)):
        raise ValueError("its texts are invalid")
    return texts


def _check_caption(records: NDArray[np.void], agents: int, texts: int) -> None:
    """Raise ValueError unless all labels or notes refer to existing agents and texts."""
    for name, count in (("text", texts), ("sender" if "sender" in (records.dtype.names or ()) else "agent", agents)):
        if len(records) and not 0 <= records[name].min() <= records[name].max() < count:
            raise ValueError("its labels or notes are invalid")
    if "time" in (records.dtype.names or ()) and not np.isfinite(records["time"]).all():
        raise ValueError("the times of its notes are invalid")


def _check_sizes(path: str | Path) -> None:
    """Raise ValueError if a file claims much more content than its size allows, before it is unpacked."""
    with zipfile.ZipFile(path) as archive:
        sizes = {member.filename: member.file_size for member in archive.infolist()}
        for member in archive.infolist():
            # For frames sent outside rounds, ``details`` holds zeros, which zlib compresses to almost nothing. So limit
            # its size by the size of ``sent``, which is limited by its own compressed size.
            limit = _MAX_COMPRESSION * member.compress_size
            if member.filename == "details.npy":
                limit = sizes.get("sent.npy", 0)
            elif member.filename == "contents.npy":
                # The frames' contents may consist of zeros, and zlib compresses about a thousand zeros into one byte.
                limit = 1100 * member.compress_size
            if member.file_size > limit + (1 << 20):
                raise ValueError(f"{member.filename} would be {member.file_size:,} bytes")


def _header(file: Any) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Read the header of an array in numpy's format: its shape and dtype."""
    stream: BinaryIO = file
    version = np.lib.format.read_magic(stream)
    read = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}[version]
    shape, _, dtype = read(stream)
    return shape, dtype
