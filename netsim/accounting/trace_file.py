"""A trace read from its file a piece at a time, so that one of any length takes little memory."""

import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from netsim.accounting.scene import Scene
from netsim.accounting.trace import CHUNK, STREAMS, check_meta, check_sizes
from netsim.core.records import key_shift
from netsim.core.tally import mix_exits, mix_sent, sums_of, trace_hash
from netsim.errors import BadInput, one_line
from netsim.util import draws

__all__ = ["TraceFile"]

_WHOLE = ("meta", "check", "agent_keys", "senders", "receivers")


class TraceFile:
    """A file that `netsim.accounting.Trace.save` wrote, checked as `netsim.accounting.Trace.load` checks it.

    Parameters
    ----------
    path : str or Path
        The file, which must stay as it is while this is used.
    told : callable, optional
        Called now and then with how many records have been read so far; each is read several times.

    Attributes
    ----------
    agents, kinds : list of str
        The agents' names and the kinds of message.
    scene : Scene or None
        Where and when the run took place; None in a file of an earlier version.

    Raises
    ------
    BadInput
        If the file is missing, cut short, changed, or no trace.
    """

    def __init__(self, path: str | Path, told: Callable[[int], None] | None = None) -> None:
        self.path = Path(path)
        self._told, self._seen = told, 0
        self.agents: list[str]
        self.kinds: list[str]
        self.scene: Scene | None
        self._counts: dict[str, int] = {}
        try:
            check_sizes(path)
            unchanged = self._read()
        except FileNotFoundError:
            raise BadInput(f"trace = {str(path)!r}: must be an existing file") from None
        except Exception as error:
            # A damaged file can make zipfile, zlib, numpy and json raise many things; what they mean here is one.
            reason = one_line(error) or type(error).__name__
            raise BadInput(f"trace = {str(path)!r}: must be a whole trace file; this one is none ({reason})") from None
        if not unchanged:
            raise BadInput(f"trace = {str(path)!r}: must be unchanged; its events do not have the hash that it records")

    @property
    def links(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The numbers of the agents at each directed link's ends: senders and receivers."""
        return self._senders, self._receivers

    def count(self, stream: str) -> int:
        """Return how many records there are of a kind, one of `netsim.accounting.trace.STREAMS`."""
        return self._counts.get(stream, 0)

    def chunks(self, stream: str) -> Iterator[NDArray[np.void]]:
        """Yield the records of a kind, one of `netsim.accounting.trace.STREAMS`, some at a time."""
        if stream not in self._counts:
            return
        dtype, left = STREAMS[stream], self._counts[stream]
        with zipfile.ZipFile(self.path) as packed, packed.open(f"{stream}.npy") as file:
            _header(file)
            while left:
                many = min(left, CHUNK)
                data = file.read(many * dtype.itemsize)
                self._seen += many
                if self._told is not None:
                    self._told(self._seen)
                yield np.frombuffer(data, dtype)
                left -= many
            # The check sum is looked at when the end is.
            if file.read(1):
                raise ValueError(f"its events ({stream}) are more than it says")

    def _read(self) -> bool:
        with open(self.path, "rb") as opened, np.load(opened) as file:
            parts: dict[str, Any] = {name: file[name] for name in _WHOLE}
        meta, self.scene, whole = check_meta(parts)
        self.agents, self.kinds = list(meta["agents"]), list(meta["kinds"])
        self._senders, self._receivers = parts["senders"], parts["receivers"]
        with zipfile.ZipFile(self.path) as packed:
            for name in STREAMS.keys() & {each.removesuffix(".npy") for each in packed.namelist()}:
                with packed.open(f"{name}.npy") as records:
                    shape, dtype = _header(records)
                if dtype != STREAMS[name] or len(shape) != 1:
                    raise ValueError(f"its events ({name}) are of another form")
                self._counts[name] = shape[0]
        for name in ("details", "left", "in_flight"):
            for _ in self.chunks(name):
                pass
        return whole and self._hash(parts["agent_keys"]) == meta["hash"]

    def _hash(self, agent_keys: Any) -> str:
        links = draws.link_keys(agent_keys[self._senders], agent_keys[self._receivers])
        kinds = np.array([draws.name_key(kind) for kind in self.kinds], dtype=np.uint64)
        sums = np.zeros(2, dtype=np.uint64)
        for sent in self.chunks("sent"):
            sums += sums_of(mix_sent(sent, agent_keys, links, kinds))
        shift = key_shift(len(self._senders))
        for exits in self.chunks("exits"):
            time = np.ascontiguousarray(exits["time"])
            key, kind, cause = (exits[name].astype(np.int64) for name in ("key", "kind", "cause"))
            sums += sums_of(mix_exits(time, key, kind, cause, shift, links, kinds))
        return trace_hash(agent_keys, self._senders, self._receivers, sums=sums)


def _header(file: Any) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Read what numpy writes before an array's bytes: its shape and dtype."""
    stream: BinaryIO = file
    version = np.lib.format.read_magic(stream)
    read = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}[version]
    shape, _, dtype = read(stream)
    return shape, dtype
