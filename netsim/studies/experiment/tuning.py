"""Tuning of an experiment: successive halving over paths of its methods, validated on separate seeds.

Under each condition (method, problem, network, setting) candidate 0 is the method as given; the other candidates take
every level of each range once (a Latin hypercube). A rung adds seeds for the better half (Jamieson and Talwalkar 2016,
"Non-stochastic best arm identification and hyperparameter optimization", with seeds as the resource). The finalists run
on validation seeds, which the search did not use: the best step size is often the largest that survives, so a search on
few seeds may choose one that fails on other seeds. The finalist with most survivors is chosen; among equals, the
finalist with the least median. Tuned experiments refuse all these seeds.
"""

import dataclasses
import json
import math
import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from netsim.engine.process import limited_blas
from netsim.errors import BadInput
from netsim.studies import columns
from netsim.studies.experiment import paths
from netsim.studies.experiment.cells import METHOD, Cell, Measured
from netsim.studies.experiment.content import content, digest
from netsim.studies.experiment.methods import AnyMethod
from netsim.studies.experiment.paths import plain, shown, value_of
from netsim.studies.intervals import proportion, statistic
from netsim.studies.outcome import DEAD, FAILED
from netsim.studies.reach import Target
from netsim.studies.reach import settled as reached
from netsim.studies.terminal import Reporter
from netsim.util import check
from netsim.util.datafiles import used
from netsim.util.draws import name_key
from netsim.util.files import write_pieces

if TYPE_CHECKING:
    import pandas as pd

    from netsim.studies.experiment.experiment import Experiment

Key = tuple[str, ...]
"""A condition: what tuning tells apart."""

# Flags that may differ between a tuning and a run: methods, seeds, and values of methods.
_MAY_DIFFER = ("algorithms", "methods", "method", "set", "settings", "seed")

_FORM = "LOW:HIGH or LOW:HIGH:log, LOW < HIGH, with log LOW > 0"

SEARCH, VALIDATION = "search", "validation"
NEAREST = "nearest that died"


@dataclass(frozen=True)
class Between:
    """The range of a number.

    Parameters
    ----------
    low, high : float
        The ends, which are both tried. If both are whole numbers, all values are whole.
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
        check.put(self, low=plain(self.low), high=plain(self.high))
        low = check.finite("low", self.low)
        check.finite("high", self.high, above=low)
        if check.flag("log", self.log) and low <= 0:
            raise check.refuse("low", self.low, "above 0 with log")

    def __str__(self) -> str:
        return f"{self.low:g}:{self.high:g}{':log' if self.log else ''}"

    def levels(self, count: int) -> list[Any]:
        """Return ``count`` evenly spaced values that include both ends, rounded to six digits or to whole numbers."""
        if count == 1:
            found = [math.sqrt(self.low * self.high) if self.log else (self.low + self.high) / 2]
        else:
            found = (np.geomspace if self.log else np.linspace)(self.low, self.high, count).tolist()
        whole = isinstance(self.low, int) and isinstance(self.high, int)
        return [round(each) if whole else float(f"{each:.6g}") for each in found]

    def place(self, value: Any) -> float:
        """Return a value's position in the range, 0 at the low end and 1 at the high one; NaN if it is no number."""
        if isinstance(value, bool) or not isinstance(value, Real) or (self.log and value <= 0):
            return math.nan
        low, high, at = (math.log(each) if self.log else each for each in (self.low, self.high, float(value)))
        return (at - low) / (high - low)

    def doubt(self, value: Any) -> str:
        """Return why a better value may lie outside the range: the value is an end or outside; "" otherwise."""
        if value in (float(f"{self.low:.6g}"), float(f"{self.high:.6g}")):
            return "an end of its range"
        return "" if math.isnan(at := self.place(value)) or 0 < at < 1 else f"the method's own, outside of {self}"


def range_of(text: str, place: str = "PATH") -> tuple[str, Between | None]:
    """Return the path and the range of ``PATH[=LOW:HIGH[:log]]``; raises BadInput for malformed text."""
    path, equals, given = (part.strip() for part in text.partition("="))
    if path and not equals and not path.endswith("."):
        return path, None
    with suppress(ValueError):
        low, high, *log = given.split(":")
        if path and not path.endswith(".") and log in ([], ["log"]):
            ends = [int(each) if re.fullmatch(r"\s*[+-]?\d+\s*", each) else float(each) for each in (low, high)]
            return path, Between(ends[0], ends[1], log=bool(log))
    raise check.refuse("over", text, f"{place}={_FORM}")


@dataclass(frozen=True)
class OneOf:
    """A set of objects to choose from: coders, censors, duals, numbers.

    Raises BadInput if there are none.
    """

    values: Sequence[Any]

    def __post_init__(self) -> None:
        if not isinstance(self.values, Iterable) or not list(self.values):
            raise check.refuse("values", self.values, "one at least")
        check.put(self, values=list(map(plain, self.values)))

    def __str__(self) -> str:
        return f"{{{', '.join(map(paths.brief, self.values))}}}"

    def levels(self, count: int) -> list[Any]:
        """Return ``count`` objects by cycling through the choices."""
        return [self.values[number % len(self.values)] for number in range(count)]

    def place(self, value: Any) -> float:
        """Return NaN, because objects have no distance."""
        return math.nan

    def doubt(self, value: Any) -> str:
        """Return "", because a choice has no ends."""
        return ""


@dataclass(frozen=True)
class Tuned:
    """The result of tuning.

    Attributes
    ----------
    experiment : Experiment
        The experiment with the chosen values. It rejects the seeds used for tuning.
    chosen : DataFrame
        A row for each method under each condition: the chosen candidate, its values, its score in search and
        validation, how many validation runs survived, and the nearest candidate that lost a run in any stage, with its
        distance. Distances are relative to the width of each range, on a logarithmic scale if the range has one.
    table : DataFrame
        A row for each trial: condition, candidate, stage, seed, outcome, score.
    notes : list of str
        Warnings for the reader: chosen values at an end of a range, and methods without a surviving candidate.
    """

    experiment: "Experiment"
    chosen: "pd.DataFrame"
    table: "pd.DataFrame"
    notes: list[str] = field(default_factory=list)

    def save(self, file: str | Path) -> None:
        """Write the chosen values, the spent seeds, and the record of the choice as JSON."""
        save(file, [({}, self)], {})


def save(file: str | Path, parts: Sequence[tuple[Mapping[str, Any], Tuned]], given: Mapping[str, Any]) -> None:
    """Write the choices of several tunings, as `Tuned.save` does, each under the values of its flags.

    ``given`` are the values of the flags that all tunings share: a run with other values notes the difference.
    """
    best = [
        {
            "condition": [*(f"{name}={value}" for name, value in when.items()), *key],
            "values": {path: _kept(value) for path, value in values.items()},
        }
        for when, tuned in parts
        for key, values in tuned.experiment.settings.items()
    ]
    every = [tuned.experiment.tuning for _, tuned in parts]
    kept = {"best": best, "spent": sorted(parts[0][1].experiment.spent), **every[0], "given": dict(given)}
    kept["notes"] = list(dict.fromkeys(note for each in every for note in each["notes"]))
    kept["runs"], kept["per"] = sum(each["runs"] for each in every), [*parts[0][0], *every[0]["per"]]
    write_pieces(file, [json.dumps(kept, indent=1).encode()])


@dataclass(frozen=True)
class TunedFile:
    """The content of a file written by `Tuned.save`.

    Attributes
    ----------
    file : str
        The file's path.
    best : list of (dict, dict)
        For each condition (texts by column) the chosen values, by path below the method.
    spent : frozenset of int
        The seeds on which the values were chosen.
    tuning : dict
        How the values were chosen.
    """

    file: str
    best: list[tuple[dict[str, str], dict[str, Any]]]
    spent: frozenset[int]
    tuning: dict[str, Any]

    @classmethod
    def read(cls, file: str | Path) -> "TunedFile":
        """Return a file's content; raises BadInput if `Tuned.save` did not write it."""
        try:
            kept = json.loads(used(Path(file)).read_text(encoding="utf-8"))
            best = [(dict(part.split("=", 1) for part in e["condition"]), dict(e["values"])) for e in kept.pop("best")]
            spent = frozenset(map(int, kept.pop("spent")))
            if missing := {"methods", "over", "metric", "seeds", "validation", "runs"} - kept.keys():
                raise KeyError(missing)
            return cls(str(file), best, spent, {**kept, "file": Path(file).name})
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            raise check.refuse("settings", str(file), "a tuned.json that netsim tune wrote") from None

    def of(self, here: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the values tuned for a run's condition, given by its columns; None if there are none."""
        for condition, values in self.best:
            if all(name in here and str(here[name]) == text for name, text in condition.items()):
                return values
        return None

    def others(self, here: Mapping[str, Any]) -> Iterator[str]:
        """Yield each flag whose value in the run differs from its value in the tuning, with both values."""
        apart = {*_MAY_DIFFER, *(name for condition, _ in self.best for name in condition)}
        for name, value in self.tuning.get("given", {}).items():
            if name not in apart and here.get(name) not in (None, value):
                yield f"{name} = {value} (here {here[name]})"


def settled(
    experiment: "Experiment",
    files: Sequence[str | Path],
    known: Callable[[Cell], Mapping[str, Any]],
    over: Mapping[str, Between | OneOf] | None = None,
) -> "Experiment":
    """Return an experiment with the values in files from `Tuned.save`; it refuses the seeds spent on choosing them.

    Each run takes the values of the first file that was tuned for its condition. The condition is compared by name with
    the values that ``known`` returns for the cell, then with the experiment's values. Objects, such as coders, are
    taken from the choices of ``over``.

    Raises
    ------
    BadInput
        If a file is not from `Tuned.save`, has an object that is no choice or a path that its method lacks, or if a
        method was tuned but not for this condition.
    """
    several = [TunedFile.read(file) for file in files]
    clear = dataclasses.replace(experiment, settings={})
    names = {name for each in several for condition, _ in each.best for name in condition}
    settings: dict[Key, Mapping[str, Any]] = {}
    lacking: dict[str, None] = {}
    others: dict[str, dict[str, None]] = {}
    for cell in clear.cells(clear.seeds[:1]):
        key, here = cell.condition, _here(clear, known(cell), names)
        # A study may name its methods as another study does, and still have tuned files under its own names: try both.
        ways = [here, here | dict(cell.columns)]
        both = ((each, each.of(way)) for each in several for way in ways)
        found = next(((each, values) for each, values in both if values is not None), None)
        if found is not None:
            where = f"settings = {found[0].file!r}"
            settings[key] = {path: _given(clear, over or {}, cell, path, v, where) for path, v in found[1].items()}
            others.setdefault(found[0].tuning["file"], {}).update(dict.fromkeys(found[0].others(here)))
        elif tuned := [
            condition
            for each in several
            if not {cell.method_name, here[METHOD]}.isdisjoint(each.tuning["methods"])
            for condition, _ in each.best
            if condition.get(METHOD) == here[METHOD]
        ]:
            wanted = paths.listed({name: here.get(name, "") for name in tuned[0]})
            there = "; ".join(dict.fromkeys(map(paths.listed, tuned)))
            raise BadInput(f"settings = {','.join(map(str, files))!r}: must be tuned for {wanted}; it is for {there}")
        else:
            lacking[cell.method_name] = None
    listed = ", ".join(each.file for each in several)
    notes = [f"Not in {listed}, and so as they are: {', '.join(lacking)}."] if lacking else []
    notes += [f"The settings of {file} were chosen with {', '.join(each)}." for file, each in others.items() if each]
    return dataclasses.replace(
        experiment,
        settings=settings,
        spent=experiment.spent.union(*(each.spent for each in several)),
        # With these files copied to the inputs, the folder alone repeats the runs.
        files=[*experiment.files, *files],
        tuning={**several[0].tuning, "file": ", ".join(each.tuning["file"] for each in several)},
        notes=[*experiment.notes, *notes],
    )


def _here(experiment: "Experiment", known: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """Return the values known of a run, and for the other names the experiment's plain values."""
    found = dict(known)
    for name in set(names) - found.keys():
        with suppress(BadInput):
            first, *others = experiment.values(name)
            if all(each == first for each in others):
                found[name] = shown(first)
    return found


def _given(experiment: "Experiment", over: Mapping[str, Any], cell: Cell, path: str, kept: Any, where: str) -> Any:
    """Return a stored value for a method's path; a stored object is looked up in the choices of ``over``.

    Raises BadInput if the method lacks the path, or no choice is the object.
    """
    if not list(paths._values(cell.method, path)):
        raise BadInput(f"{where}: must be of methods as they are now; {cell.method_name} has no {path}")
    if not isinstance(kept, dict):
        return kept
    choice = _ranges(experiment, over)[cell.method_name].get(path)
    for value in choice.values if isinstance(choice, OneOf) else ():
        if _kept(value) == kept:
            return value
    raise BadInput(
        f"{where}: must have objects that the choices of `over` have; {path} was tuned as {kept.get('object')}"
    )


@dataclass(eq=False)
class _Trial:
    """A candidate of a method under a condition.

    Attributes
    ----------
    number : int
    changes : dict
        The candidate's values by path; empty for candidate 0, which is the method as given.
    values : dict
        The candidate's values at all searched paths.
    scores : dict
        By stage, the score of each run; ∞ if the run did not survive.
    """

    number: int
    changes: dict[str, Any]
    values: dict[str, Any]
    scores: dict[str, list[float]] = field(default_factory=lambda: {SEARCH: [], VALIDATION: []})

    def method(self, base: AnyMethod) -> AnyMethod:
        """Return a method with the candidate's values."""
        for path, value in self.changes.items():
            base = paths.changed(base, path, value_of(value))
        return base

    @property
    def stage(self) -> str:
        """The last stage in which the candidate ran."""
        return VALIDATION if self.scores[VALIDATION] else SEARCH

    def survived(self, stage: str) -> tuple[int, int]:
        """Return the number of surviving runs of a stage, and the number of all its runs."""
        return int(np.isfinite(self.scores[stage]).sum()), len(self.scores[stage])


@dataclass
class Search:
    """The search of `netsim.Experiment.tune`, and its trials so far."""

    experiment: "Experiment"
    over: Mapping[str, Between | OneOf | None]
    metric: str | None
    statistic: str
    out: str | Path | None
    jobs: int
    reporter: Reporter | None
    rows: list[dict[str, Any]] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)

    @property
    def target(self) -> Target | None:
        """The target that the metric names after "@"; None if it has none."""
        _, at, reach = (self.metric or "").partition("@")
        return Target.of(reach) if at else None

    def found(self, seeds: list[int], validation: list[int], candidates: int, finalists: int) -> Tuned:
        """Search, validate, and return the tuned experiment."""
        import pandas as pd

        if not check.mapping("over", self.over):
            raise check.refuse("over", self.over, "one range at least")
        self._check_seeds(seeds, validation)
        # A target is relative to the least possible value, which is known only for the error that classifies runs.
        error = self.target.column if self.target else self.experiment.error
        plain = dataclasses.replace(self.experiment, settings={}, spent=frozenset(), error=error)
        ranges, starts, notes = _admitted(list(plain.cells(seeds)), _ranges(plain, self.over))
        searched = list(dict.fromkeys(path for own in ranges.values() for path in own))
        trials: dict[Key, list[_Trial]] = {}
        names: dict[Key, str] = {}
        for cell in plain.cells(seeds[:1]):
            check_apart(searched, cell.columns)
            if own := ranges[cell.method_name]:
                now = {path: paths.values_at(cell.method, path)[0] for path in own}
                several = _candidates(cell.method_name, own, candidates, starts.get(cell.condition))
                trials[cell.condition] = [_Trial(number, each, now | each) for number, each in enumerate(several)]
                names[cell.condition] = cell.method_name
        left = trials
        for number, step in enumerate(rungs(candidates, seeds)):
            if number:
                most = max(step.count, finalists) if validation else step.count
                left = {key: self._ranked(each, SEARCH)[:most] for key, each in left.items()}
            self._run(plain, left, step.seeds, SEARCH)
        last = {key: self._ranked(each, SEARCH)[:finalists] for key, each in left.items()}
        if validation:
            self._run(plain, last, validation, VALIDATION)
        notes += [f"Not tuned, for it has none of these parameters: {name}." for name, own in ranges.items() if not own]
        if self.failed:
            notes.append(f"{len(self.failed)} runs failed, and count as diverged; the first: {self.failed[0]}")
        best, chosen = {}, []
        for key, order in last.items():
            winner = self._ranked(order, VALIDATION)[0] if validation else order[0]
            best[key], own = winner.changes, ranges[names[key]]
            about: dict[str, Any] = {"candidate": winner.number}
            about |= {path: paths.brief(winner.values[path]) if path in own else None for path in searched}
            about |= {stage: self._score(scores) for stage, scores in winner.scores.items() if scores}
            about["survived"] = "{}/{}".format(*winner.survived(winner.stage))
            about[NEAREST] = _nearest(winner, trials[key], own)
            chosen.append(dict(each.split("=", 1) for each in key) | about)
            notes += _doubts(", ".join(key), winner, order[0], own)
        over = {name: {path: str(each) for path, each in own.items()} for name, own in ranges.items() if own}
        kept: dict[str, Any] = {
            "methods": list(over),
            "over": over,
            "metric": self.metric,
            "of": self.statistic,
            "seeds": seeds,
            "validation": validation,
            "candidates": candidates,
            "finalists": finalists,
            "runs": len(self.rows),
            "notes": list(dict.fromkeys(notes)),
            "per": [each.partition("=")[0] for each in next(iter(best), ())],
        }
        spent = frozenset([*seeds, *validation])
        tuned = dataclasses.replace(self.experiment, settings=best, spent=spent, tuning=kept)
        table = pd.DataFrame(chosen)
        if not table.empty and not table[NEAREST].any():
            table = table.drop(columns=NEAREST)
        return Tuned(tuned, table, pd.DataFrame(self.rows), kept["notes"])

    def _check_seeds(self, seeds: list[int], validation: list[int]) -> None:
        used = {each.seed for each in self.experiment._all_seeds}
        if not seeds:
            raise check.refuse("seeds", seeds, "one seed at least")
        for name, several, others in (("seeds", seeds, used), ("validation", validation, used | set(seeds))):
            if clash := sorted(set(several) & others):
                raise BadInput(f"{name} = {clash}: must be seeds on which nothing else runs")

    def _run(self, plain: "Experiment", left: Mapping[Key, list[_Trial]], seeds: Sequence[int], stage: str) -> None:
        """Run the candidates of all conditions in one batch, so that no worker waits."""
        wanted = [
            (trial, dataclasses.replace(cell, method=trial.method(cell.method)))
            for cell in plain.cells(seeds)
            for trial in left.get(cell.condition, ())
        ]
        column, target = (self.metric or "").partition("@")[0], self.target
        how: dict[str, Any] = {"jobs": self.jobs, "reporter": self.reporter, "metric": column or None}
        results = plain.run_cells([cell for _, cell in wanted], self.out, **how)
        column = results._metric(column or None)
        metric = self.metric = self.metric or column
        for trial, (cell, measured) in zip((trial for trial, _ in wanted), results.cells, strict=True):
            outcome, value = measured.row["outcome"], _value(measured, column, target)
            # With a target a run counts if it reached the target, even if it died later.
            dead = (outcome in DEAD and target is None) or math.isnan(value)
            trial.scores[stage].append(math.inf if dead else value if columns.worst(column) > 0 else -value)
            self.failed += [measured.row["why"]] if outcome == FAILED else []
            about = {"candidate": trial.number, "stage": stage, "outcome": outcome, metric: value}
            values = {path: paths.brief(each) for path, each in trial.changes.items()}
            self.rows.append({**cell.columns, **about, **values})

    def _ranked(self, trials: Iterable[_Trial], stage: str) -> list[_Trial]:
        """Return candidates sorted by most survivors, then by least score."""

        def rank(trial: _Trial) -> tuple[float, float, int]:
            scores = trial.scores[stage]
            return float(np.mean(np.isinf(scores))), self._score(scores), trial.number

        return sorted(trials, key=rank)

    def _score(self, scores: Sequence[float]) -> float:
        """Return the mean or median score of the surviving runs; ∞ if none survived."""
        alive = [each for each in scores if math.isfinite(each)]
        return statistic(alive, of=self.statistic) if alive else math.inf


def _nearest(winner: _Trial, trials: Sequence[_Trial], ranges: Mapping[str, Between | OneOf]) -> str:
    """Return the candidate nearest to the winner that lost a run in any stage, and its distance; "" if none did."""

    def distance(trial: _Trial) -> float:
        both = (np.array([ranges[path].place(each.values[path]) for path in ranges]) for each in (trial, winner))
        return float(np.linalg.norm(np.subtract(*both)))

    others = [each for each in trials if each is not winner]
    apart = [(distance(each), each) for each in others if math.inf in each.scores[SEARCH] + each.scores[VALIDATION]]
    found = min((each for each in apart if not math.isnan(each[0])), key=lambda each: each[0], default=None)
    if found is None:
        return ""
    values = {path: paths.brief(value) for path, value in found[1].values.items()}
    return f"{paths.listed(values)}, at {found[0]:.2g}"


def _doubts(what: str, winner: _Trial, first: _Trial, ranges: Mapping[str, Between | OneOf]) -> Iterator[str]:
    """Yield warnings about the chosen candidate; ``first`` is the best candidate of the search."""
    alive, count = winner.survived(winner.stage)
    if alive < count:
        low, high = proportion(alive, count)
        yield (
            f"{what}: no candidate survives all {count} {winner.stage} seeds; the chosen one survives {alive} "
            f"(95 % interval of the share: {low:.0%} to {high:.0%})."
        )
    if first is not winner and (lived := first.survived(VALIDATION)[0]) < alive:
        yield f"{what}: the best of the search survives {lived} of {count} validation seeds, and is not chosen."
    for path, value in winner.values.items():
        if doubt := ranges[path].doubt(value):
            yield f"{what}: {path} = {paths.brief(value)} is {doubt}."


@dataclass(frozen=True)
class Rung:
    """A step of successive halving: the number of remaining candidates, and the seeds added for them."""

    count: int
    seeds: tuple[int, ...]


def rungs(count: int, seeds: Sequence[int]) -> list[Rung]:
    """Return the steps of successive halving: all candidates on one seed, half of them on two, and so on."""
    found: list[Rung] = []
    done = 0
    while done < len(seeds):
        upto = min(len(seeds), max(1, 2 * done))
        found.append(Rung(count, tuple(seeds[done:upto])))
        done, count = upto, -(-count // 2)
    return found


def check_apart(searched: Container[str], tried: Iterable[str]) -> None:
    """Raise BadInput if a tuned parameter also has several values in the grid."""
    for name in tried:
        if name in searched:
            raise check.refuse("over", name, "searched, or given several values, not both")


def _kept(value: Any) -> Any:
    """Return a value as tuned.json has it; an object, which text cannot restore, becomes a mapping with its digest."""
    given = plain(value_of(value))
    if isinstance(given, int | float | str | None):
        return given
    return {"object": paths.brief(given), "content": digest(content(given))}


def _ranges(
    experiment: "Experiment", over: Mapping[str, Between | OneOf | None]
) -> dict[str, dict[str, Between | OneOf | None]]:
    """Return the ranges of each method by path below it; a range for one method replaces a range for all methods."""
    found: dict[str, dict[str, Between | OneOf | None]] = {name: {} for name in experiment.methods}
    longs = [(experiment._long(path), name) for name in over for path in experiment._of(name)]
    for long, written in sorted(longs, key=lambda each: paths.ANY not in each[0]):
        range_ = over[written]
        check.instance(f"over: {written}", range_, Between | OneOf | None, "a Between or a OneOf")
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


def _admitted(
    cells: Sequence[Cell], ranges: Mapping[str, Mapping[str, Between | OneOf | None]]
) -> tuple[dict[str, dict[str, Between | OneOf]], dict[Key, dict[str, Any]], list[str]]:
    """Return the ranges by method, the starting values by condition, and notes.

    A range of None is replaced by the range that theorems admit on all cells. A class of agents may have
    ``admissible(agents, network, parameters)``, which returns for each parameter a range and a value or None.
    """
    found: dict[tuple[str, str], list[Any]] = {}
    starts: dict[Key, dict[str, Any]] = {}
    for cell in cells:
        name = cell.method_name
        if open_ones := [path for path, range_ in ranges[name].items() if range_ is None]:
            with limited_blas(1):
                setup = cell.setup()
                agents = cell.method.agents(setup)
                asked = getattr(type(next(iter(agents.values()))), "admissible", None)
                try:
                    given = {} if asked is None else asked(agents, setup.network, open_ones)
                except BadInput as error:
                    raise check.refuse("over", f"{name}.{open_ones[0]}", f"PATH={_FORM}; {error}") from None
            if not given:
                raise check.refuse("over", f"{name}.{open_ones[0]}", f"PATH={_FORM}; no theorem has a range of it")
            for path, (range_, value) in given.items():
                found.setdefault((name, path), []).append(range_)
                if value is not None:
                    starts.setdefault(cell.condition, {}).setdefault(path, value)
    filled: dict[str, dict[str, Any]] = {name: dict(own) for name, own in ranges.items()}
    notes = []
    for (name, path), several in found.items():
        low, high = max(each.low for each in several), min(each.high for each in several)
        if low >= high:
            raise check.refuse(
                "over", f"{name}.{path}", f"PATH={_FORM}; the ranges of the seeds have nothing in common"
            )
        # Exclude open ends; a search by factors cannot begin at 0.
        searched = Between(low, high) if several[0].closed else Between(max(low, high / 100), 0.99 * high, log=True)
        filled[name][path] = searched
        promise = dataclasses.replace(several[0], low=low, high=high).promise()
        notes.append(f"{name}: {path} is searched in {searched}, within {promise}.")
    return filled, starts, notes


def _candidates(
    method: str, ranges: Mapping[str, Between | OneOf], count: int, start: Mapping[str, Any] | None
) -> list[dict[str, Any]]:
    """Return a method's candidates: its own values, the starting values, then each level of each range once.

    The levels of the first parameter increase; the order of each other parameter's levels is pseudorandom, but the same
    under all conditions.
    """
    first = [{}, dict(start)] if start else [{}]
    count -= len(first)
    found: dict[str, list[Any]] = {}
    for path, each in ranges.items():
        levels, order = each.levels(count), list(range(count))
        if found:
            name = path.removeprefix("censor.").removeprefix("duals.")
            order.sort(key=lambda level: name_key(("tune", method, name, level)))
        found[path] = [levels[number] for number in order]
    return [*first, *({path: column[number] for path, column in found.items()} for number in range(count))]


def _value(measured: Measured, column: str, target: Target | None) -> float:
    """Return a run's last value of a column, or its value in the round that reaches a target; NaN without one."""
    if target is None:
        return float(measured.row.get(column, math.nan))
    rounds = measured.rounds
    if rounds.empty or measured.row["outcome"] == FAILED:
        return math.nan
    first = reached(rounds[target.column], target.level(measured.row["optimum"]))
    return math.nan if first is None else float(rounds[column].to_numpy(float)[first])
