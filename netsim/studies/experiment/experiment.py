"""An experiment: methods on problems over networks, under a grid of settings, with several seeds."""

import dataclasses
import itertools
import json
import shlex
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from netsim.errors import BadInput, NetsimError
from netsim.run import Run
from netsim.studies.experiment import paths
from netsim.studies.experiment.cells import (
    METHOD,
    NETWORK,
    PROBLEM,
    RESERVED,
    SEED,
    Cell,
    Measured,
    check_fits,
    condition_of,
    forget_contents,
    is_of,
)
from netsim.studies.experiment.content import files_of, snapshot
from netsim.studies.experiment.folder import (
    EXPERIMENT,
    RUNS,
    TABLE,
    CellRun,
    columns_of,
    held,
    keep_inputs,
    keys_in,
    read,
    run_there,
    send_caches,
)
from netsim.studies.experiment.methods import method_of
from netsim.studies.experiment.networks import Links, network_of
from netsim.studies.experiment.paths import Grid, shown, value_of
from netsim.studies.experiment.problems import problem_of
from netsim.studies.experiment.record import of_file, record
from netsim.studies.experiment.results import Results
from netsim.studies.folder import json_value
from netsim.studies.intervals import STATISTICS
from netsim.studies.outcome import DEAD, FAILED, Ending
from netsim.studies.reserve import refusals
from netsim.studies.seeds import Seeds
from netsim.studies.sweeps.point import KILLED, Limits
from netsim.studies.sweeps.workers import Ended, run_here, run_named
from netsim.studies.terminal import Reporter
from netsim.util import check
from netsim.util.datafiles import changed_files
from netsim.util.files import write_whole

if TYPE_CHECKING:
    import pandas as pd

    from netsim.studies.experiment.tuning import Between, OneOf, Tuned


@check.named
@dataclass(frozen=True, kw_only=True)
class Experiment:
    """Methods on problems over networks, under a grid of settings, with several seeds.

    The command line runs studies by name: `netsim.studies.experiment.study.study_of` makes a study of an experiment,
    and a function ``def name(study, *, ...)`` is a study without an experiment.

    Parameters
    ----------
    methods : mapping or method
        The methods to compare, by name: each a `Method`, a class of agents, or a function of a `Setup` that returns
        agents.
    problem : Problem, function or mapping, optional
        The learning problem, or several by name: each a `Problem`, or a function of the seed that returns costs, a
        graph or None, and a measure. Default: no problem, as for protocols.
    networks : network or mapping, optional
        The network, or several by name: each `Links`, a `Link`, a graph, measured links, a `Deployment`, or a function
        of a `Setup` that returns a `Network`. Default: ideal links on the problem's graph.
    seeds : sequence of int or Seeds
        The runs of each combination.
    rounds : int or None
        Length of a run in rounds; None: as many as the problem has.
    grid : Grid
        The settings that are tried: `sweep`, and its products and sums.
    measure : sequence of callable
        Probes ``agents -> {column: number}``, once a round.
    after : sequence of callable
        Measures ``run -> {column: number}`` of a whole run.
    until, sample : float, optional
        The end (s) of a run, and the interval (s) between its rows, as for `netsim.Network.run`.
    names : mapping
        Short names of paths, used for columns and flags: {"loss": "network.link.loss"}. A list gives several paths one
        name.
    error : str, optional
        The error's column, by which outcomes are classified and methods compared. Default: the first column that the
        problem measures.
    goals : sequence of str
        Columns of `Results.runs` in which the methods compete: reports begin with the best method by each. Default: the
        error.
    ending : Ending
        The rule that classifies a run's outcome from its error.
    files : sequence of path
        Other files that belong to the experiment; copies are kept with its results.
    settings : mapping
        Values of a method's paths by condition, as `tune` chose them.
    spent : frozenset of int
        Seeds that are refused, because something was chosen on them.
    tuning : mapping
        How `tune` chose the settings: ranges, candidates, seeds; included in reports.
    notes : sequence of str
        Notes on the parts for readers of the results.
    report : callable, optional
        ``report(study, played)`` adds tables, figures and notes when the experiment is run as a study. ``played`` is a
        list of `Played`, one cell for each method, or `Results` if the study keeps its runs in a folder.
    only : callable, optional
        ``only(columns)`` returns whether a combination is run, given the columns of its row in tables. Default: all
        are.

    Raises
    ------
    BadInput
        For an object that is no such part, a path that does not exist, a duplicate or spent seed, or a reserved name.
    """

    methods: Any
    problem: Any = None
    networks: Any = None
    seeds: Sequence[int | Seeds] = range(5)
    rounds: int | None = 100
    grid: Grid = field(default_factory=lambda: Grid([{}]))
    measure: Sequence[Callable[..., Mapping[str, float]]] = ()
    after: Sequence[Callable[[Run], Mapping[str, float]]] = ()
    until: float | None = None
    sample: float | None = None
    names: Mapping[str, str | Sequence[str]] = field(default_factory=dict)
    error: str | None = None
    goals: Sequence[str] = ()
    ending: Ending = field(default_factory=Ending)
    files: Sequence[str | Path] = ()
    settings: Mapping[tuple[str, ...], Mapping[str, Any]] = field(default_factory=dict)
    spent: frozenset[int] = frozenset()
    tuning: Mapping[str, Any] = field(default_factory=dict)
    notes: Sequence[str] = ()
    report: Callable[..., None] | None = None
    only: Callable[[Mapping[str, Any]], bool] | None = None

    def __post_init__(self) -> None:
        networks = Links() if self.networks is None else self.networks
        check.put(
            self,
            methods=_named("methods", self.methods, method_of, alone=_name_of(self.methods)),
            problem=_named(PROBLEM, self.problem, problem_of),
            networks=_named("networks", networks, network_of),
            rounds=None if self.rounds is None else check.integer("rounds", self.rounds, low=1),
            grid=_grid_of(self.grid),
            names={name: [each] if isinstance(each, str) else list(each) for name, each in self.names.items()},
            seeds=[_seeds_of(each) for each in _listed("seeds", self.seeds)],
        )
        # A measure may be an object whose method `of` makes the probe of each run.
        plain = self.measure
        if isinstance(plain, Iterable):
            plain = [getattr(each, "of", each) for each in plain]
        check.functions("measure", plain, "functions of the agents")
        check.functions("after", self.after, "functions of a run")
        check.fields(self, check.finite, "until", "sample", above=0, optional=True)
        if isinstance(self.goals, str):
            raise check.refuse("goals", self.goals, "a list of columns")
        labels = {name for method in self.methods.values() for name in method.label} - {METHOD}
        for what, taken in (("names", self.names), ("label", labels)):
            for name in taken:
                if name in RESERVED:
                    raise check.refuse(what, name, f"another name; every table has a column {name}")
        for name in itertools.chain(self.names, *self.grid):
            self.values(name)
        self._check_seeds()
        snapshot(files_of(self._parts()))

    def _check_seeds(self) -> None:
        seeds = self._all_seeds
        numbers = [each.seed for each in seeds]
        if not numbers:
            raise check.refuse("seeds", self.seeds, "one seed at least")
        if twice := [each for number, each in enumerate(seeds) if each.seed in numbers[:number]]:
            raise BadInput(f"seeds: must be distinct; {twice[0].text} is there twice")
        if clash := sorted(self.spent.intersection(numbers)):
            raise BadInput(f"seeds = {clash}: must not be the seeds on which settings were tuned")

    @property
    def _all_seeds(self) -> list[Seeds]:
        return [_seeds_of(each) for each in self.seeds]

    def _parts(self) -> list[Any]:
        given = [*self.methods.values(), *self.problem.values(), *self.networks.values(), *self.measure, *self.after]
        return [*given, *(value for part in given for _, value in paths.places(part))]

    # --- paths --------------------------------------------------------------------------------------------------------

    def _tree(self) -> dict[str, Any]:
        problem = self.problem if set(self.problem) != {""} else self.problem[""]
        networks = self.networks if set(self.networks) != {""} else self.networks[""]
        return {"methods": self.methods, "networks": networks, PROBLEM: problem, "rounds": self.rounds}

    def paths(self) -> "pd.DataFrame":
        """Return every path of the parts with its present value, and its short name if it has one."""
        import pandas as pd

        short = {self._long(path): name for name in self.names for path in self._of(name)}
        rows = [
            (", ".join(name for given, name in short.items() if _matches(given, path)), path, paths.brief(value))
            for path, value in paths.places(self._tree())
            if not isinstance(value, Mapping)
        ]
        return pd.DataFrame(rows, columns=["name", "path", "value"])

    def _long(self, path: str) -> str:
        """Return a path in full: ``method`` expands to all methods, ``network`` to all networks."""
        first, _, rest = path.partition(".")
        each = "" if set(self.networks) == {""} else f"{paths.ANY}."
        return {METHOD: f"methods.{paths.ANY}.{rest}", NETWORK: f"networks.{each}{rest}"}.get(first, path)

    def _of(self, name: str) -> list[str]:
        """Return the paths that a short name or a path denotes."""
        return list(self.names.get(name, [name]))

    def values(self, name: str) -> list[Any]:
        """Return the present values at a path or short name; raises BadInput if there are none."""
        return [value for path in self._of(name) for value in paths.values_at(self._tree(), self._long(path), path)]

    def with_values(self, values: Mapping[str, Any]) -> "Experiment":
        """Return the experiment with other values at some paths or short names.

        Raises
        ------
        BadInput
            For a path that does not exist (the message names the nearest path), or a value that the part refuses.
        """
        tree = self._tree()
        for name, given in values.items():
            for path in self._of(name):
                tree = paths.changed(tree, self._long(path), value_of(given), path)
        return dataclasses.replace(self, **tree)

    # --- cells --------------------------------------------------------------------------------------------------------

    def cells(self, seeds: Iterable[int | Seeds] | None = None) -> Iterator[Cell]:
        """Yield the cells in nested order: settings, problems and networks, then seeds, then methods.

        Methods come last because they share a problem.
        """
        how = self.until, self.sample, tuple(self.measure), tuple(self.after), self.ending, self.error
        chosen = self._all_seeds if seeds is None else [_seeds_of(each) for each in seeds]
        forget_contents()
        # Drop the grid, so that the new experiment of each setting is cheap to make.
        single = dataclasses.replace(self, grid=Grid([{}]))
        for values in self.grid:
            here = single.with_values(values) if values else self
            tried = {name: shown(value) for name, value in values.items()}
            for (problem, task), (network, links) in itertools.product(here.problem.items(), here.networks.items()):
                before = ({PROBLEM: problem} if problem else {}) | ({NETWORK: network} if network else {}) | tried
                tuned = {}
                for seed, (name, method) in itertools.product(chosen, here.methods.items()):
                    columns = before | {METHOD: name} | dict(method.label) | {SEED: seed.seed}
                    if self.only is not None and not self.only(columns):
                        continue
                    if name not in tuned:
                        tuned[name] = self._tuned(name, method, columns)
                    yield Cell(columns, task, links, tuned[name], seed, here.rounds, *how, name)

    def _tuned(self, name: str, method: Any, columns: Mapping[str, Any]) -> Any:
        """Return a method with the values tuned for its condition; BadInput if only other conditions were tuned."""
        key = condition_of(columns)
        if key not in self.settings and any(is_of(name, method, each) for each in self.settings):
            raise BadInput(f"settings: must have been tuned for {', '.join(key)}, too")
        for path, value in self.settings.get(key, {}).items():
            method = paths.changed(method, path, value_of(value))
        return method

    @check.named
    def play(
        self,
        method: str | None = None,
        seed: int | Seeds | None = None,
        *,
        problem: str | None = None,
        network: str | None = None,
        trace: bool = False,
    ) -> Run:
        """Run one cell, of the first setting, and return its `Run`: to replay it, or to inspect its agents.

        Parameters
        ----------
        method : str, optional
            Default: the first.
        seed : int or Seeds, optional
            Default: the first.
        problem, network : str, optional
            Default: the first.
        trace : bool
            Keep the event log (`Run.trace`).
        """
        name = next(iter(self.methods)) if method is None else check.one_of("method", method, self.methods)
        cells = self.cells(self.seeds[:1] if seed is None else [seed])
        wanted: dict[str, str] = {}
        for part, given, known in ((PROBLEM, problem, self.problem), (NETWORK, network, self.networks)):
            wanted |= {} if given is None else {part: check.one_of(part, given, known)}
        here = (each for each in cells if each.method_name == name and wanted.items() <= dict(each.columns).items())
        return next(here).play(trace=trace)

    # --- running ------------------------------------------------------------------------------------------------------

    @check.named
    def run(
        self,
        out: str | Path | None = None,
        *,
        jobs: int = 1,
        dask: str | None = None,
        timeout: float | None = None,
        memory: int | None = None,
        reporter: Reporter | None = None,
    ) -> Results:
        """Run the cells that are missing in a folder, and return the results of all cells.

        A cell's results are found by its content: code, data and values. So an experiment may grow by seeds, values or
        methods, and after a change only the affected cells are run.

        Parameters
        ----------
        out : str or Path, optional
            The folder. Default: the results are in memory only.
        jobs : int
            Number of processes.
        dask : str, optional
            The address of a Dask scheduler, ``tcp://host:8786``, whose workers run the cells.
        timeout, memory : float, int, optional
            The limits of a cell in seconds and megabytes; a cell that exceeds a limit has failed.
        reporter : Reporter, optional
            Shows progress; default: nothing is printed.

        Raises
        ------
        BadInput
            For a method that does not fit a problem or network, or a folder that cannot be used.
        NetsimError
            If all cells fail.
        Unsaved
            If the folder cannot be written; finished cells remain complete.
        """
        cells = list(self.cells())
        return self.run_cells(cells, out, jobs=jobs, dask=dask, limits=Limits(timeout, memory), reporter=reporter)

    def run_cells(
        self,
        cells: Sequence[Cell],
        out: str | Path | None,
        *,
        jobs: int = 1,
        dask: str | None = None,
        limits: Limits | None = None,
        reporter: Reporter | None = None,
        metric: str | None = None,
        flags: Sequence[tuple[str, str]] = (),
        file: Path | None = None,
    ) -> Results:
        """Run some cells of the experiment as `run` does.

        ``file`` is the file that defines the experiment, and ``flags`` are its flags on the command line. A ``metric``
        that is no column is refused as soon as a run of each problem has ended.
        """
        check.integer("jobs", jobs, low=1)
        if dask is not None and jobs != 1:
            raise check.refuse("jobs", jobs, "left out with dask, which uses all workers of the cluster")
        show, limits = reporter or Reporter(quiet=True), limits or Limits()
        with (
            tempfile.TemporaryDirectory() if out is None else nullcontext(str(out)) as name,
            held(Path(name)) as running,
        ):
            folder = Path(name)
            there = {cell.key: found for cell in cells if (found := read(folder, cell.key)) is not None}
            changed = {key: names for key, found in there.items() if (names := changed_files(found.read))}
            notes = [
                f"{', '.join(each)} changed: what ran with the former data ran again." for each in changed.values()
            ]
            # Run failed cells again: a missing file or package may be available now.
            again = {key for key, found in there.items() if key in changed or found.row["outcome"] == FAILED}
            missing = {cell.key: cell for cell in cells if cell.key not in there or cell.key in again}
            check_fits(cells, missing)
            ended: dict[Any, tuple[Cell, Measured]] = {}
            for cell in cells:
                if cell.key not in missing:
                    self._check_metric(metric, ended, cell, folder)
            whys: dict[str, str] = {}
            with show.tally("cells", len(there.keys() | missing)) as tally:
                done = len(there) - len(again)
                tally(done, 0)
                work = CellRun(folder.absolute(), running.absolute(), limits)
                for number, (key, why) in enumerate(_played(work, _ordered(missing.values()), jobs, dask), 1):
                    if why is not None:
                        whys[key] = why
                        show.line(f"{paths.listed(missing[key].columns)}: failed: {why}")
                    tally(done + number - len(whys), len(whys))
                    self._check_metric(metric, ended, missing[key], folder)
            for key, cell in missing.items():
                kept = None if whys.get(key) == KILLED else read(folder, key)
                found = kept or Measured.failed(
                    whys.get(key, f"{paths.listed(cell.columns)}: its results are not there")
                )
                # Without ``out`` the folder is temporary: read the tables before this block ends and removes it.
                there[key] = dataclasses.replace(found, table=found.rounds) if out is None else found
            if late := sorted({name for key in missing for name in changed_files(there[key].read)}):
                notes.append(f"{', '.join(late)} changed after it was read: run again, in a new process.")
            ran = [(cell, there[cell.key]) for cell in cells]
            results = self._results(ran, None if out is None else folder, len(missing))
            results.notes.extend(dict.fromkeys(notes))
            self._about(results, flags, file)
            if out is not None:
                self._keep(folder, results, file)
        rows = [found.row for _, found in results.cells]
        if rows and all(row["outcome"] == FAILED for row in rows):
            raise NetsimError(f"all {len(rows)} runs failed; the first: {rows[0]['why']}")
        return results

    def _check_metric(
        self, metric: str | None, ended: dict[Any, tuple[Cell, Measured]], cell: Cell, folder: Path
    ) -> None:
        """Raise BadInput if a metric is no column, once a run of each problem has ended and shows all columns."""
        problem = cell.columns.get(PROBLEM)
        if metric is None or problem in ended:
            return
        found = read(folder, cell.key)
        if found is not None and found.row["outcome"] not in DEAD:
            ended[problem] = cell, found
            if len(ended) == len(self.problem):
                Results([*ended.values()])._metric(metric)

    def _results(self, found: list[tuple[Cell, Measured]], folder: Path | None, ran: int) -> Results:
        doubted: dict[tuple[str, str], list[str]] = {}
        versions: dict[str, set[str]] = {}
        for cell, each in found:
            for line in each.doubts:
                doubted.setdefault((cell.method_name, line.partition(":")[0].partition(" = ")[0]), []).append(line)
            for what, value in each.about.items():
                versions.setdefault(what, set()).add(json.dumps(value, sort_keys=True))
        labels = dict.fromkeys(name for method in self.methods.values() for name in method.label if name != METHOD)
        notes = list(self.notes)
        if mixed := sorted(what for what, several in versions.items() if len(several) > 1):
            notes.append(f"The runs are of several versions of {', '.join(mixed)}; last digits may differ.")
        for (name, _), lines in doubted.items():
            count = sum(cell.method_name == name for cell, _ in found)
            notes.append(f"{name}: {lines[0]}; so in {len(lines)} of its {count} runs.")
        return Results(found, tuple(labels), folder, ran, notes)

    def _about(self, results: Results, flags: Sequence[tuple[str, str]], file: Path | None) -> None:
        """Attach the experiment's description to its results."""
        results.about.update(record(self, results), flags=list(flags), file=None, notes=results.notes)
        if (own := self._files(file)) and own[0].is_file():
            results.about.update(of_file(own[0]))
            if file is not None:
                words = [f"--{name.replace('_', '-')} {shlex.quote(text)}" for name, text in flags]
                results.about["command"] = " ".join(["netsim run", shlex.quote(str(file)), *words])
            elif own[0].resolve() == _main().resolve():
                results.about["command"] = f"python {shlex.quote(own[0].name)}"

    def _files(self, file: Path | None) -> list[Path]:
        """Return the user's files, first the one that defines the experiment."""
        own = files_of(self._parts())
        # Among several files, the script that Python runs most likely defines the experiment.
        return [file, *own] if file is not None else sorted(own, key=lambda each: each.resolve() != _main().resolve())

    def _keep(self, folder: Path, results: Results, file: Path | None = None) -> None:
        """Write the files of the experiment as a whole: tables, inputs, and the record of the parts."""
        files = dict.fromkeys([*map(Path, self.files), *self._files(file)])
        results.notes.extend(keep_inputs(folder, files, results.about["files"]))
        with refusals(folder):
            for name, data in (
                (EXPERIMENT, json.dumps(results.about, indent=1, default=json_value)),
                (TABLE, results.runs.to_csv(index=False)),
            ):
                with write_whole(folder / name) as out:
                    out.write(data.encode(errors="backslashreplace"))

    def old(self, out: str | Path) -> "pd.DataFrame":
        """Return a folder's cells that no longer belong to this experiment: keys and columns.

        Their code, data or values have changed since. `remove_old` removes these cells.
        """
        import pandas as pd

        now = {cell.key for cell in self.cells()}
        old = [key for key in keys_in(Path(out)) if key not in now]
        return pd.DataFrame([{"key": key, **columns_of(Path(out), key)[0]} for key in old])

    def remove_old(self, out: str | Path) -> int:
        """Remove the cells that `old` lists, and return their number."""
        found = self.old(out)
        with held(Path(out)):
            for key in found.get("key", ()):
                shutil.rmtree(Path(out) / RUNS / key)
        return len(found)

    def tune(
        self,
        over: "Mapping[str, Between | OneOf | None]",
        *,
        out: str | Path | None = None,
        seeds: Sequence[int] = range(100, 103),
        validation: Sequence[int] = range(200, 206),
        candidates: int = 8,
        finalists: int = 3,
        metric: str | None = None,
        of: str = "median",
        jobs: int = 1,
        reporter: Reporter | None = None,
    ) -> "Tuned":
        """Search better values for each method under each condition, with the same number of trials for each.

        Parameters
        ----------
        over : mapping
            Paths of methods, such as ``method.eta`` (every method that has it) or ``methods.COKE.coder.bits``, and for
            each a `Between`, a `OneOf`, or None. None takes the range that the algorithm's theorems admit on the
            search's problems (`netsim.agents.theory.admissible`), and adds a candidate with the theorems' value.
        out : str or Path, optional
            The folder of the runs; stored runs are not repeated.
        seeds : sequence of int
            The seeds of the search.
        validation : sequence of int
            The seeds on which the finalists are compared; none: the best of the search is chosen.
        candidates : int
            The number of values tried for each method, its present values included.
        finalists : int
            The number of candidates that are validated.
        metric : str, optional
            The column whose last value is minimised. COLUMN@ERROR=VALUE minimises the column's value in the round from
            which on the error stays at or below VALUE; +P% in place of VALUE means P % above the least possible error.
            A run that never reaches the target counts as diverged. Default: the problem's error.
        of : {"median", "mean"}
            The statistic that scores a candidate over the seeds on which it survives.
        jobs : int
            Number of processes.
        reporter : Reporter, optional
            Shows progress.

        Raises
        ------
        BadInput
            For a path that no method has, an invalid range, None where no theorem gives a range, seeds that are also
            the experiment's, or seeds in both search and validation.
        """
        from netsim.studies.experiment.tuning import Search

        search = Search(self, over, metric, check.one_of("of", of, STATISTICS), out, jobs, reporter)
        return search.found(
            [check.integer("seeds", each, low=0) for each in _listed("seeds", seeds)],
            [check.integer("validation", each, low=0) for each in _listed("validation", validation)],
            check.integer("candidates", candidates, low=2),
            check.integer("finalists", finalists, low=1),
        )


def _played(work: CellRun, cells: Sequence[Cell], processes: int, dask: str | None) -> Iterator[Ended]:
    if dask is not None:
        send_caches()
        yield from run_there(work, cells, dask)
    elif processes > 1 and len(cells) > 1:
        send_caches()
        yield from run_here(work, cells, processes)
    else:
        yield from (run_named(work, cell) for cell in cells)


def _ordered(cells: Iterable[Cell]) -> list[Cell]:
    """Return cells ordered so that those with the same problem, under any setting, can share a task."""
    order: dict[Any, int] = {}
    return sorted(cells, key=lambda cell: order.setdefault((id(cell.problem), cell.seeds), len(order)))


def _main() -> Path:
    """Return the path of the script that Python runs; an empty path in a notebook."""
    return Path(getattr(sys.modules["__main__"], "__file__", None) or "")


def _named(what: str, given: Any, of: Callable[[Any], Any], alone: str = "") -> dict[str, Any]:
    """Return parts by name; a single part gets the name ``alone``."""
    if not isinstance(given, Mapping):
        return {alone: of(given)}
    if not given:
        raise check.refuse(what, dict(given), "one at least")
    for name in given:
        if not isinstance(name, str) or (not name and len(given) > 1):
            raise check.refuse(f"{what}: name", name, "text")
    return {name: of(each) for name, each in given.items()}


def _name_of(method: Any) -> str:
    kind = getattr(method, "kind", getattr(method, "function", method))
    return str(getattr(getattr(kind, "func", kind), "__name__", METHOD))


def _seeds_of(given: Any) -> Seeds:
    return given if isinstance(given, Seeds) else Seeds(seed=check.integer(SEED, given, low=0))


def _grid_of(given: Any) -> Grid:
    settings = list(given) if isinstance(given, Iterable) else [given]
    if not all(isinstance(each, Mapping) for each in settings):
        raise check.refuse("grid", given, "a Grid, as netsim.vary makes it, or mappings of paths to values")
    return Grid(settings)


def _listed(name: str, seeds: Any) -> list[Any]:
    check.instance(name, seeds, Iterable, "whole numbers, such as range(5)")
    return list(seeds)


def _matches(pattern: str, path: str) -> bool:
    """Return whether a path matches a pattern that may contain `paths.ANY`."""
    mine, asked = pattern.split("."), path.split(".")
    return len(mine) == len(asked) and all(a in (paths.ANY, b) for a, b in zip(mine, asked, strict=True))
