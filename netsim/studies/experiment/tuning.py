"""Tuning of an experiment: any path of its methods, by successive halving, with a choice on seeds of its own.

Under each condition (method, problem, network, setting) candidate 0 is the method as it is; the others take every level
of each range once (a Latin hypercube). A rung adds seeds for the better half (`netsim.studies.selection`). The
finalists run on validation seeds, on which nothing was searched: the one with most survivors is chosen, of these the
one with the least median. Tuned experiments refuse all these seeds.
"""

import dataclasses
import json
import math
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from netsim.errors import BadInput
from netsim.studies import columns
from netsim.studies.experiment import paths
from netsim.studies.experiment.cells import METHOD, Cell
from netsim.studies.experiment.content import content, digest
from netsim.studies.experiment.grid import value_of
from netsim.studies.experiment.methods import AnyMethod
from netsim.studies.experiment.results import survival
from netsim.studies.intervals import statistic
from netsim.studies.outcome import DEAD
from netsim.studies.selection import rungs
from netsim.studies.terminal import Reporter
from netsim.util import check
from netsim.util.draws import name_key
from netsim.util.files import write_whole

if TYPE_CHECKING:
    import pandas as pd

    from netsim.studies.experiment.experiment import Experiment

Key = tuple[str, ...]
"""A condition: what tuning tells apart."""

SEARCH, VALIDATION = "search", "validation"


@dataclass(frozen=True)
class Between:
    """The range of a number.

    Parameters
    ----------
    low, high : float
        The ends, both among the values tried; of two whole numbers all values are whole.
    log : bool
        Whether the values are spaced by factors.

    Raises
    ------
    BadInput
        Unless low < high, and with ``log`` low > 0.
    """

    low: float
    high: float
    log: bool = False

    def __post_init__(self) -> None:
        low = check.finite("low", self.low)
        check.finite("high", self.high, above=low)
        if check.flag("log", self.log) and low <= 0:
            raise check.refuse("low", self.low, "above 0 with log")

    def __str__(self) -> str:
        return f"{self.low:g}:{self.high:g}{':log' if self.log else ''}"

    def levels(self, count: int, whole: bool | None = None) -> list[Any]:
        """Return so many values, evenly spaced, both ends among them, to six digits; ``whole`` ones are the nearest."""
        if count == 1:
            found = [math.sqrt(self.low * self.high) if self.log else (self.low + self.high) / 2]
        else:
            found = (np.geomspace if self.log else np.linspace)(self.low, self.high, count).tolist()
        if whole is None:
            whole = isinstance(self.low, int) and isinstance(self.high, int)
        return [round(each) if whole else float(f"{each:.6g}") for each in found]

    def is_end(self, value: Any) -> bool:
        """Return whether a value is one of the ends."""
        return value in (float(f"{self.low:.6g}"), float(f"{self.high:.6g}"))


def range_of(text: str, place: str = "PATH") -> tuple[str, Between]:
    """Return the path and the range that ``PATH=LOW:HIGH[:log]`` gives; raises BadInput for another form."""
    path, _, given = (part.strip() for part in text.partition("="))
    with suppress(ValueError):
        low, high, *log = given.split(":")
        if path and not path.endswith(".") and log in ([], ["log"]):
            ends = [int(each) if re.fullmatch(r"\s*[+-]?\d+\s*", each) else float(each) for each in (low, high)]
            return path, Between(ends[0], ends[1], log=bool(log))
    raise check.refuse("over", text, f"{place}=LOW:HIGH or LOW:HIGH:log, LOW < HIGH, with log LOW > 0")


@dataclass(frozen=True)
class Choice:
    """Any objects to choose from: coders, censors, duals, numbers.

    Raises BadInput if there are none.
    """

    values: Sequence[Any]

    def __post_init__(self) -> None:
        if not list(self.values):
            raise check.refuse("values", self.values, "one at least")

    def __str__(self) -> str:
        return f"{{{', '.join(map(paths.brief, self.values))}}}"

    def levels(self, count: int) -> list[Any]:
        """Return so many of the objects, each as often as the others."""
        return [self.values[number % len(self.values)] for number in range(count)]

    def is_end(self, value: Any) -> bool:
        """Return False: a choice has no ends."""
        return False


@dataclass(frozen=True)
class Tuned:
    """What tuning found.

    Attributes
    ----------
    experiment : Experiment
        With the chosen values; it refuses the seeds on which they were chosen.
    chosen : DataFrame
        A row for each method under each condition: the chosen candidate, its values, its score in search and
        validation, and how many validation runs survived.
    table : DataFrame
        A row for each trial: condition, candidate, stage, seed, outcome, score.
    notes : list of str
        What a reader must know: values at an end of a range, methods of which no candidate survives.
    """

    experiment: "Experiment"
    chosen: "pd.DataFrame"
    table: "pd.DataFrame"
    notes: list[str] = field(default_factory=list)

    def save(self, file: str | Path) -> None:
        """Write the chosen values, the spent seeds, and how they were chosen as JSON."""
        best = [
            {"condition": list(key), "values": {path: _kept(value) for path, value in values.items()}}
            for key, values in self.experiment.settings.items()
        ]
        kept = {"best": best, "spent": sorted(self.experiment.spent), **self.experiment.tuning}
        with write_whole(file) as out:
            out.write(json.dumps(kept, indent=1).encode())


def settled(
    experiment: "Experiment", file: str | Path, over: Mapping[str, Between | Choice] | None = None
) -> "Experiment":
    """Return an experiment with the values of a file that `Tuned.save` wrote; it refuses the seeds spent on them.

    Objects, as coders, are those that the choices of ``over`` have.

    Raises
    ------
    BadInput
        If the file is none, has an object that no choice has, or lacks a condition of a method that was tuned.
    """
    try:
        kept = json.loads(Path(file).read_text(encoding="utf-8"))
        settings = {tuple(each["condition"]): dict(each["values"]) for each in kept["best"]}
        spent = frozenset(map(int, kept["spent"]))
        tuning = {**kept, "file": Path(file).name}
    except (OSError, ValueError, KeyError, TypeError):
        raise check.refuse("settings", str(file), "a tuned.json that netsim tune wrote for an experiment") from None
    for key, values in settings.items():
        for path, kept_value in values.items():
            if isinstance(kept_value, dict):
                values[path] = _object_of(experiment, over or {}, key, path, kept_value, f"settings = {str(file)!r}")
    # With a copy among the inputs, the folder alone repeats the runs.
    files = [*experiment.files, file]
    del tuning["best"], tuning["spent"]
    spent |= experiment.spent
    found = dataclasses.replace(experiment, settings=settings, spent=spent, files=files, tuning=tuning)
    for _ in found.cells(found.seeds[:1]):
        # A condition that was not tuned is refused here, before anything runs.
        pass
    return found


def tune(
    experiment: "Experiment",
    over: Mapping[str, Between | Choice],
    *,
    out: str | Path | None = None,
    seeds: Sequence[int] = range(100, 103),
    validation: Sequence[int] = range(200, 206),
    candidates: int = 8,
    finalists: int = 3,
    metric: str | None = None,
    jobs: int = 1,
    reporter: Reporter | None = None,
) -> Tuned:
    """Search better values for each method under each condition, with the same number of trials for each.

    Parameters
    ----------
    experiment : Experiment
    over : mapping
        Paths of methods, as ``method.eta`` (of every method that has it) or ``methods.COKE.coder.bits``, and for each a
        `Between` or a `Choice`.
    out : str or Path, optional
        The folder of the runs: what is there is not run again.
    seeds : sequence of int
        The seeds of the search.
    validation : sequence of int
        The seeds on which the finalists are compared.
    candidates : int
        How many values of each method are tried, the method as it is among them.
    finalists : int
        How many of them are validated.
    metric : str, optional
        The column whose last value is to be small; default: the error that the problem is about.
    jobs : int
        Number of processes.
    reporter : Reporter, optional
        Shows progress.

    Raises
    ------
    BadInput
        For a path that no method has, a range that is none, or seeds that are also the experiment's, or both search and
        validation.
    """
    return _Search(experiment, over, metric, out, jobs, reporter).found(
        [check.integer("seeds", each, low=0) for each in seeds],
        [check.integer("validation", each, low=0) for each in validation],
        check.integer("candidates", candidates, low=2),
        check.integer("finalists", finalists, low=1),
    )


@dataclass
class _Search:
    experiment: "Experiment"
    over: Mapping[str, Between | Choice]
    metric: str | None
    out: str | Path | None
    jobs: int
    reporter: Reporter | None
    rows: list[dict[str, Any]] = field(default_factory=list)
    scores: dict[tuple[Key, int, str], list[float]] = field(default_factory=dict)
    methods: dict[Key, AnyMethod] = field(default_factory=dict)

    def found(self, seeds: list[int], validation: list[int], candidates: int, finalists: int) -> Tuned:
        """Search, validate, and return what was chosen."""
        self._check_seeds(seeds, validation)
        plain = dataclasses.replace(self.experiment, settings={}, spent=frozenset())
        ranges = _ranges(plain, self.over)
        names: dict[Key, str] = {}
        for cell in plain.cells(seeds[:1]):
            key = cell.condition
            names[key], self.methods[key] = str(cell.columns[METHOD]), cell.method
        tries = {
            key: [{}, *_candidates(key, ranges[name], candidates - 1)] for key, name in names.items() if ranges[name]
        }
        left = {key: list(range(len(each))) for key, each in tries.items()}
        for number, step in enumerate(rungs(candidates, seeds)):
            if number:
                left = {k: self._ranked(k, each, SEARCH)[: max(step.count, finalists)] for k, each in left.items()}
            self._run(plain, tries, left, step.seeds, SEARCH)
        last = {key: self._ranked(key, each, SEARCH)[:finalists] for key, each in left.items()}
        self._run(plain, tries, last, validation, VALIDATION)
        notes = [f"Not tuned, for it has none of these parameters: {name}." for name, own in ranges.items() if not own]
        chosen, best = [], {}
        for key, order in last.items():
            winner = self._ranked(key, order, VALIDATION)[0]
            best[key] = tries[key][winner]
            values = self._values(key, ranges[names[key]], tries[key][winner])
            chosen.append(self._row(key, winner, values))
            notes += self._doubts(key, winner, order[0], values, ranges[names[key]])
        notes = list(dict.fromkeys(notes))
        over = {name: {path: str(each) for path, each in own.items()} for name, own in ranges.items() if own}
        kept: dict[str, Any] = {
            "methods": list(over),
            "over": over,
            "metric": self.metric,
            "seeds": seeds,
            "validation": validation,
        }
        kept |= {"candidates": candidates, "finalists": finalists, "runs": len(self.rows), "notes": notes}
        kept |= {"per": [each.partition("=")[0] for each in next(iter(best))] if best else []}
        spent = frozenset([*seeds, *validation])
        tuned = dataclasses.replace(self.experiment, settings=best, spent=spent, tuning=kept)
        import pandas as pd

        return Tuned(tuned, pd.DataFrame(chosen), pd.DataFrame(self.rows), notes)

    def _check_seeds(self, seeds: list[int], validation: list[int]) -> None:
        used = {each.seed for each in self.experiment._all_seeds}
        for name, several, others in (("seeds", seeds, used), ("validation", validation, used | set(seeds))):
            if not several:
                raise check.refuse(name, several, "one seed at least")
            if clash := sorted(set(several) & others):
                raise BadInput(f"{name} = {clash}: must be seeds on which nothing else runs")

    def _run(
        self,
        plain: "Experiment",
        tries: Mapping[Key, list[Any]],
        left: Mapping[Key, list[int]],
        seeds: Sequence[int],
        stage: str,
    ) -> None:
        """Run candidates of every condition in one go, so that no worker waits."""
        wanted: list[tuple[Key, int, Cell]] = []
        for cell in plain.cells(seeds):
            key = cell.condition
            for number in left.get(key, ()):
                method = cell.method
                for path, value in tries[key][number].items():
                    method = paths.changed(method, path, value_of(value))
                wanted.append((key, number, dataclasses.replace(cell, method=method)))
        how: dict[str, Any] = {"jobs": self.jobs, "reporter": self.reporter, "metric": self.metric}
        results = plain.run_cells([cell for _, _, cell in wanted], self.out, **how)
        metric = self.metric = results._metric(self.metric)
        for (key, number, cell), (_, measured) in zip(wanted, results.cells, strict=True):
            dead = measured.row["outcome"] in DEAD
            value = float(measured.row.get(metric, math.nan))
            score = math.inf if dead or math.isnan(value) else value if columns.worst(metric) > 0 else -value
            self.scores.setdefault((key, number, stage), []).append(score)
            about = {"candidate": number, "stage": stage, "outcome": measured.row["outcome"], metric: value}
            values = {path: paths.brief(each) for path, each in tries[key][number].items()}
            self.rows.append({**cell.columns, **about, **values})

    def _values(self, key: Key, ranges: Mapping[str, Any], tried: Mapping[str, Any]) -> dict[str, Any]:
        """Return the values of a candidate at all paths that are searched; candidate 0 has the method's own."""
        method = self.methods[key]
        return {path: tried[path] if path in tried else paths.values_at(method, path)[0] for path in ranges}

    def _ranked(self, key: Key, numbers: Sequence[int], stage: str) -> list[int]:
        """Return candidates: those with most survivors first, then those of the least median."""

        def rank(number: int) -> tuple[float, float, int]:
            scores = self.scores[key, number, stage]
            return float(np.mean(np.isinf(scores))), statistic(scores, of="median"), number

        return sorted(numbers, key=rank)

    def _row(self, key: Key, winner: int, values: Mapping[str, Any]) -> dict[str, Any]:
        about = dict(each.split("=", 1) for each in key)
        ends = self.scores[key, winner, VALIDATION]
        return {
            **about,
            "candidate": winner,
            **{path: paths.brief(value) for path, value in values.items()},
            SEARCH: statistic(self.scores[key, winner, SEARCH], of="median"),
            VALIDATION: statistic(ends, of="median"),
            "survived": f"{int(np.isfinite(ends).sum())}/{len(ends)}",
        }

    def _doubts(
        self, key: Key, winner: int, first: int, values: Mapping[str, Any], ranges: Mapping[str, Between | Choice]
    ) -> list[str]:
        """Return notes on what was chosen."""
        what, ends = ", ".join(key), self.scores[key, winner, VALIDATION]
        alive, count = int(np.isfinite(ends).sum()), len(ends)
        notes = []
        if alive < count:
            low, high = survival(alive, count)
            notes.append(
                f"{what}: no candidate survives all {count} validation seeds; the chosen one survives {alive} "
                f"(95 % interval of the share: {low:.0%} to {high:.0%})."
            )
        if first != winner:
            lived = int(np.isfinite(self.scores[key, first, VALIDATION]).sum())
            if lived < alive:
                notes.append(
                    f"{what}: the best of the search survives {lived} of {count} validation seeds, and is not chosen."
                )
        notes += [
            f"{what}: {path} = {paths.brief(value)} is an end of its range."
            for path, value in values.items()
            if ranges[path].is_end(value)
        ]
        return notes


def _kept(value: Any) -> Any:
    """Return a value as tuned.json has it; an object, which a text cannot give back, as a mapping."""
    given = value_of(value)
    if isinstance(given, int | float | str | None):
        return given
    return {"object": paths.brief(given), "content": digest(json.dumps(content(given), sort_keys=True).encode())}


def _object_of(
    experiment: "Experiment", over: Mapping[str, Any], key: Key, path: str, kept: Mapping[str, Any], where: str
) -> Any:
    """Return the object of a choice that a file of chosen values has kept; raises BadInput if no choice has it."""
    ranges = _ranges(experiment, over)
    several = [each[path] for name, each in ranges.items() if f"{METHOD}={name}" in key and path in each]
    choices = [value for each in several if isinstance(each, Choice) for value in each.values]
    for value in choices:
        if _kept(value) == kept:
            return value
    raise BadInput(
        f"{where}: must have objects that the choices of `over` have; {path} was tuned as {kept.get('object')}"
    )


def _ranges(experiment: "Experiment", over: Mapping[str, Between | Choice]) -> dict[str, dict[str, Between | Choice]]:
    """Return the ranges of each method by path below it; a range of one method replaces that of all methods."""
    found: dict[str, dict[str, Between | Choice]] = {name: {} for name in experiment.methods}
    longs = [(experiment._long(path), name) for name in over for path in experiment._of(name)]
    for long, written in sorted(longs, key=lambda each: paths.ANY not in each[0]):
        range_ = over[written]
        if not isinstance(range_, Between | Choice):
            raise check.refuse(f"over: {written}", range_, "a Between or a Choice")
        first, _, rest = long.partition(".")
        if first != "methods":
            raise check.refuse("over", written, "a path of methods, as method.eta or methods.COKE.rho")
        experiment.values(written)
        for name, method in experiment.methods.items():
            own = next(
                (rest.removeprefix(each) for each in (f"{paths.ANY}.", f"{name}.") if rest.startswith(each)), None
            )
            if own is not None and list(paths._values(method, own)):
                found[name][own] = range_
    return found


def _candidates(key: Key, ranges: Mapping[str, Between | Choice], count: int) -> list[dict[str, Any]]:
    """Return so many candidates: every level of each range once, combined in an order that depends on the condition."""
    found = {}
    for path, each in ranges.items():
        levels = each.levels(count)
        order = sorted(range(count), key=lambda level: name_key(("tune", *key, path, level)))
        found[path] = [levels[number] for number in order] if len(ranges) > 1 else levels
    return [{path: column[number] for path, column in found.items()} for number in range(count)]
