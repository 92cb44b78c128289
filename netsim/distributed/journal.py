"""What a process writes down of its part of a run, as it goes: whole entries, each in the file before what it tells of
can be noticed elsewhere. A file that ends in the midst of an entry is that of a process that was killed; one with
an entry that is not as it was written is damaged, and refused.
"""

import math
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
from netsim.distributed.membership import Membership
from netsim.distributed.states import StateWriter
from netsim.errors import BadInput, NetsimError, one_line
from netsim.watch import Watch
from netsim.wire.codec import check_whole

__all__ = [
    "ARRAY",
    "BEGIN",
    "CHANGES",
    "END",
    "KINDS",
    "RECORDS",
    "ROW",
    "STATE",
    "Journal",
    "JournalWriter",
    "Records",
    "entries",
    "entry",
    "records_of",
]

BEGIN, KINDS, RECORDS, ROW, ARRAY, STATE, END, CHANGES = range(8)
"""What an entry is of: what runs where; kinds of message; events; a row; an array; an agent's state; the end; changes
of what is watched of agents."""

Records = dict[str, NDArray[np.void]]
"""Events by stream, as `netsim.core.tally.Tally.news` returns them."""

# Of each entry the form of its content.
_FORMS: dict[int, Any] = {
    BEGIN: {
        **{"host": str, "hosts": [str], "incarnation": int, "run": int, "mark": bytes, "places": [int], "netsim": str},
        **{"joined": float, "sampled": bool, "epoch": float, "met": {str: int}},
    },
    KINDS: [str],
    RECORDS: [bytes, bytes, bytes, bytes],
    CHANGES: [bytes, bytes, bytes, bytes],
    ROW: [int, float, bool],
    ARRAY: [bytes, bytes],
    STATE: [int, bytes, int],
    END: {
        **{"end": float, "in_flight": [[int]], "why": str, "dead": [str], "clocks": {str: [float]}},
        **{"dropped": {str: int}, "datagrams": [int, int, int, int], "overruns": int, "longest_lag": float},
    },
}

# An entry's head: its body's size, what it is of, the body's checksum; and a checksum of these, or a size that was
# damaged would pass for the end of the file.
_HEAD = struct.Struct("<III")
_CHECK = struct.Struct("<I")
_HEAD_SIZE = _HEAD.size + _CHECK.size
_MARK = b"netsim journal 3\n"


class Journal:
    """A new file of entries that grows; it and its methods raise NetsimError if it cannot be written."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = -1
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o644)
            self._write(_MARK)
        except OSError as error:
            raise self._failure(error) from None

    def put(self, what: int, content: Any) -> None:
        """Append an entry; it is with the system when this returns."""
        try:
            self._write(entry(what, msgpack.packb(content)))
        except OSError as error:
            raise self._failure(error) from None

    def put_records(self, records: Mapping[str, NDArray[np.void]]) -> None:
        """Append events, if there are any."""
        if any(len(part) for part in records.values()):
            self.put(RECORDS, [records[name].tobytes() for name in KEPT])

    def close(self) -> None:
        """Write no more."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _write(self, data: bytes) -> None:
        while data:
            data = data[os.write(self._file, data) :]

    def _failure(self, error: OSError) -> NetsimError:
        return NetsimError(f"file = {str(self._path)!r}: could not be written ({error.strerror or one_line(error)})")


class JournalWriter(Journal):
    """Writes a process's part of a run: who it is, what happened, agents' states, rows, and how it ended.

    It takes all agents of the network, and by their names the numbers of their processes. It raises BadInput if an
    agent that is here holds what cannot be written.
    """

    def __init__(
        self, path: Path, agents: Mapping[Any, Agent], places: Mapping[Hashable, int], membership: Membership
    ) -> None:
        super().__init__(path)
        self._agents = agents
        self._here = {name: number for number, name in enumerate(agents) if places[name] == membership.me}
        self._kinds_written = self._changes_written = 0
        self._membership = membership
        self._writer = StateWriter(agents, lambda digest, data: self.put(ARRAY, [digest, data]))
        self.put(
            BEGIN,
            {
                "host": membership.hosts[membership.me],
                "hosts": membership.hosts,
                "incarnation": membership.incarnation,
                "run": membership.run,
                "mark": membership.mark,
                "places": [places[name] for name in agents],
                "netsim": __version__,
            },
        )
        # The first time takes longest, and no process waits yet.
        self.write_states()

    def joined(self, time: float, sampled: bool) -> None:
        """Write from which simulated time (s) on it takes part, with whom, and whether it samples at an interval."""
        membership = self._membership
        about = {"joined": max(time, 0.0), "sampled": sampled, "epoch": membership.epoch, "met": membership.met()}
        self.put(BEGIN, about)

    def write_states(self) -> None:
        """Write the states of the agents that are here, and in which round they are."""
        for name, number in self._here.items():
            place = vars(self._agents[name]).get("_netsim")
            in_round = 0 if place is None else place.round
            self.put(STATE, [number, self._writer.state(name), in_round])

    def write_events(self, tally: Tally, keep: bool) -> None:
        """Write what has happened since the last time; the tally keeps it only if ``keep``."""
        if len(tally.kinds) > self._kinds_written:
            self.put(KINDS, list(tally.kinds)[self._kinds_written :])
            self._kinds_written = len(tally.kinds)
        self.put_records(tally.news(forget=not keep))

    def write_changes(self, watch: Watch) -> None:
        """Write what of the agents' states has changed since the last time."""
        if len(watch) > self._changes_written:
            self.put(CHANGES, [part.tobytes() for part in watch.changes(self._changes_written)])
            self._changes_written = len(watch)

    def write_row(self, number: int, time: float, took_part: bool) -> None:
        """Write that what is written so far is a row: its number, its time (s), whether an agent here took part."""
        self.put(ROW, [number, time, took_part])

    def end(self, end: float, in_flight: Iterable[tuple[int, int]], **more: Any) -> None:
        """Write when (s) the run ended, what was under way, and more."""
        self.put(END, {"end": end, "in_flight": [list(each) for each in in_flight], **more})

    def discard(self) -> None:
        """Leave no file: there is nothing to tell."""
        self.close()
        self._path.unlink(missing_ok=True)


def entry(what: int, body: bytes) -> bytes:
    """Return an entry as it stands in the file."""
    head = _HEAD.pack(len(body), what, zlib.crc32(body))
    return head + _CHECK.pack(zlib.crc32(head)) + body


def entries(path: Path) -> Iterator[tuple[int, Any]]:
    """Yield the whole entries of a journal, what each is of and its content; raises BadInput where one is damaged."""
    try:
        with path.open("rb") as file:
            size_of_file = os.fstat(file.fileno()).st_size
            if not _MARK.startswith(file.read(len(_MARK))):
                raise NetsimError(f"file = {str(path)!r}: must be what a process of a run wrote, with this netsim")
            place = len(_MARK)
            while len(head := file.read(_HEAD_SIZE)) == _HEAD_SIZE:
                size, what, check = _HEAD.unpack_from(head)
                # A killed process leaves the beginning of an entry, as it was written.
                if zlib.crc32(head[: _HEAD.size]) != _CHECK.unpack_from(head, _HEAD.size)[0]:
                    raise _damage(path, place)
                end = place + _HEAD_SIZE + size
                if end > size_of_file:
                    return
                if zlib.crc32(body := file.read(size)) != check:
                    raise _damage(path, place)
                yield what, _content(path, what, body)
                place = end
    except OSError as error:
        raise NetsimError(f"file = {str(path)!r}: cannot be read ({error.strerror or one_line(error)})") from None


def _damage(path: Path, place: int) -> BadInput:
    return BadInput(f"file = {str(path)!r}: must be as it was written; the entry at byte {place} is damaged")


def _content(path: Path, what: int, body: bytes) -> Any:
    """Return the content of an entry; raises NetsimError if it has not the form that `Journal` gave it."""
    try:
        check_whole(body)
        content = msgpack.unpackb(body, strict_map_key=False)
        if _fits(content, _FORMS[what]):
            return content
    except Exception:
        # Bytes of whatever kind can make msgpack raise many things; what they mean here is one.
        pass
    raise NetsimError(f"file = {str(path)!r}: must be what a process of a run wrote; an entry is of another form")


def _fits(value: Any, form: Any) -> bool:
    """Return whether a value has a form: of a class; a list of one form, or of one each; a dict by name or of any."""
    if type(form) is list and type(value) is list:
        forms = form * len(value) if len(form) == 1 else form
        return len(forms) == len(value) and all(map(_fits, value, forms))
    if type(form) is dict and type(value) is dict:
        [(key, item), *more] = form.items()
        if type(key) is type and not more:
            return all(_fits(name, key) and _fits(each, item) for name, each in value.items())
        return all(name in form and _fits(each, form[name]) for name, each in value.items())
    if form is float:
        return type(value) in (float, int) and math.isfinite(value)
    return form is object or type(value) is form


def records_of(content: list[bytes]) -> Records:
    """Return the events of an entry."""
    return {name: np.frombuffer(raw, dtype) for (name, dtype), raw in zip(KEPT.items(), content, strict=True)}
