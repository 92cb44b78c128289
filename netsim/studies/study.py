"""One execution of a study: its records, and the run folder that holds them.

A study is a function ``def name(study, *, parameter: type = default, …)``. It runs networks with `Study.run` and
adds tables, notes and figures to the study; the command line saves them all atomically in one folder.
"""

import dataclasses
import hashlib
from collections import UserDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from netsim.engine.build import Settings
from netsim.engine.observers import Viewer
from netsim.errors import chain
from netsim.network import BACKEND, Agents, Network, played_by
from netsim.run import Probe, Run
from netsim.studies.answer import filled
from netsim.studies.folder import check_algorithm, check_file_name, json_value
from netsim.studies.folder import save as write_folder
from netsim.studies.formats import Formats
from netsim.studies.outcome import ENDED, Ending, Outcome, error_of
from netsim.studies.reserve import Reservation, reserve
from netsim.studies.terminal import Reporter
from netsim.util import check
from netsim.util.datafiles import used
from netsim.watch import Watched

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from netsim.live.server import ViewServer

COLUMNS = ("algorithm", "round", "time_s", "transmissions", "delivered", "payload_bits", "wire_bits")
"""The first columns of every rounds.csv; the probes' columns follow."""

# Bytes of a row, at least: a number in each column except ``algorithm``.
_ROW = 8 * (len(COLUMNS) - 1)
# The most rows of a printed table after the first.
_MOST_ROWS = 20


class Figures(UserDict[str, Any]):
    """Figures by name; the function that makes a figure is called at the first access."""

    def __getitem__(self, name: str) -> "Figure":
        figure: Figure | Callable[[], Figure] = super().__getitem__(name)
        if callable(figure):
            figure = figure()
            _check_has(f"figure {name!r}", figure, "savefig", "a matplotlib Figure")
            self.data[name] = figure
        return figure


class Study:
    """One execution of a study: its runs, tables, figures and notes.

    A study is a function that netsim runs by name (`find_study`); this object is its first argument. For methods that
    are compared over problems, networks and seeds write a `netsim.Experiment`, from which `study_of` makes a study.

    Parameters
    ----------
    name : str
        The study's name, or the path of its file.
    settings : mapping
        The study's parameters by name, as given or by default.
    columns : sequence of str
        Measures placed directly after the standard columns of rounds.csv, before all others; empty if a measure does
        not apply.
    trace : bool
        Whether to keep the event log of every run.
    reporter : Reporter, optional
        Prints progress, tables and notes; by default nothing is printed.

    Attributes
    ----------
    settings : dict
        Everything needed to repeat the study, including the values that its function chose for unset parameters.
    centralised : dict
        The measures, by name, of a reference solution computed with all data in one place.
    constant : dict
        The measures, by column, of the best constant prediction: a model that is not clearly better has learned
        nothing.
    runs : dict
        Each `Run` by the name of its algorithm.
    keeps_trace : bool
        Whether the event logs of the study's runs are kept.
    reporter : Reporter
        The reporter of progress, tables and notes, for a study that runs other studies.
    origin : dict
        Provenance recorded in settings.json: ``command``, ``file_sha256`` (the study's file), ``source_sha256``
        (netsim), ``files_sha256`` (files read), ``methods`` (each method's class and parameters) and ``papers`` (what
        to cite for each algorithm).
    session : netsim.live.server.ViewServer or None
        Server that shows the runs live.
    question : str
        The study's question (see `ask`).
    answered, condition : str
        The answer from its results, and the condition under which it holds; "" if not given (see `answer`).
    hero : str
        The name of the figure shown below the answer; "": the first figure.
    error : str or None
        The column that decides the outcome of runs (`netsim.studies.outcome.Ending`): an error that starts above 0 and
        should fall. Default: the first of `netsim.studies.columns.ERRORS` that a run has; with "" runs have no such
        outcome.
    lost : dict
        The outcomes of runs without results, by algorithm, for instance if a model outgrew its coder.
    every : int
        Runs have the rows of the first round, of each ``every``-th and of the last (see `Network.run`). Rejected for a
        probe with ``may_skip = False``, whose row depends on those before it.
    begin : callable
        Called before the first run.
    partial : dict or None
        For a study that stopped early: ``why``, the reason in one line; ``cut``, the interrupted algorithm, or None
        between runs; ``unit``, what one row of that run is.
    """

    def __init__(
        self,
        name: str,
        settings: Mapping[str, Any],
        *,
        columns: Sequence[str] = (),
        trace: bool = False,
        reporter: Reporter | None = None,
    ) -> None:
        self.name = name
        self.settings = dict(settings)
        self.centralised: dict[str, float] = {}
        self.constant: dict[str, float] = {}
        self.runs: dict[str, Run] = {}
        self.notes: list[str] = []
        self.tables: dict[str, pd.DataFrame] = {}
        self.titles: dict[str, str] = {}
        self.figures = Figures()
        self.captions: dict[str, str] = {}
        self.texts: dict[str, str] = {}
        self.origin: dict[str, Any] = {}
        self.question = self.answered = self.condition = self.hero = ""
        self.error: str | None = None
        self.lost: dict[str, Outcome] = {}
        self.begin: Callable[[], object] = lambda: None
        self.partial: dict[str, Any] | None = None
        self.formats = Formats()
        self.session: ViewServer | None = None
        self.every = 1
        self._failed: tuple[str, BaseException] | None = None
        # The tables of rounds with the runs that they were made from, cached because a study needs the tables several
        # times.
        self._rounds: tuple[Any, dict[str, pd.DataFrame], pd.DataFrame] | None = None
        self._computed: dict[str, Callable[[pd.DataFrame], Any]] = {}
        self._columns = (*COLUMNS, *columns)
        self.keeps_trace = trace
        self.reporter = reporter or Reporter(quiet=True)

    # --- API for studies --------------------------------------------------------------------------------------------

    def run(
        self,
        algorithm: str,
        network: Network,
        agents: Agents,
        probes: Sequence[Probe],
        rounds: int,
        *,
        until: float | None = None,
        sample: float | None = None,
        watch: Watched | None = None,
    ) -> Run:
        """Run a network of agents, store the run under an algorithm's name, and show its progress.

        The run ends at ``until`` (s) at the latest. The progress is shown over ``rounds`` rounds. With ``sample``, a
        row is written every ``sample`` seconds instead (see `Network.run`), and ``rounds`` is the expected number of
        rows. ``watch`` takes effect (see `Network.watch`) only with a trace or a session.
        """
        check_algorithm(algorithm)
        if algorithm in self.runs:
            raise check.refuse("algorithm", algorithm, "a name not yet used in this study")
        check.fits("rounds", rounds, rounds * _ROW, "one row per round")
        if self.every > 1 and not all(getattr(probe, "may_skip", True) for probe in probes):
            raise check.refuse("every", self.every, f"1 with {algorithm}, whose measures add up over all rounds")
        if not self.runs:
            self.begin()
        if papers := _papers_of(agents):
            self.origin.setdefault("papers", {})[algorithm] = papers
        how: dict[str, Any] = {"until": until, "sample": sample, "every": self.every, "trace": self.keeps_trace}
        unit = "round " if sample is None else "sample "
        with self.reporter.progress(algorithm, rounds, unit) as progress, ExitStack() as after:
            try:
                network.watch(None)
                if watch is not None and (self.keeps_trace or self.session):
                    network.watch(watch)
                # If rounds wait for computing agents, their duration is unknown before the run.
                length = None if network.compute and not sample else rounds * (sample or network.round_period)
                length = length if until is None else min(until, length or until)
                if (viewer := self._viewer(algorithm, length)) is not None:
                    network.show_to(viewer)
                    after.callback(network.show_to, None)
                run = network.run(agents, probes, **how, progress=progress)
            except BaseException as error:
                self._failed = algorithm, error
                raise
        self.runs[algorithm] = run
        return run

    @contextmanager
    def capture(self) -> Iterator[None]:
        """Inside the context, also store each run of a network, as ``run``, ``run 2`` and so on."""
        before = BACKEND.get()

        def play(network: Network, settings: Settings, result: Run) -> Run:
            name = f"run {len(self.runs) + 1}" if self.runs else "run"
            if not self.runs:
                self.begin()
            viewer = settings.viewer or self._viewer(name, settings.until)
            settings = dataclasses.replace(settings, trace=settings.trace or self.keeps_trace, viewer=viewer)
            try:
                with self.reporter.counter(name, "rounds" if settings.sample is None else "samples") as count:
                    result.report_to(count)
                    run = network.play(settings, result) if before is None else before(network, settings, result)
            except BaseException as error:
                self._failed = name, error
                raise
            self.runs[name] = run
            return run

        with played_by(play):
            yield

    def _viewer(self, algorithm: str, length: float | None) -> Viewer | None:
        """Return a viewer for a run of ``length`` seconds (None: unknown); None without a session."""
        if self.session is None:
            return None
        from netsim.replay.render import About

        about = About(title_of(self.name, algorithm), str(self.origin.get("command", "")))
        return self.session.viewer(about, length)

    def column(self, name: str, compute: Callable[["pd.DataFrame"], Any]) -> None:
        """Add a column to rounds.csv; ``compute`` maps the rows of a run to their values in it."""
        self._computed[name] = compute

    def progress(self, label: str, total: int) -> AbstractContextManager[Callable[[int], None]]:
        """Return a context manager yielding a function to be called with the number done, out of ``total``."""
        return self.reporter.progress(label, total)

    def note(self, *texts: str) -> None:
        """Store and print notes for readers of the results, each text once."""
        for text in map(str, texts):
            if text not in self.notes:
                self.notes.append(text)
                self.reporter.line(text)

    def ask(self, question: str) -> None:
        """State the study's question in one sentence, which heads report.html and the replay.

        The default question is the first line of the study's docstring.
        """
        self.question = " ".join(str(question).split())

    def answer(self, text: str, condition: str = "", /, **fields: Any) -> None:
        """State the study's answer, which is printed and put at the head of report.html.

        Parameters
        ----------
        text : str
            A sentence with fields in braces as for `str.format`, at least one of which is a number:
            ``"{saved:.0f} % of the frames are saved."``.
        condition : str
            The scope of the numbers: the number of seeds or agents of an interval, and the settings. Fields are allowed
            here, too.
        fields
            Measured numbers, intervals as pairs of numbers (shown as "38 to 50", or as one number if both look the
            same), or text. 99.7 is not rounded to 100, nor 0.3 to 0.

        Raises
        ------
        BadInput
            For a field without a value, a value without a field, a number that is not finite, or a text without a
            number.
        """
        self.answered, self.condition = filled(text, fields, condition)
        self.reporter.line(" ".join(filter(None, (self.answered, self.condition))))

    def record(self, *chosen: Any, **more: Any) -> None:
        """Add the values chosen for unset parameters to the settings, from dataclass fields and keyword arguments."""
        for each in chosen:
            self.settings |= {field.name: getattr(each, field.name) for field in dataclasses.fields(each)}
        self.settings |= more

    def reads(self, path: str | Path) -> Path:
        """Record a file as read, so that sweeps and `netsim verify` detect changes to it; return its path."""
        return used(Path(path))

    def take(self, told: "Study") -> None:
        """Add the notes, tables and figures of ``told``, a study without runs in which a part of this one was made."""
        self.note(*told.notes)
        for name, frame in told.tables.items():
            if name in told.titles:
                self.table(name, told.titles[name], frame)
            else:
                self.tables[name] = frame
        self.figures.update(told.figures.data)
        self.captions |= told.captions

    def table(self, name: str, title: str, frame: "pd.DataFrame") -> None:
        """Print a table, and save it as ``<name>.csv`` (or ``.parquet``) with the run folder.

        After the first table, a table with more than 20 rows is not printed; a line names its file instead.
        """
        check_file_name("table", name)
        _check_has(f"table {name!r}", frame, "to_csv", "a pandas DataFrame")
        self.tables[name] = frame
        self.titles[name] = title
        if len(frame) > _MOST_ROWS and len(self.titles) > 1:
            self.reporter.line(f"{title}: {len(frame):,} rows, in {name}.{self.formats.tables}")
        else:
            self.reporter.table(title, frame)

    def figure(
        self, name: str, figure: "Figure | Callable[[], Figure]", caption: str = "", *, hero: bool = False
    ) -> None:
        """Add a figure, saved as ``<name>.png`` or in the requested formats.

        Parameters
        ----------
        figure : Figure or callable
            A matplotlib Figure, or a function without arguments that draws it. The function is called when the figure
            is saved, so a sweep, which saves no figures, draws none.
        caption : str
            A sentence that describes the figure, for report.html; by default the figure's title.
        hero : bool
            Whether this figure is shown below the answer in report.html; by default the first figure is.

        Raises
        ------
        BadInput
            If the name is invalid for a file, the object is not a figure, or there is a second hero.
        """
        check_file_name("figure", name)
        if hero and self.hero not in ("", name):
            raise check.refuse("hero", name, f"one figure of a study, and {self.hero!r} is it")
        if not callable(figure):
            _check_has(f"figure {name!r}", figure, "savefig", "a matplotlib Figure, or a function that draws one")
        self.figures[name] = figure
        self.captions[name] = str(caption)
        self.hero = name if hero else self.hero

    def caption(self, name: str) -> str:
        """Return the caption of a figure: the given text, or else the figure's title."""
        return self.captions[name] or _title_text(self.figures[name]) or f"The figure {name}."

    def text(self, name: str, text: str) -> None:
        """Add a Markdown text, saved as ``<name>.md``."""
        check_file_name("text", name)
        self.texts[name] = str(text)

    @property
    def seeds(self) -> dict[str, Any]:
        """The values of the study's seed parameters that are set."""
        from netsim.studies.seeds import SEEDS

        return {name: value for name in SEEDS if (value := self.settings.get(name)) is not None}

    def cut_short(self, error: BaseException, why: str) -> None:
        """Mark the study partial because an error ended it; an interrupted run is stored with its results so far."""
        cut = None
        if self._failed is not None and self._failed[1] in chain(error):
            algorithm, ended = self._failed
            if (run := getattr(ended, "run", None)) is not None:
                self.runs[algorithm] = run
                cut = algorithm
        self.partial = {"why": why, "cut": cut, "unit": self.runs[cut].unit if cut in self.runs else None}

    @property
    def is_empty(self) -> bool:
        """Whether every run has no rows and sent no messages."""
        return not any(run.rows or run.ledger.totals()[0] for run in self.runs.values())

    # --- results --------------------------------------------------------------------------------------------

    @property
    def rounds(self) -> "pd.DataFrame":
        """One row for each algorithm and round, beginning with `COLUMNS` and the study's columns."""
        # Return a copy, because the caller may change it.
        return self._tables_of_rounds()[1].copy()

    def _tables_of_rounds(self) -> "tuple[dict[str, pd.DataFrame], pd.DataFrame]":
        """Return the tables of rounds by run, and the table of `rounds`."""
        source = dict(self.runs), [run.rows for run in self.runs.values()], dict(self._computed)
        if self._rounds is None or self._rounds[0] != source:
            tables = {name: run.rounds for name, run in self.runs.items()}
            table = _concatenated({name: each.assign(**self._computed) for name, each in tables.items()})
            others = [name for name in table.columns if name not in self._columns]
            self._rounds = source, tables, table.reindex(columns=[*self._columns, *others])
        return self._rounds[1:]

    @property
    def ledger(self) -> "pd.DataFrame":
        """One row for each algorithm, link and kind of message."""
        return _concatenated({name: run.ledger.table() for name, run in self.runs.items()})

    @property
    def states(self) -> "pd.DataFrame | None":
        """The watched states of each algorithm's agents (see `Run.states`); None if none were watched."""
        watches = {name: run.watch for name, run in self.runs.items() if self.keeps_trace and run.watch is not None}
        return _concatenated({name: watch.table() for name, watch in watches.items()}) if watches else None

    @property
    def remarks(self) -> "pd.DataFrame | None":
        """The notes of each algorithm's agents (see `Run.notes`); None if there are no notes or no trace."""
        found = {name: run.notes for name, run in self.runs.items() if self.keeps_trace}
        return _concatenated(found) if any(len(each) for each in found.values()) else None

    @property
    def trace_hash(self) -> str:
        """A single hash over the trace hashes of all runs."""
        return hashlib.sha256("".join(run.trace_hash for run in self.runs.values()).encode()).hexdigest()[:32]

    def outcome(self, algorithm: str) -> Outcome:
        """Return the outcome of an algorithm's run, decided by the study's `error`."""
        if algorithm in self.lost:
            return self.lost[algorithm]
        rounds = self._tables_of_rounds()[0][algorithm]
        column = error_of(rounds.columns) if self.error is None else self.error
        if not column or column not in rounds:
            return Outcome(ENDED)
        optimum = self.centralised.get(column)
        return Ending().judge(rounds[column], rounds["round"].tolist() if "round" in rounds else None, optimum=optimum)

    def summary(self) -> dict[str, Any]:
        """Return each algorithm's last values and outcome, the reference measures, the trace hash and the notes."""
        rounds = self.rounds
        algorithms = {}
        for name, run in self.runs.items():
            rows = rounds[rounds["algorithm"] == name]
            last: dict[Any, Any] = {} if rows.empty else rows.iloc[-1].drop("algorithm").to_dict()
            algorithms[name] = {key: _summary_value(value) for key, value in last.items()} | {
                "trace_hash": run.trace_hash,
                **self.outcome(name).recorded(),
            }
        algorithms |= {name: outcome.recorded() for name, outcome in self.lost.items() if name not in algorithms}
        constant = {str(name): _summary_value(value) for name, value in self.constant.items()}
        return ({"partial": self.partial} if self.partial else {}) | {
            "study": self.name,
            "algorithms": algorithms,
            "centralised": {str(name): _summary_value(value) for name, value in self.centralised.items()},
            **({"constant": constant} if constant else {}),
            **{name: said for name, said in (("answer", self.answered), ("condition", self.condition)) if said},
            "trace_hash": self.trace_hash,
            "notes": self.notes,
        }

    # --- the run folder -----------------------------------------------------------------------------------------------

    def save(self, folder: str | Path | Reservation, *, figures: str | None = None, tables: str | None = None) -> Path:
        """Write the run folder, which must be new or empty, and return it.

        A new folder is created atomically by one rename once it is complete; an existing empty one is filled file by
        file, SHA256SUMS last.

        Parameters
        ----------
        folder : str, Path or Reservation
            Target folder; the caller must close a `Reservation`, which was made before the run.
        figures : str, optional
            Comma-separated formats of the figures: "png" (the default), "svg", "pdf".
        tables : str, optional
            "csv" (the default) or "parquet" (requires ``pip install '.[arrow]'``).

        Raises
        ------
        BadInput
            If a format is unknown, or the folder is not empty or cannot be written.
        Unsaved
            If writing fails part-way or a file cannot be created; the message says what was saved, and where.
        """
        if figures is not None or tables is not None:
            self.formats = Formats.chosen(figures, tables)
        if isinstance(folder, Reservation):
            return write_folder(self, folder)
        with reserve(folder) as place:
            return write_folder(self, place)


def _papers_of(agents: Agents) -> list[str]:
    """Return the references from the class method ``citation`` of the agents' classes."""
    kinds = dict.fromkeys(map(type, agents.values())) if isinstance(agents, Mapping) else {}
    cited = (getattr(kind, "citation", str)() for kind in kinds)
    return [each for each in dict.fromkeys(cited) if isinstance(each, str) and each]


def title_of(study: str, algorithm: str) -> str:
    """Return the title of a run's page; the study's name loses the folders of its file."""
    name = Path(study).stem if study.endswith(".py") else study
    return algorithm if algorithm == name else f"{name}: {algorithm}"


def _concatenated(tables: "Mapping[str, pd.DataFrame]") -> "pd.DataFrame":
    """Concatenate tables row-wise, with their names in the first column ``algorithm``."""
    import pandas as pd

    if not tables:
        return pd.DataFrame()
    table = pd.concat([table.assign(algorithm=name) for name, table in tables.items()], ignore_index=True)
    return table[["algorithm", *table.columns.drop("algorithm")]]


def _title_text(figure: "Figure") -> str:
    """Return the title of a figure, or of its first panel that has a title, in one line."""
    titles = [figure.get_suptitle(), *(panel.get_title() for panel in figure.axes)]
    return " ".join(next(filter(None, titles), "").split())


def _summary_value(value: Any) -> Any:
    """Return a measure as stored in the summary: whole numbers as int, missing or non-finite values as None."""
    number = json_value(value)
    return int(number) if isinstance(number, float) and number.is_integer() and abs(number) < 2**53 else number


def _check_has(what: str, value: object, method: str, allowed: str) -> None:
    if not hasattr(value, method):
        raise check.refuse(what, value, allowed)
