"""The live view of one run: read new frames, rows and states from the run, and send them to its page."""

import threading
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netsim.accounting.captions import LABELLED, Captions
from netsim.accounting.ledger import Ledger
from netsim.accounting.run_metadata import RunMetadata
from netsim.accounting.trace import STREAMS
from netsim.core.records import IN_FLIGHT
from netsim.draw import named_kinds, resolved
from netsim.errors import NetsimError, one_line
from netsim.replay import render
from netsim.replay.film import film_of
from netsim.replay.frames import Columns, Reader, frames_of
from netsim.replay.html import COLUMNS, html
from netsim.replay.packing import pack
from netsim.replay.run_history import RunHistory
from netsim.run import Run
from netsim.watch import Watch

__all__ = ["PendingFrames", "RunView", "ShownChanges", "ShownRows"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Records = Mapping[str, NDArray[np.void]]


class RunView:
    """A run shown live (`netsim.engine.observers.Shown`); the run's thread writes to it, and server threads read it.

    It keeps the newest ``most`` frames. ``pace`` is the number of simulated seconds that the page shows per second;
    ``length`` is the run's duration in simulated seconds, or None if unknown.
    """

    def __init__(
        self,
        number: int,
        about: render.About,
        most: int,
        pace: float | None,
        length: float | None,
        run: Run,
        scene: RunMetadata,
    ) -> None:
        self.number, self.about, self.held, self.fetched = number, about, 0, False
        self._most, self._pace, self._length = most, pace, length
        self._run, self._scene = run, scene
        self._state_names = [] if run.watch is None else run.watch.columns
        self._names = render.texts(run.agents)
        self._pending = PendingFrames(run.ledger, forget=not run.ledger.keeps_trace)
        self._said = run.ledger.captions or Captions()
        self._rows, self._changes = ShownRows(), ShownChanges(len(run.agents), len(self._state_names))
        self._changes.look(run.watch)
        self._lock = threading.Lock()
        self._snapshot = self._snapshot_of(scene) | {"running": True, "why": ""}
        self._parts: list[tuple[int, Columns]] = []
        self._serial = 0
        self._under_way: Columns = _no_frames()

    # --- in the run's thread ------------------------------------------------------------------------------------------

    def look(self, scene: RunMetadata, *, running: bool = True, why: str = "") -> None:
        """Read the events since the last call; ``why`` is the error that ended the run, if it is not ``running``."""
        if not self._snapshot["running"]:
            return
        try:
            ended, under_way = self._pending.look(scene, over=not running)
            snapshot = self._snapshot_of(scene) | {"running": running, "why": why}
            with self._lock:
                self._rows.look(self._run)
                self._changes.look(self._run.watch)
                self._snapshot, self._under_way = snapshot, under_way
                if many := len(ended["start"]):
                    self._serial += 1
                    self._parts.append((self._serial, ended))
                    self.held += many
            self.forget(self.held - self._most)
        except Exception as error:
            # The run must continue even if its view fails.
            why = f"it cannot be shown any further: {type(error).__name__}: {one_line(error)}"
            with self._lock:
                self._snapshot = self._snapshot | {"running": False, "why": why}

    def end(self, scene: RunMetadata, error: NetsimError | None) -> None:
        """Read the remaining events at the end of the run."""
        self.look(scene, running=False, why="" if error is None else one_line(error))

    def _snapshot_of(self, scene: RunMetadata) -> dict[str, Any]:
        """Return the run's current metadata, without frames, rows and states."""
        ledger = self._run.ledger
        kinds = render.texts(named_kinds(ledger.tally.kinds, scene.draw))
        counts = dict(zip(ledger.causes, ledger.exits, strict=True)) | {"in_flight": len(list(ledger.in_flight()))}
        said = ledger.excerpt({"notes": self._said.notes()}, scene, self._said.texts)
        return {
            "known": scene.ended_at,
            "rounds": scene.rounds,
            "paths": render.paths_of(scene),
            "labels": render.texts(said.texts),
            "marks": render.marks_of(said),
            "kinds": kinds,
            "counts": counts,
            "faults": [dict(fault) for fault in scene.faults],
            "notes": render.remarks(kinds, scene),
        }

    def forget(self, many: int) -> None:
        """Delete the ``many`` oldest frames."""
        with self._lock:
            while many > 0 and self._parts:
                serial, part = self._parts[0]
                size = len(part["start"])
                if size <= many:
                    del self._parts[0]
                else:
                    # The rest keeps the serial number of the part: a page that has received this part needs no new
                    # copy.
                    self._parts[0] = serial, {name: column[many:] for name, column in part.items()}
                self.held -= min(size, many)
                many -= size

    # --- in the server's threads --------------------------------------------------------------------------------------

    @cached_property
    def page(self) -> str:
        """The HTML page without frames; the page requests the frames later."""
        log = self._run.ledger.excerpt({}, self._scene)
        meta = render.describe(log, frames_of(log), self.about)
        meta |= {"kinds": [], "labels": [], "states": render.no_changes(self._state_names)}
        declared = {} if self._run.watch is None else self._run.watch.drawn_as
        meta |= {"draw": resolved(meta["states"], meta["agents"], declared)}
        live = {"number": self.number, "pace": self._pace, "length": self._length}
        return html(meta | {"live": live, "ended_at": 0.0}, _no_frames(), asks=True)

    def news(self, since: Sequence[int]) -> dict[str, Any]:
        """Return the data that a page lacks, for JSON; ``since`` is from the last response, or five zeros."""
        serial, stride, count, edition, shown = since
        with self._lock:
            snapshot, under_way, rows, changes = self._snapshot, self._under_way, self._rows, self._changes
            parts = [part for number, part in self._parts if number > serial]
            row = count if stride == rows.stride and count <= rows.count else 0
            change = shown if edition == changes.edition and shown <= changes.count else 0
            since = self._serial, rows.stride, rows.count, changes.edition, changes.count
            columns: Columns = _together([_no_frames(), *parts])
            columns |= {f"open {name}": column for name, column in under_way.items()}
            columns |= rows.columns(row) | changes.columns(change)
            notes = [*snapshot["notes"], *rows.notes, *changes.notes]
            curves, words, states = list(rows.curves), changes.words, changes.states()
            kept = _together([_no_frames(), *(part for _, part in self._parts), under_way])
            draw = resolved(states, self._names, changes.declared)
            self.fetched = self.fetched or not snapshot["running"]
        return snapshot | {
            "since": ".".join(map(str, since)), "row": row, "change": change, "curves": curves, "notes": notes,
            "words": words, "draw": draw, "film": self._film(snapshot, kept, states, draw),
            "total": sum(snapshot["counts"].values()), "most": self._most, "packed": pack(columns, quickly=True),
        }  # fmt: skip

    def _film(self, snapshot: Mapping[str, Any], kept: Columns, states: Mapping[str, Any], draw: Any) -> dict[str, Any]:
        """Return the film (`netsim.replay.film`) of the data so far."""
        known = snapshot["known"]
        kept |= {name: np.minimum(kept[name], known) for name in ("depart", "end")}
        meta = {
            **snapshot, "title": "", "command": "", "agents": self._names, "medium": self._scene.medium,
            "causes": list(snapshot["counts"]), "round_period": self._scene.round_period, "ended_at": known,
            "omitted": len(kept["start"]) < sum(snapshot["counts"].values()),
            "states": states, "draw": draw,
        }  # fmt: skip
        return film_of(RunHistory(meta, kept), pace=self._pace)


# --- frames -----------------------------------------------------------------------------------------------------------


def _no_frames() -> Columns:
    return {name: np.empty(0, dtype) for name, dtype in COLUMNS.items()}


def _together(parts: Sequence[Columns]) -> Columns:
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


class PendingFrames:
    """Keeps only the records of frames in flight, so that the cost of `look` depends only on the new events.

    ``forget`` makes the ledger delete records once they are read, because nothing else needs them.
    """

    def __init__(self, ledger: Ledger, forget: bool) -> None:
        self._ledger, self._forget = ledger, forget
        self._mask = (1 << ledger.tally.shift) - 1
        self._kept: Records = {name: np.empty(0, STREAMS[name]) for name in ("sent", "details", "left")}
        self._kept |= {"labels": np.empty(0, LABELLED)}
        self._labels_seen = 0

    def look(self, scene: RunMetadata, over: bool) -> tuple[Columns, Columns]:
        """Return the frames that have ended since the last call, and the frames in flight at ``scene.ended_at``.

        If the run is ``over``, all frames count as ended. For frames in flight ``end`` is infinite; ``depart`` is
        infinite, too, if it is unknown.
        """
        ledger = self._ledger
        news = ledger.tally.news(self._forget) | {"labels": self._new_labels()}
        records = news | {name: np.concatenate([kept, news[name]]) for name, kept in self._kept.items()}
        records["in_flight"] = np.array(list(ledger.in_flight()), dtype=IN_FLIGHT)
        columns, in_flight = self._frames(scene, records)
        self._keep(records)
        ended = (columns["cause"] != in_flight) | over
        under_way = {name: column[~ended] for name, column in columns.items()}
        under_way["end"][:] = np.inf
        if scene.medium == "shared":
            # The departure of a frame that still waits is unknown.
            under_way["depart"][under_way["depart"] >= scene.ended_at] = np.inf
        return {name: column[ended] for name, column in columns.items()}, under_way

    def _new_labels(self) -> NDArray[np.void]:
        """Return the labels added since the last call."""
        said = self._ledger.captions or Captions()
        new = said.labels(self._labels_seen)
        if self._forget:
            said.forget_labels()
        else:
            self._labels_seen += len(new)
        return new

    def _frames(self, scene: RunMetadata, records: Records) -> tuple[Columns, int]:
        """Return the frames in some records, and the index of the cause "in_flight"."""
        # `Reader` needs memory for the largest transmission number of each agent, so renumber the transmissions: 0, 1,
        # ….
        by_key = {name: self._message(records[name]["key"]) for name in ("exits", "left", "in_flight")}
        sent = self._join(records["sent"]["sender"], records["sent"]["number"])
        original = self._join(self._senders(records["left"]["key"]), records["left"]["number"])
        messages = np.unique(np.concatenate([sent, original, *by_key.values()]))
        shift = self._ledger.tally.shift
        firsts = np.searchsorted(messages, np.arange(len(self._ledger.agents), dtype=np.int64) << shift)

        def anew(message: Ints) -> Ints:
            found: Ints = np.searchsorted(messages, message) - firsts[message >> shift]
            return found

        renamed = {name: each.copy() for name, each in records.items()}
        labelled = self._join(records["labels"]["sender"], records["labels"]["number"])
        known = np.isin(labelled, messages)
        renamed["labels"] = renamed["labels"][known]
        renamed["labels"]["number"] = anew(labelled[known])
        renamed["sent"]["number"], renamed["left"]["number"] = anew(sent), anew(original)
        for name, message in by_key.items():
            renamed[name]["key"] = (records[name]["key"] & ~self._mask) | anew(message)
        reader = Reader(self._ledger.excerpt(renamed, scene))
        columns = reader.columns
        if len(messages):
            columns["number"] = messages[firsts[columns["sender"]] + columns["number"]] & self._mask
        return {name: columns[name].astype(dtype) for name, dtype in COLUMNS.items()}, reader.causes.index("in_flight")

    def _keep(self, records: Records) -> None:
        """Keep only the records of the frames in flight."""
        keys = records["in_flight"]["key"]
        left = records["left"][np.isin(records["left"]["key"], keys)]
        # A duplicate has a separate transmission number; use that of its original.
        original = self._join(self._senders(left["key"]), left["number"])
        sent = self._join(records["sent"]["sender"], records["sent"]["number"])
        pending = np.isin(sent, np.concatenate([self._message(keys), original]))
        labels = records["labels"]
        labels = labels[np.isin(self._join(labels["sender"], labels["number"]), sent[pending])]
        kept = {name: records[name][pending] for name in ("sent", "details")}
        self._kept = kept | {"left": left, "labels": labels}

    def _senders(self, keys: Ints) -> Ints:
        senders: Ints = self._ledger.senders[keys >> self._ledger.tally.shift]
        return senders

    def _join(self, senders: Ints, numbers: Ints) -> Ints:
        """Return integers that combine a sender and its transmission number."""
        return (senders.astype(np.int64) << self._ledger.tally.shift) | numbers

    def _message(self, keys: Ints) -> Ints:
        return self._join(self._senders(keys), keys & self._mask)


# --- rows and states --------------------------------------------------------------------------------------------------


class ShownRows:
    """The rows of a run that its page shows: every ``stride``-th, a power of two, which is 1 if there are few rows."""

    def __init__(self) -> None:
        self.stride = 1
        self.times: Floats = np.empty(0)
        self.curves: dict[str, Floats] = {}

    @property
    def count(self) -> int:
        """The number of rows that are shown."""
        return len(self.times)

    def look(self, run: Run) -> None:
        """Read the rows to show."""
        while -(-run.rows // self.stride) > render.MOST_ROWS:
            self.stride *= 2
        found = render.curves_of(run.rounds_of(slice(0, run.rows, self.stride)))
        self.times, none = np.array(found["x"], dtype=np.float64), [None] * len(found["x"])
        # A page identifies curves by index, so append new curves at the end.
        names = [*self.curves, *found["columns"]]
        self.curves = {name: np.array(found["columns"].get(name, none), dtype=np.float64) for name in names}

    def columns(self, first: int) -> Columns:
        """Return the columns of the curves from row ``first`` on, under the names that the page uses."""
        found = {"curves x": self.times[first:]}
        return found | {f"curve {index}": column[first:] for index, column in enumerate(self.curves.values())}

    @property
    def notes(self) -> list[str]:
        """A note on the rows that are left out."""
        return [f"Curves show one row of {self.stride:,}."] if self.stride > 1 else []


class ShownChanges:
    """The state changes that a page shows: if there are many, older changes are thinned out more.

    ``states`` is the number of states of each agent. ``edition`` increases when shown changes are dropped, or a numeric
    state becomes textual. ``words`` holds the texts of textual states, and ``declared`` how states are drawn.
    """

    def __init__(self, agents: int, states: int) -> None:
        self.edition = 0
        self.words: dict[str, list[str]] = {}
        self._agents, self._states, self._seen, self._recoded, self._thinned = agents, states, 0, 0, False
        self.declared: dict[str, Any] = {}
        self._columns: list[str] = []
        self._parts = self._none()

    def _none(self) -> list[NDArray[Any]]:
        return [*(np.empty(0, kind) for kind in (np.float64, np.int32, np.int64)), np.empty((0, self._states))]

    @property
    def count(self) -> int:
        """The number of changes that are shown."""
        return len(self._parts[0])

    def look(self, watch: Watch | None) -> None:
        """Read the changes since the last call."""
        if watch is None:
            return
        if watch.recoded > self._recoded:
            self._recoded, self._seen, self._parts = watch.recoded, 0, self._none()
            self.edition += 1
        self.declared, self._columns = watch.drawn_as, watch.columns
        self.words = {
            name: render.texts(words) for name, words in zip(watch.columns, watch.words, strict=True) if words
        }
        new = watch.changes(self._seen)
        self._seen += len(new[0])
        self._parts = [np.concatenate(pair) for pair in zip(self._parts, new, strict=True)]
        # A loop, because after a long pause the changes may exceed the limit many times.
        while self.count > max(render.MOST_CHANGES, 4 * self._agents):
            some = render.few_changes(self._parts[1], self._agents, self.count // 2)
            self._parts = [part[some] for part in self._parts]
            self.edition, self._thinned = self.edition + 1, True

    def columns(self, first: int) -> Columns:
        """Return the columns of the state changes from index ``first`` on, under the names that the page uses."""
        *parts, values = (part[first:] for part in self._parts)
        found = {f"state {name}": part for name, part in zip(("times", "agents", "sent"), parts, strict=True)}
        return found | {f"state {index}": column for index, column in enumerate(values.T)}

    def states(self) -> dict[str, Any]:
        """Return the changes in the format of the page (`netsim.replay.render.states_of`)."""
        parts = (part.tolist() for part in self._parts[:-1])
        values = dict(zip(self._columns, self._parts[-1].T.tolist(), strict=True))
        for name, words in self.words.items():
            values[name] = {"words": words, "codes": [int(code) if code >= 0 else -1 for code in values[name]]}
        return dict(zip(("times", "agents", "sent"), parts, strict=True)) | {"values": values}

    @property
    def notes(self) -> list[str]:
        """A note on the changes that are left out."""
        return [render.thinned(self.count, self._seen)] if self._thinned else []
