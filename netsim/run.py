"""The result of a run: a row for each round, the ledger and the trace."""

import pickle
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from netsim.accounting.ledger import Ledger
from netsim.accounting.trace import Trace
from netsim.agent import Agent
from netsim.checkers.operations import history
from netsim.core.records import TOTALS, as_column, totals_of
from netsim.errors import BadInput, NetsimError, one_line
from netsim.radio.airtime import AirtimeLog
from netsim.util import check
from netsim.util.hashing import hash_seed
from netsim.watch import Watch

if TYPE_CHECKING:
    import pandas as pd

    from netsim.draw import Draw

Probe = Callable[[Mapping[Any, Any]], float | Mapping[str, float]]
Progress = Callable[[int], None]

# The last two names are columns that studies add to the tables and summaries of runs.
_RESERVED_COLUMNS = frozenset({"round", "time_s", *TOTALS, "algorithm", "trace_hash"})


class Run:
    """The result of `Network.run`.

    Attributes
    ----------
    agents : dict
        The agents, in their final state.
    ledger : Ledger
        Counts by agent, link, message kind and cause of drop.
    ended_at : float
        Simulated time at the end, in seconds.
    air : AirtimeLog or None
        The counts and the airtime log of a `netsim.Radio`.
    every : int
        The interval between rows: the first round, each ``every``-th round and the last round have a row.
    sampled : bool
        Whether the rows of `rounds` are samples instead of rounds.
    watch : Watch or None
        The recorder of `states`.
    costs : list of dict
        The costs of each worker (``workers`` of `Network.run`): ``cpu_seconds`` of its process, ``waited_seconds``
        spent waiting for other workers, ``windows``, the number of exchanges of frames, and ``bytes`` that it sent in
        them. Empty for a run in one process.
    hash_seed : int or None
        Python's hash seed (``PYTHONHASHSEED``), which determines the iteration order of a set of strings. None if it
        was not fixed: then a program that sends in the order of such a set is not reproducible.
    """

    def __init__(
        self,
        agents: dict[Any, Agent],
        probes: Sequence[Probe],
        progress: Progress | None,
        watch: Watch | None = None,
    ) -> None:
        self.agents = agents
        self.ledger: Ledger
        self.ended_at = 0.0
        self.air: AirtimeLog | None = None
        self.sampled = False
        self.watch = watch
        self.costs: list[dict[str, float]] = []
        self.hash_seed = hash_seed()
        self.probes = list(probes)
        self._progress = progress
        self._rows: list[tuple[Any, ...]] = []
        self._measured: list[dict[str, float]] = []
        # `_ended` counts all rounds (or samples); `_without_row` is the last of them if `every` excluded its row.
        self.every, self._ended = 1, 0
        self._without_row: tuple[int, float, tuple[int, ...]] | None = None

    def report_to(self, progress: Progress) -> None:
        """Call ``progress`` with the number of each row, unless the run has its own callback."""
        self._progress = self._progress or progress

    def add_row(
        self, number: int, time: float, totals: tuple[int, ...], measure: bool = True, parts: Sequence[Any] = ()
    ) -> None:
        """Add a row for a round or sample, unless ``every`` excludes it.

        Raises NetsimError if a probe fails, returns a non-number or duplicates a column.
        If ``measure`` is False, no probe is called and the probes' columns are NaN in this row. ``parts`` holds, for
        each probe that is measured in parts, the results of its ``local`` method in each worker.
        """
        self._ended += 1
        if number % self.every and number > 1:
            self._without_row = number, time, totals
        else:
            self._without_row = None
            self._add(number, time, totals, measure, parts)
        self.ledger.mark(self._ended, number)
        if self._progress is not None:
            self._progress(number)

    def complete(self) -> None:
        """Add the row of the last round if ``every`` excluded it, and drop states that no agent had."""
        if self._without_row is not None:
            self._add(*self._without_row)
            self._without_row = None
        if self.watch is not None and self.watch.is_empty:
            self.watch = None

    def _add(
        self, number: int, time: float, totals: tuple[int, ...], measure: bool = True, parts: Sequence[Any] = ()
    ) -> None:
        measured: dict[str, float] = {}
        for i, probe in enumerate(self.probes if measure else ()):
            local = parts[i] if parts and is_split(probe) else None
            columns = self._measure(probe, number, local)
            clash = columns.keys() & {*_RESERVED_COLUMNS, *self.ledger.causes, *measured}
            if clash:
                raise BadInput(f"probe column {min(clash)!r}: must not duplicate an existing column")
            measured |= columns
        self._rows.append((number, time, *totals))
        self._measured.append(measured)

    def _measure(self, probe: Any, number: int, parts: Sequence[Any] | None) -> Mapping[str, float]:
        try:
            value = probe(self.agents) if parts is None else probe.combine(parts)
        except Exception as error:
            raise self.probe_error(probe, number, error) from error
        name, after = _probe_name(probe), f"after {self.unit} {number}"
        if not isinstance(value, Mapping):
            found = check.measured(value)
            if found is None:
                allowed = f"a function that returns a number or a mapping of numbers, {after}"
                raise check.refuse(f"probe {name}", value, allowed)
            return {name: found}
        columns = {}
        for column, each in value.items():
            if not isinstance(column, str) or not column.isprintable() or not column.strip():
                raise check.refuse(f"probe {name}, column", column, f"printable text, {after}")
            found = check.measured(each)
            if found is None:
                raise check.refuse(f"probe {name}, column {column!r}", each, f"a number (NaN for none), {after}")
            columns[str(column)] = found
        return columns

    @property
    def rounds(self) -> "pd.DataFrame":
        """One row for each round, or for each sample (``sample`` of `Network.run`).

        Columns: round, time_s (when the round closed or the sample was taken), the running totals since the start (see
        docs/counting.md), and the values returned by the probes.
        """
        return self.rounds_of(slice(None))

    def rounds_of(self, which: slice) -> "pd.DataFrame":
        """Return a slice of the rows of `rounds`, even while the run is in progress."""
        import pandas as pd

        table = pd.DataFrame(self._rows[which], columns=["round", "time_s", *totals_of(self.ledger.causes)])
        return pd.concat([table, pd.DataFrame(self._measured[which], index=table.index)], axis=1)

    @property
    def rows(self) -> int:
        """The number of rows of `rounds`."""
        return len(self._rows)

    @property
    def unit(self) -> str:
        """The unit of a row of `rounds`: ``"round"`` or ``"sample"``."""
        return "sample" if self.sampled else "round"

    def probe_error(self, probe: Probe, number: int, error: Exception) -> NetsimError:
        """Return the error that ends a run because a probe raised one after a round."""
        how = f"raised {type(error).__name__} after {self.unit} {number}"
        return NetsimError(f"probe {_probe_name(probe)} {how}: {one_line(error)}")

    @property
    def trace_hash(self) -> str:
        """A hash of all events, in order."""
        return self.ledger.trace_hash

    @property
    def trace(self) -> Trace:
        """The event log; raises BadInput if the run kept no trace."""
        trace = self.ledger.trace(None if self.air is None else self.air.records())
        if trace is None:
            raise BadInput("trace = False: must be True in Network.run for the event log to be kept")
        return trace

    @property
    def history(self) -> "pd.DataFrame":
        """The operations recorded by agents with `netsim.checkers.invoke`, one row each, in the order of the calls.

        Columns: agent, operation, key, value, result; outcome, "ok", "failed" or "unknown"; began_s, ended_s (s;
        infinite if the outcome is unknown).
        """
        return history(self.agents)

    def deliveries(self) -> "pd.DataFrame":
        """Return the frames that agents' code received, one row each, in order of time.

        An agent receives a frame by `netsim.Agent.collect`, ``inbox``, `netsim.Agent.request` (a reply) or
        `netsim.Agent.answer` (a request). The table omits frames that were lost, late, sent to a node that was down, or
        never read. It does not depend on the number of workers.

        Columns: time_s, when the agent received the frame (s), which in rounds is when the round closed; receiver;
        sender; kind; round, of the sender (0: outside rounds); payload, decoded; sent_s, when the frame was sent (s).
        Rows of equal time are ordered by the receivers' order in the graph, then in the order of reception.

        Raises
        ------
        BadInput
            If deliveries were not kept (``deliveries=True`` in `netsim.Network.run`).
        """
        if self.ledger.hearings is None:
            raise BadInput("deliveries = False: must be True in Network.run for what agents heard to be kept")
        return self.ledger.hearings.table(self.ledger.agents)

    @property
    def states(self) -> "pd.DataFrame":
        """The watched states: one row for each agent at the start, and one for each change.

        Columns: time_s; agent; sent, the number of messages the agent sent before the change, which orders messages and
        changes at the same instant; and one column per state, NaN where the agent has no value.

        Raises
        ------
        BadInput
            If nothing was watched.
        """
        if self.watch is None:
            raise BadInput("watch = None: must be given to Network.watch for agents' states to be kept")
        return self.watch.table(whole=False)

    @property
    def notes(self) -> "pd.DataFrame":
        """The agents' notes (`Agent.note`), in order of time.

        Columns: time_s; agent; sent, the number of messages the agent had sent before; note.

        Raises
        ------
        BadInput
            If the trace was not kept.
        """
        import pandas as pd

        captions = self.ledger.captions
        if captions is None or not self.ledger.keeps_trace:
            raise BadInput("trace = False: must be True in Network.run for the agents' notes to be kept")
        texts, _, notes = captions.arranged()
        return pd.DataFrame(
            {
                "time_s": notes["time"],
                "agent": as_column(self.ledger.agents)[notes["agent"]],
                "sent": notes["sent"],
                "note": as_column(texts)[notes["text"]],
            }
        )

    def replay(
        self,
        path: str | Path = "replay.html",
        *,
        title: str = "",
        most: int = 500_000,
        draw: "Draw | None" = None,
        follow: str | None = None,
    ) -> Path:
        """Write one HTML file that shows the run in any browser, without a server or a network; return its path.

        Parameters
        ----------
        path : str or Path
            The file; an existing one is replaced once the new one is complete.
        title : str
            The title of the page.
        most : int
            Maximum number of frames shown. The page reports the number of omitted frames, and its counts include them.
        draw : mapping, optional
            {watched state: its drawing}, from `netsim.draw`; None: the state is not drawn. Overrides earlier
            declarations.
        follow : str, optional
            A word in frames' labels, such as a reading ("12:3") or a command, or a kind of message, such as a token.
            The replay follows the frames with this label or kind, and highlights their path.

        Raises
        ------
        BadInput
            If the trace was not kept (``trace=True`` in `Network.run`), or an argument cannot be used.
        NetsimError
            If the file cannot be written.
        """
        from netsim.replay.render import parts_of, write

        return write(path, *parts_of(self, title=title, most=most, draw=draw, follow=follow))

    def picture(
        self,
        path: str | Path,
        *,
        view: str | None = None,
        begin: float | None = None,
        end: float | None = None,
        theme: str | None = None,
        size: tuple[int, int] | None = None,
        fps: int | None = None,
        title: str = "",
        draw: "Draw | None" = None,
        follow: str | None = None,
    ) -> Path:
        """Draw the run as a picture (.svg, .png) or a film (.gif, .mp4), without a browser, and return its path.

        Parameters
        ----------
        path : str or Path
            The file, whose suffix selects the format; .mp4 needs the program ffmpeg. An existing file is replaced once
            the new one is complete.
        view : str, optional
            "map" or "spacetime"; by default a film shows the map, a picture the space–time diagram.
        begin, end : float, optional
            The interval (s) to draw. A still map shows the time ``begin``. A film of the map shows the whole interval
            if it plays in at most 24 s, otherwise the most important moments. By default a diagram shows the whole run
            if that has at most 400 frames (100 with few agents), otherwise its beginning.
        theme : str, optional
            "light" or "dark". By default light, but an SVG adapts to the colour scheme of its viewer.
        size : (int, int), optional
            Width and height in pixels.
        fps : int, optional
            Frames per second of a film, 1 to 50; by default 12.
        title : str
            The title above it.
        draw, follow
            As in `replay`.

        Raises
        ------
        BadInput
            If the trace was not kept (``trace=True`` in `Network.run`), or an argument cannot be used.
        NetsimError
            If the file cannot be written.
        """
        from netsim.replay.picture import Wanted, format_of, write_picture
        from netsim.replay.render import parts_of

        format_of(path)
        wanted = Wanted(view, begin, end, theme, size, fps)
        return write_picture(*parts_of(self, title=title, draw=draw, follow=follow), path, wanted)

    def export(self, path: str | Path, *, title: str = "", most: int | None = None) -> Path:
        """Export the run's frames for Wireshark (.pcapng) or its topology (.graphml or .json).

        On a `netsim.Radio`, the exported frames are the IEEE 802.15.4 frames on the air.

        Parameters
        ----------
        path : str or Path
            The file, whose suffix selects the format; an existing file is replaced once the new one is complete.
        title : str
            The title stored in the file.
        most : int, optional
            For pcapng, the largest number of frames; default: all.

        Returns
        -------
        Path
            The path of the file.

        Raises
        ------
        BadInput
            If the trace was not kept (``trace=True`` in `Network.run`), or an argument cannot be used.
        NetsimError
            If the file cannot be written.
        """
        from netsim.export import FORMATS, export
        from netsim.replay.render import About

        ending = Path(path).suffix[1:].lower()
        if ending not in FORMATS:
            raise check.refuse("path", str(path), f"a name that ends in {', '.join(f'.{each}' for each in FORMATS)}")
        return export(self.trace, path, ending, about=About(title), most=most)

    def widget(self, *, title: str = "", most: int = 500_000, height: int = 640, draw: "Draw | None" = None) -> Any:
        """Return the page of `replay` as a widget for a notebook (`netsim.replay.notebook.Replay`).

        Its traits ``time`` (s), ``playing``, ``speed`` and ``agent`` are synchronized with the page both ways.

        Parameters
        ----------
        title, most, draw
            As in `replay`.
        height : int
            In pixels, at least 200.

        Raises
        ------
        BadInput
            If anywidget is not installed, the trace was not kept, or an argument cannot be used.
        """
        check.installed("widget", "anywidget", "notebook")
        height = check.integer("height", height, low=200)
        from netsim.replay.notebook import Replay
        from netsim.replay.render import parts_of

        return Replay(*parts_of(self, title=title, most=most, draw=draw), height)

    @property
    def airtime(self) -> "pd.DataFrame":
        """One row per node of a `netsim.Radio`: agent and the fields of `netsim.radio.airtime.Counts`.

        Raises
        ------
        BadInput
            If the medium was not a `netsim.Radio`.
        """
        return self._airtime_log().airtime()

    @property
    def energy(self) -> "pd.DataFrame":
        """The energy of each node; for the columns see `netsim.radio.airtime.AirtimeLog.energy`.

        Raises
        ------
        BadInput
            If the radio has no energy model, or the medium was not a `netsim.Radio`.
        """
        log = self._airtime_log()
        if not any(log.spent):
            raise BadInput("energy = None: must be given to netsim.Radio for the nodes' energy to be recorded")
        return log.energy()

    @property
    def on_air(self) -> "pd.DataFrame":
        """The start and end of each transmission; for the columns see `netsim.radio.airtime.AirtimeLog.table`.

        Raises
        ------
        BadInput
            If the medium was not a `netsim.Radio`, or the trace was not kept.
        """
        log = self._airtime_log()
        if log.log is None:
            raise BadInput("trace = False: must be True in Network.run for frames on the air to be recorded")
        return log.table(list(self.ledger.tally.kinds), self.ledger.receivers.tolist())

    def _airtime_log(self) -> AirtimeLog:
        if self.air is None:
            raise BadInput("medium: must be a netsim.Radio for airtime to be recorded")
        return self.air

    def __getstate__(self) -> dict[str, Any]:
        # Drop the probes and the progress callback, which may not be picklable; the measurements are kept.
        kept = {name: value for name, value in vars(self).items() if name not in ("probes", "_progress")}
        try:
            return kept | {"ledger": pickle.dumps(self.ledger)}
        except Exception as error:
            raise NetsimError(
                f"a Run cannot be pickled or copied, because its ledger cannot ({one_line(error)}): "
                "save its rounds, its agents and the ledger's tables instead"
            ) from error

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, ledger=pickle.loads(state["ledger"]), probes=[], _progress=None)

    def __repr__(self) -> str:
        if not hasattr(self, "ledger"):
            # Run.__init__ has not finished, because an argument was rejected; a debugger or traceback may show this
            # object.
            return f"<Run of {len(self.agents)} agents, not begun>"
        totals = dict(zip(totals_of(self.ledger.causes), self.ledger.totals(), strict=True))
        rows = f"{len(self._rows)} {self.unit}s, " if self._rows else ""
        late, flying = totals["late"], sum(1 for _ in self.ledger.in_flight())
        missing = f", {late} late (they arrived after their round)" if late else ""
        missing += f", {flying} in flight when the run ended" if flying else ""
        return (
            f"<Run of {len(self.agents)} agents, {rows}{self.ended_at:g} s: "
            f"{totals['transmissions']} transmissions, "
            f"{totals['delivered']} of {totals['link_messages']} link messages delivered{missing}>"
        )


def is_split(probe: Probe) -> bool:
    """Return whether a probe can be measured in parts: it has methods ``local`` and ``combine``."""
    return callable(getattr(probe, "local", None)) and callable(getattr(probe, "combine", None))


def _probe_name(probe: Probe) -> str:
    return str(getattr(probe, "__name__", type(probe).__name__))
