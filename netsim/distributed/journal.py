"""The journal of a process: a file of entries, which record what the process did in a run.

An entry is written before another process can notice the event that it records. If a file ends in the middle of an
entry, the process was killed, and the complete entries before it are read. A file with an altered entry is refused.
"""

import os
import struct
import zlib
from collections.abc import Hashable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgpack
import numpy as np
from numpy.typing import NDArray

from netsim._version import __version__
from netsim.agent import Agent
from netsim.core import Tally
from netsim.core.records import KEPT
from netsim.distributed.envelope import fits
from netsim.distributed.membership import Membership
from netsim.distributed.states import StateWriter
from netsim.errors import BadInput, NetsimError, one_line
from netsim.watch import Watch
from netsim.wire.codec import check_whole

BEGIN, KINDS, RECORDS, ROW, ARRAY, STATE, END, CHANGES = range(8)
"""Types of entry, in this order: the process and its agents; kinds of message; events; a row of results; an array; an
agent's state; the end of the run; changes of watched attributes."""

Records = dict[str, NDArray[np.void]]
"""Events by record type (`KEPT`), as `netsim.core.tally.Tally.news` returns them."""

# The form that the content of each entry type must have; `fits` defines what a form is.
_FORMS: dict[int, Any] = {
    BEGIN: {
        **{"host": str, "hosts": [str], "incarnation": int, "run": int, "mark": bytes, "places": [int], "netsim": str},
        **{"joined": float, "sampled": bool, "epoch": float, "met": {str: int}},
    },
    KINDS: [str],
    RECORDS: [bytes, bytes, bytes, bytes],
    CHANGES: [bytes, bytes, bytes, bytes, [(type(None), [str])], [bool], [(type(None), [str])]],
    ROW: [int, float, bool],
    ARRAY: [bytes, bytes],
    STATE: [int, bytes, int],
    END: {
        **{"end": float, "in_flight": [[int]], "why": str, "dead": [str], "clocks": {str: [float]}},
        **{"dropped": {str: int}, "datagrams": [int, int, int, int], "overruns": int, "longest_lag": float},
    },
}

# An entry's header: size of the body, type, checksum of the body. The header is followed by its own checksum: without
# it, a damaged size would look as if the process had been killed while it wrote the entry.
_HEAD = struct.Struct("<III")
_CHECK = struct.Struct("<I")
_HEAD_SIZE = _HEAD.size + _CHECK.size
MARK = b"netsim journal 5\n"


class Journal:
    """Writes the journal of one process: events, states of agents, rows of results, and the end of the run.

    ``agents`` are all agents of the network; ``processes`` maps each agent to the index of its process. Raises
    NetsimError if the file exists or cannot be written, and BadInput if the state of an agent in this process cannot be
    pickled.
    """

    def __init__(
        self, path: Path, agents: Mapping[Any, Agent], processes: Mapping[Hashable, int], membership: Membership
    ) -> None:
        self._path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644), "wb", 0)
        except OSError as error:
            raise self._failure(error) from None
        self._agents = agents
        self._local = {name: number for number, name in enumerate(agents) if processes[name] == membership.me}
        self._kinds_written = self._changes_written = 0
        self._membership = membership
        self._writer = StateWriter(agents, lambda digest, data: self.put(ARRAY, [digest, data]))
        try:
            self._write(MARK)
            self.put(
                BEGIN,
                {
                    "host": membership.hosts[membership.me],
                    "hosts": membership.hosts,
                    "incarnation": membership.incarnation,
                    "run": membership.run,
                    "mark": membership.mark,
                    "places": [processes[name] for name in agents],
                    "netsim": __version__,
                },
            )
            # The first write of the states takes longest, so do it before the run starts and other processes wait for
            # this one.
            self.write_states()
        except BaseException:
            # The constructor failed, so no other code can close the file.
            self._file.close()
            raise

    def put(self, entry_type: int, content: Any) -> None:
        """Append an entry; once this returns, the entry survives a kill of this process."""
        self._write(entry(entry_type, msgpack.packb(content)))

    def _write(self, data: bytes) -> None:
        try:
            while data:
                data = data[self._file.write(data) :]
        except OSError as error:
            raise self._failure(error) from None

    def _failure(self, error: OSError) -> NetsimError:
        return NetsimError(f"file = {str(self._path)!r}: could not be written ({error.strerror or one_line(error)})")

    def joined(self, time: float, sampled: bool) -> None:
        """Record the time (simulated s) at which this process joined the run, and the processes that it met.

        ``sampled`` is True if the rows of results are samples at fixed times, and False if there is a row for each
        round.
        """
        membership = self._membership
        about = {"joined": max(time, 0.0), "sampled": sampled, "epoch": membership.epoch, "met": membership.met()}
        self.put(BEGIN, about)

    def write_states(self) -> None:
        """Write the state and the current round of each agent of this process."""
        for name, number in self._local.items():
            context = vars(self._agents[name]).get("_netsim")
            in_round = 0 if context is None else context.round
            self.put(STATE, [number, self._writer.state(name), in_round])

    def write_events(self, tally: Tally, keep: bool) -> None:
        """Write the events since the last call. Unless ``keep`` is true, the tally then deletes all its events."""
        if len(tally.kinds) > self._kinds_written:
            self.put(KINDS, list(tally.kinds)[self._kinds_written :])
            self._kinds_written = len(tally.kinds)
        records = tally.news(forget=not keep)
        if any(map(len, records.values())):
            self.put(RECORDS, [records[name].tobytes() for name in KEPT])

    def write_changes(self, watch: Watch) -> None:
        """Write the changes of watched states since the last call."""
        if len(watch) > self._changes_written:
            self.put(CHANGES, watch.packed(self._changes_written))
            self._changes_written = len(watch)

    def write_row(self, number: int, time: float, took_part: bool) -> None:
        """Write the entry that ends a row: its number, its time (s), and whether an agent of this process took part."""
        self.put(ROW, [number, time, took_part])

    def end(self, end: float, in_flight: Iterable[tuple[int, int]], **more: Any) -> None:
        """Write the entry END: the run's end (s), the link messages in flight, and the fields in ``more``."""
        self.put(END, {"end": end, "in_flight": [list(each) for each in in_flight], **more})

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def discard(self) -> None:
        """Delete the file, because this process took no part in the run."""
        self.close()
        self._path.unlink(missing_ok=True)


def entry(entry_type: int, body: bytes) -> bytes:
    """Encode an entry: header, checksum of the header, body."""
    head = _HEAD.pack(len(body), entry_type, zlib.crc32(body))
    return head + _CHECK.pack(zlib.crc32(head)) + body


def entries(path: Path) -> Iterator[tuple[int, Any]]:
    """Yield the type and content of each complete entry of a journal; raises BadInput at a damaged entry."""
    try:
        with path.open("rb") as file:
            size_of_file = os.fstat(file.fileno()).st_size
            if not MARK.startswith(file.read(len(MARK))):
                raise NetsimError(f"file = {str(path)!r}: must be a journal of a process, written by this netsim")
            offset = len(MARK)
            while len(head := file.read(_HEAD_SIZE)) == _HEAD_SIZE:
                size, entry_type, check = _HEAD.unpack_from(head)
                if zlib.crc32(head[: _HEAD.size]) != _CHECK.unpack_from(head, _HEAD.size)[0]:
                    raise _damage(path, offset)
                end = offset + _HEAD_SIZE + size
                if end > size_of_file:
                    # The process was killed while it wrote this entry: the header is undamaged, but the body is
                    # incomplete.
                    return
                if zlib.crc32(body := file.read(size)) != check:
                    raise _damage(path, offset)
                yield entry_type, _content(path, entry_type, body)
                offset = end
    except OSError as error:
        raise NetsimError(f"file = {str(path)!r}: cannot be read ({error.strerror or one_line(error)})") from None


def _damage(path: Path, offset: int) -> BadInput:
    return BadInput(f"file = {str(path)!r}: must be unchanged; the entry at byte {offset} is damaged")


def _content(path: Path, entry_type: int, body: bytes) -> Any:
    """Decode the content of an entry; raises NetsimError if it does not have the form of its type."""
    try:
        check_whole(body)
        content = msgpack.unpackb(body, strict_map_key=False)
        if fits(content, _FORMS[entry_type]):
            return content
    except Exception:
        # Hostile bytes make msgpack raise exceptions of many types; any of them means that the entry is invalid.
        pass
    raise NetsimError(f"file = {str(path)!r}: must be a journal of a process; an entry has another form")


def records_of(content: list[bytes]) -> Records:
    """Return the events in an entry of type RECORDS, by record type."""
    return {name: np.frombuffer(raw, dtype) for (name, dtype), raw in zip(KEPT.items(), content, strict=True)}
