"""Fair tuning: the same number of trials for each method, by successive halving, on seeds kept out of the results.

One run of the study tries one candidate of each of its methods at once, on the same data, graph and losses. A rung adds
seeds for the candidates that are left, and keeps the better half of each method's: n candidates see 1 seed, n/2 see 2,
n/4 see 4, and so on to all seeds (Jamieson and Talwalkar 2016, "Non-stochastic best arm identification and
hyperparameter optimization", with seeds as the resource). Each method's winner then runs on seeds of the validation,
and where it does not survive, the runner-up does (`netsim.studies.selection`).
"""

import itertools
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from netsim.errors import BadInput, NetsimError
from netsim.studies import catalogue
from netsim.studies.catalogue import Scenario
from netsim.studies.experiment.tuning import Between, range_of
from netsim.studies.folder import load
from netsim.studies.outcome import COLUMN as OUTCOME
from netsim.studies.outcome import DEAD
from netsim.studies.reach import Target
from netsim.studies.reserve import held, refusals
from netsim.studies.selection import (
    Rung,
    Validated,
    by_rung,
    finalist,
    mean,
    most_candidates,
    nearest_dead,
    ranked,
    rungs,
    validated,
)
from netsim.studies.sweeps.grid import grid
from netsim.studies.sweeps.sweep import Sweep, sweep
from netsim.studies.terminal import Reporter
from netsim.studies.values import ASK, Asked, Known, parsed, placed
from netsim.util import check
from netsim.util.draws import name_key
from netsim.util.files import write_whole

if TYPE_CHECKING:
    import pandas as pd

METHOD = "method"
_TAKEN = {"set", "settings", "seed"}
_PLAN, _TRIALS, _BEST = "tune.json", "tuning.csv", "tuned.json"
_VALIDATION_SEEDS = 5  # by default
_FINALISTS = 5  # of each method at most, each of which takes the validation's seeds


@dataclass(frozen=True)
class Range:
    """The range that is searched for a parameter, of one method or of all that have it (``method`` is None)."""

    method: str | None
    parameter: str
    low: float
    high: float
    log: bool = False

    @classmethod
    def of(cls, text: str) -> "Range":
        """Return the range that ``[METHOD.]PARAMETER=LOW:HIGH[:log]`` gives; raises BadInput for another form."""
        place, ends = range_of(text, "[METHOD.]PARAMETER")
        method, parameter = placed(place)
        return cls(method or None, parameter, float(ends.low), float(ends.high), ends.log)

    def levels(self, count: int, whole: bool) -> list[Any]:
        """Return evenly spaced values, as `netsim.Between` does."""
        return Between(self.low, self.high, self.log).levels(count, whole)

    def place(self, value: Any) -> float:
        """Return where a value lies, 0 at the low end and 1 at the high one; NaN of what is no number."""
        if isinstance(value, bool | str) or value is None or (self.log and value <= 0):
            return math.nan
        low, high, at = (math.log(each) if self.log else each for each in (self.low, self.high, float(value)))
        return (at - low) / (high - low)

    def __str__(self) -> str:
        return f"{self.low:g}:{self.high:g}{':log' if self.log else ''}"


@dataclass(frozen=True)
class Plan:
    """What is searched, and where: everything that the trials depend on, as tune.json has it.

    Attributes
    ----------
    scenario : str
        The study's name, or the path of its file.
    over : tuple of Range
        The ranges.
    per : tuple of str
        The study's parameters for whose values the methods are tuned apart.
    conditions : tuple of mapping
        Every combination of these values.
    fixed : mapping
        The study's other parameters that were given.
    seeds : tuple of int
        The seeds of the trials.
    metric : str
        The column of rounds.csv whose last value, as a mean over the seeds, is to be small, or COLUMN@TARGET: its value
        in the round in which the target is reached.
    budget : int
        The most runs of the search.
    validation : tuple of int
        The seeds on which winners are validated; none if they are not.
    """

    scenario: str
    over: tuple[Range, ...]
    per: tuple[str, ...]
    conditions: tuple[Mapping[str, Any], ...]
    fixed: Mapping[str, Any]
    seeds: tuple[int, ...]
    metric: str
    budget: int
    validation: tuple[int, ...] = ()

    @property
    def failed(self) -> str:
        """What a run without a value did, in words."""
        return "diverged or never reached the target" if "@" in self.metric else "diverged"

    def rungs(self) -> list[Rung]:
        """Return the steps of the halving, of as many candidates of each method as the budget allows.

        Raises BadInput if it does not suffice for two.
        """
        count = most_candidates(self.budget // len(self.conditions), self.seeds)
        if not count:
            least = sum(each.runs for each in rungs(2, self.seeds)) * len(self.conditions)
            raise BadInput(
                f"budget = {self.budget}: must be at least {least} runs, to compare two candidates on "
                f"{len(self.seeds)} seeds under {len(self.conditions)} conditions"
            )
        return rungs(count, self.seeds)


@dataclass(frozen=True)
class Tuned:
    """What tuning found.

    Attributes
    ----------
    folder : Path
        Holds ``tuning.csv``, ``tuned.json``, ``tune.json`` and the runs.
    table : DataFrame
        A row for each trial: rung, condition, method, candidate, its parameters, seed and metric; no metric if the
        method diverged. Rungs after the last of the search are validation.
    best : list of dict
        ``when``, a condition, and ``methods``, the best values by method and parameter; none if the study's own are.
    checked : list of dict
        For each of ``best``, by method: ``candidate``, ``survived`` of ``runs`` on the validation seeds,
        ``passed_over`` (better candidates that lost more runs there), and ``nearest_diverged``: the values of the
        nearest candidate that lost a run anywhere, and its ``distance`` (`netsim.studies.selection.Margin`); None if
        all survived.
    notes : list of str
        Best values at an end of their range, methods that always diverged, and the like.
    """

    folder: Path
    table: "pd.DataFrame"
    best: list[dict[str, Any]]
    notes: list[str]
    checked: list[dict[str, Any]] = field(default_factory=list)


def tune(
    scenario: str,
    *,
    over: Sequence[str],
    out: str | Path,
    per: Sequence[str] = (METHOD,),
    seeds: Sequence[int] = range(100, 105),
    budget: int = 100,
    metric: str = "train_mse",
    jobs: int = 1,
    reporter: Reporter | None = None,
    redo: bool = False,
    **parameters: Any,
) -> Tuned:
    """Search the best parameters of each method of a study, by successive halving on seeds of their own.

    Candidate 0 of each method is the study's own setting. The others are spread evenly over the ranges; with several
    parameters each takes every one of its levels once (a Latin hypercube). What is done in ``out`` is not done again.

    Parameters
    ----------
    scenario : str
        The study's name, or the path of its file. It must take ``set``, as the studies that take ``--method`` do.
    over : sequence of str
        Ranges ``[METHOD.]PARAMETER=LOW:HIGH`` or ``…:log``; without a method, of all methods that have the parameter.
    out : str or Path
        A new folder, or that of the same tuning.
    per : sequence of str
        "method", and the parameters of the study for each of whose values the methods are tuned apart.
    seeds : sequence of int
        The seeds of the trials. A run with the resulting file and one of these seeds is refused.
    budget : int
        The most runs of the study that the search may take, for all conditions together. Under each condition the
        validation adds as many as it has seeds, and as many again for each runner-up.
    metric : str
        A column of rounds.csv; its last value is to be small. "wire_bits@test_mse=0.1" or "wire_bits@test_mse=+10%":
        its value in the round from which on the error stays at or below that, or 10 % above the centralised one; so the
        bits to a target error. A run that never gets there counts as one that diverged.
    jobs : int
        Number of processes.
    redo : bool
        Rerun what ran with other code or data.
    validation : sequence of int, optional
        Other seeds, refused likewise; by default the five after the last of the trials. Each method's winner runs on
        them, and if it does not survive all, the runner-up does, up to five candidates. Empty: no validation.
    **parameters
        The study's parameters; one of ``per`` may have several values. Among them is ``validation``, above.

    Raises
    ------
    BadInput
        For an unknown parameter, method or metric, a bad range, a budget that is too small, or a folder that holds
        another tuning.
    NetsimError
        If no run ended.
    """
    study, show = catalogue.find_study(scenario), reporter or Reporter(quiet=True)
    plan = _plan(study, over, per, seeds, parameters.pop("validation", None), budget, metric, parameters)
    steps = plan.rungs()
    known = _known(study, plan)
    if plan.fixed.get("set") == ASK:
        raise Asked(known)
    ranges = _ranges(plan, known)
    folder = Path(out)
    with _held(folder, plan):
        search = _Search(plan, known, ranges, steps, folder, {"jobs": jobs, "redo": redo, "reporter": show})
        parts = [search.condition(number) for number in range(len(plan.conditions))]
        import pandas as pd

        table = pd.DataFrame(list(itertools.chain(*(part.rows for part in parts))))
        best = [{"when": dict(part.when), "methods": part.best} for part in parts]
        checked = [part.checked for part in parts]
        notes = list(dict.fromkeys(itertools.chain(_untuned(known, ranges), *(part.notes for part in parts))))
        if search.failures:
            count = len(search.failures)
            runs, verb = ("1 run", "counts") if count == 1 else (f"{count} runs", "count")
            notes.append(f"{runs} failed, and {verb} as diverged for all methods; the first: {search.failures[0]}")
        kept = {
            "scenario": plan.scenario,
            "metric": metric,
            "seeds": list(plan.seeds),
            "validation": list(plan.validation),
            "budget": plan.budget,
            "over": {method: {each.parameter: str(each) for each in own} for method, own in ranges.items()},
            "per": list(plan.per),
            "parameters": {
                name: value
                for name, value in study.prepare(**plan.fixed).settings.items()
                if name not in (*plan.per, "seed", "set", "settings")
            },
            "best": best,
            "checked": checked,
            "notes": notes,
        }
        _write(folder / _TRIALS, table.to_csv(index=False))
        _write(folder / _BEST, json.dumps(kept, indent=2) + "\n")
    for part in parts:
        show.table(f"Best settings{_at(part.when)}: mean {metric} over {len(plan.seeds)} seeds", part.shown())
    for note in notes:
        show.line(note)
    return Tuned(folder, table, best, notes, checked)


# --- one condition ----------------------------------------------------------------------------------------------------


@dataclass
class _Part:
    """What was found under one condition; ``ends`` has each method's best metric and candidate."""

    when: Mapping[str, Any]
    rows: list[dict[str, Any]]
    best: dict[str, dict[str, Any]]
    ends: dict[str, tuple[float, int]]
    notes: list[str]
    checked: dict[str, dict[str, Any]] = field(default_factory=dict)

    def shown(self) -> "pd.DataFrame":
        """Return a row for each method."""
        import pandas as pd

        rows = []
        for method, (error, candidate) in self.ends.items():
            values = _values_text(self.best.get(method, {}))
            settings = values or ("the study's own" if math.isfinite(error) else "none: all diverged")
            row = {"method": method, "settings": settings, "candidate": candidate, "mean": error}
            about = self.checked.get(method, {})
            if about.get("runs"):
                row["validated"] = f"{about['survived']}/{about['runs']}"
            near = about.get("nearest_diverged")
            row["nearest diverged"] = (
                "" if near is None else f"{_values_text(near['values'])}, at {near['distance']:.2g}"
            )
            rows.append(row)
        return pd.DataFrame(rows)


@dataclass(frozen=True)
class _Search:
    """The halving under each of a plan's conditions."""

    plan: Plan
    known: Known
    ranges: Mapping[str, Sequence[Range]]
    rungs: Sequence[Rung]
    folder: Path
    how: Mapping[str, Any]
    failures: list[str] = field(default_factory=list)
    """Why runs failed, in which no method has a value."""

    def condition(self, number: int) -> _Part:
        """Search under one condition."""
        when, count = self.plan.conditions[number], self.rungs[0].count
        candidates = {method: self._candidates(method, count) for method in self.ranges}
        left = {method: list(range(count)) for method in self.ranges}
        errors: dict[str, dict[int, list[float]]] = {m: {each: [] for each in range(count)} for m in self.ranges}
        part = _Part(when, [], {}, {}, [])
        for rung, step in enumerate(self.rungs):
            seeds = step.seeds
            left = {method: sorted(ranked(errors[method], each)[: step.count]) for method, each in left.items()}
            found = self._rung(number, f"rung-{rung}", left, candidates, seeds)
            for method, chosen in left.items():
                for place, each in enumerate(chosen):
                    for seed in seeds:
                        error = found[place, seed].get(method, math.inf)
                        errors[method][each].append(error)
                        part.rows.append(self._row(rung, when, method, each, candidates[method][each], seed, error))
        orders = {method: by_rung(errors[method]) for method in left}
        checks = self._validated(number, orders, errors, candidates, part)
        for method, check_ in checks.items():
            best = check_.candidate
            error = mean(errors[method][best])
            part.ends[method] = error, best
            if math.isfinite(error) and best:
                part.best[method] = candidates[method][best]
            elif math.isfinite(error):
                part.best[method] = {}
            part.checked[method] = self._checked(method, check_, candidates[method], errors[method])
            part.notes += self._notes(method, best, error, candidates[method], errors[method], when)
            if math.isfinite(error) and (text := check_.tell(lambda each, own=candidates[method]: _named(each, own))):  # type: ignore[misc]
                part.notes.append(f"{method}{_at(when)}: {text}.")
        return part

    def _row(
        self,
        rung: int,
        when: Mapping[str, Any],
        method: str,
        candidate: int,
        values: Mapping[str, Any],
        seed: int,
        error: float,
    ) -> dict[str, Any]:
        about = {"rung": rung, **when, METHOD: method, "candidate": candidate}
        own = {name: values.get(name) for name in self._names()}
        return about | own | {"seed": seed, self.plan.metric: error if math.isfinite(error) else None}

    def _validated(
        self,
        number: int,
        orders: Mapping[str, Sequence[int]],
        errors: Mapping[str, Mapping[int, Sequence[float]]],
        candidates: Mapping[str, Sequence[Mapping[str, Any]]],
        part: _Part,
    ) -> dict[str, Validated]:
        """Validate each method's winner, and where it does not survive its runners-up; all methods in the same runs."""
        found: dict[str, dict[int, Sequence[float]]] = {method: {} for method in orders}
        # What did not survive the search is no finalist.
        alive = {m: [each for each in order if math.isfinite(mean(errors[m][each]))] for m, order in orders.items()}
        for step in range(_FINALISTS if self.plan.validation else 0):
            chosen = {method: finalist(alive[method], found[method], _FINALISTS) for method in orders}
            left = {method: [each] for method, each in chosen.items() if each is not None}
            if not left:
                break
            ends = self._rung(number, f"validation-{step}", left, candidates, self.plan.validation)
            for method, (each,) in left.items():
                own = [ends[0, seed].get(method, math.inf) for seed in self.plan.validation]
                found[method][each] = own
                for seed, error in zip(self.plan.validation, own, strict=True):
                    values = candidates[method][each]
                    part.rows.append(self._row(len(self.rungs) + step, part.when, method, each, values, seed, error))
        return {method: validated(alive[method] or order, found[method]) for method, order in orders.items()}

    def _checked(
        self,
        method: str,
        check_: Validated,
        candidates: Sequence[Mapping[str, Any]],
        errors: Mapping[int, Sequence[float]],
    ) -> dict[str, Any]:
        """Return what the validation of a method's best settings showed, as tuned.json has it."""
        ranges, own = self.ranges[method], self.known[method]
        whole = [{each.parameter: own.get(each.parameter) for each in ranges} | dict(values) for values in candidates]
        places = {n: [each.place(values[each.parameter]) for each in ranges] for n, values in enumerate(whole)}
        margin = nearest_dead(check_.candidate, places, [errors, check_.errors], range(len(candidates)))
        near = None if margin is None else {"values": whole[margin.candidate], "distance": margin.distance}
        return {
            "candidate": check_.candidate,
            "survived": check_.survived,
            "runs": check_.runs,
            "passed_over": [dict(candidates[each]) for each in check_.passed_over()],
            "nearest_diverged": near,
        }

    def _names(self) -> list[str]:
        return list(dict.fromkeys(each.parameter for ranges in self.ranges.values() for each in ranges))

    def _candidates(self, method: str, count: int) -> list[dict[str, Any]]:
        """Return a method's candidates; the first, without values, is the study's own setting."""
        columns = {}
        for number, each in enumerate(self.ranges[method]):
            ends = each.low.is_integer() and each.high.is_integer()
            whole = ends and type(self.known[method].get(each.parameter)) is int
            levels = each.levels(count - 1, whole)
            # The first parameter rises; the order of the others is a fixed draw.
            order = range(count - 1) if number == 0 else _shuffled(count - 1, (method, each.parameter))
            columns[each.parameter] = [levels[place] for place in order]
        return [{}, *({name: values[place] for name, values in columns.items()} for place in range(count - 1))]

    def _rung(
        self,
        number: int,
        name: str,
        left: Mapping[str, Sequence[int]],
        candidates: Mapping[str, Sequence[Mapping[str, Any]]],
        seeds: Sequence[int],
    ) -> dict[tuple[int, int], dict[str, float]]:
        """Run a rung; return each method's metric by the place of its candidate and the seed."""
        size = len(next(iter(left.values())))
        texts = []
        for place in range(size):
            given = [str(self.plan.fixed["set"])] if self.plan.fixed.get("set") else []
            for method, chosen in left.items():
                values = candidates[method][chosen[place]]
                given += [f"{method}.{name}={value!r}" for name, value in values.items()]
            texts.append(",".join(given))
        when = self.plan.conditions[number]
        done = sweep(
            self.plan.scenario,
            out=self.folder / "runs" / f"condition-{number}-{name}",
            **self.how,
            **{**self.plan.fixed, **when, "set": texts, "seed": list(seeds)},
        )
        self._check_failed(done, candidates)
        read = _metrics(done, self.plan)
        return {(place, seed): read[text, seed] for place, text in enumerate(texts) for seed in seeds}

    def _check_failed(self, done: Sweep, candidates: Mapping[str, Sequence[Mapping[str, Any]]]) -> None:
        """Raise BadInput if a run failed as a method does not take a value: no other method died of that.

        What failed otherwise is kept for a note.
        """
        for why in done.failed.values():
            for method, ranges in self.ranges.items():
                for each in ranges:
                    values = [candidate.get(each.parameter) for candidate in candidates[method]]
                    if any(why.startswith(f"{each.parameter} = {value!r}: must ") for value in values):
                        raise BadInput(f"over = {method}.{each.parameter}={each}: must have values it takes; {why}")
        self.failures.extend(done.failed.values())

    def _notes(
        self,
        method: str,
        best: int,
        mean: float,
        candidates: Sequence[Mapping[str, Any]],
        errors: Mapping[int, Sequence[float]],
        when: Mapping[str, Any],
    ) -> Iterator[str]:
        at = _at(when)
        if not any(math.isfinite(error) for several in errors.values() for error in several):
            yield f"{method}{at}: all trials {self.plan.failed}; there is no best setting."
            return
        if not math.isfinite(mean):
            yield f"{method}{at}: each candidate left {self.plan.failed} on some seed; there is no best setting."
            return
        for each in self.ranges[method]:
            value, levels = candidates[best].get(each.parameter), [other[each.parameter] for other in candidates[1:]]
            ends = {min(levels): "lower", max(levels): "upper"} if len(levels) > 1 else {}
            if value is not None and value in ends:
                yield (
                    f"{method}{at}: the best {each.parameter}, {value:g}, is the {ends[value]} end of its range "
                    f"{each}; the best may lie outside."
                )
            own = self.known[method].get(each.parameter)
            if value is None and isinstance(own, int | float) and not each.low < own < each.high:
                yield f"{method}{at}: the study's own {each.parameter}, {own:g}, is best, and not inside of {each}."


def _values_text(values: Mapping[str, Any]) -> str:
    return ", ".join(
        f"{name} = {value:g}" if isinstance(value, float) else f"{name} = {value}" for name, value in values.items()
    )


def _named(candidate: int, candidates: Sequence[Mapping[str, Any]]) -> str:
    return _values_text(candidates[candidate]) or "the study's own setting"


def _shuffled(count: int, name: tuple[str, str]) -> list[int]:
    return sorted(range(count), key=lambda level: name_key(("tune", *name, level)))


def _metrics(done: Sweep, plan: Plan) -> dict[tuple[str, int], dict[str, float]]:
    """Return the metric of each method that did not diverge, by the text of ``set`` and the seed of a run."""
    metric, _, reach = plan.metric.partition("@")
    found: dict[tuple[str, int], dict[str, float]] = {}
    ran = False
    for point in done.grid.points():
        values = found[point.settings["set"], point.settings["seed"]] = {}
        if point.name in done.failed:
            continue
        place = done.folder / "points" / point.name
        summary = json.loads((place / "summary.json").read_text(encoding="utf-8"))
        if not ran:
            # A study's rounds.csv may have empty columns, for what it does not measure.
            rounds = load(place)["rounds"].select_dtypes("number")
            check.one_of("metric", metric, list(rounds.columns[rounds.notna().any()]))
            ran = True
        ends = summary["algorithms"]
        if reach:
            reached = Target.of(reach).rows(load(place)["rounds"], place).set_index("algorithm")
            ends = reached.astype(object).where(reached.notna(), None).to_dict("index")
        for method, last in ends.items():
            # Where a target is asked for, whoever reached it has a value.
            died = not reach and last.get(OUTCOME) in DEAD
            if not died and last.get(metric) is not None:
                values[method] = float(last[metric])
    if not ran:
        raise NetsimError(f"{done.folder}: no run ended; {next(iter(done.failed.values()), 'nothing ran')}")
    return found


# --- the plan ---------------------------------------------------------------------------------------------------------


def _plan(
    study: Scenario,
    over: Sequence[str],
    per: Sequence[str],
    seeds: Sequence[int],
    validation: Sequence[int] | None,
    budget: int,
    metric: str,
    given: Mapping[str, Any],
) -> Plan:
    known = {each.name: each for each in study.flags}
    if "@" in metric:
        Target.of(metric.partition("@")[2])
    for name in ("set", "seed"):
        if name not in known:
            raise BadInput(f"scenario = {study.name!r}: must take --{name}, so that its methods can be tuned")
    for name, why in (("seed", "--seeds has those of the trials"), ("settings", "they are what is searched")):
        if given.get(name) is not None:
            raise check.refuse(name, given[name], f"left out; {why}")
    if METHOD not in per:
        raise check.refuse("per", ",".join(per), "method, perhaps with parameters of the study, as method,loss")
    conditions = [
        check.one_of("per", name, [METHOD, *(each for each in known if each not in _TAKEN)])
        for name in per
        if name != METHOD
    ]
    values = grid(study, given).values
    for name, several in values.items():
        if len(several) > 1 and name in _TAKEN:
            raise check.refuse(name, list(several), "given once, several values with commas between")
        if len(several) > 1 and name not in conditions:
            raise check.refuse(name, list(several), f"one value; for several: --per {','.join([*per, name])}")
    all_of = {name: values.get(name, (known[name].default,)) for name in conditions}
    chosen = tuple(check.integer("seeds", each, low=0) for each in dict.fromkeys(seeds))
    if not chosen:
        raise BadInput("seeds = []: must be one seed at least")
    if known["seed"].default in chosen:
        raise check.refuse("seeds", list(chosen), f"other seeds than the study's own, {known['seed'].default}")
    if validation is None:
        after = range(max(chosen) + 1, max(chosen) + 2 + _VALIDATION_SEEDS)
        validation = [each for each in after if each != known["seed"].default][:_VALIDATION_SEEDS]
    later = tuple(check.integer("validation", each, low=0) for each in dict.fromkeys(validation))
    if known["seed"].default in later:
        raise check.refuse("validation", list(later), f"other seeds than the study's own, {known['seed'].default}")
    if both := sorted({*chosen} & {*later}):
        raise check.refuse(
            "validation", list(later), f"other seeds than those of the trials, which have {both[0]}, too"
        )
    return Plan(
        study.name,
        tuple(Range.of(each) for each in over),
        tuple(conditions),
        tuple(dict(zip(all_of, each, strict=True)) for each in itertools.product(*all_of.values())),
        {name: several[0] for name, several in values.items() if name not in conditions},
        chosen,
        metric,
        check.integer("budget", budget, low=1),
        later,
    )


def _known(study: Scenario, plan: Plan) -> Known:
    """Return the parameters of the study's methods, which it tells before it runs anything."""
    asked = study.prepare(**{**plan.fixed, **plan.conditions[0], "set": ASK, "seed": plan.seeds[0]})
    try:
        study.play(asked)
    except Asked as answer:
        return answer.known
    raise BadInput(f"scenario = {study.name!r}: must choose its methods by netsim.scenarios.tasks.method.chosen")


def _ranges(plan: Plan, known: Known) -> dict[str, list[Range]]:
    """Return the ranges of each method that has some; raises BadInput for one that no method has."""
    found: dict[str, dict[str, Range]] = {}
    set_already = parsed(str(plan.fixed.get("set") or ""))
    if not plan.over:
        raise BadInput("over = []: must be one range at least, as --over eta=0.01:1:log")
    places = [(each.method, each.parameter) for each in plan.over]
    if twice := [each for each, place in zip(plan.over, places, strict=True) if places.count(place) > 1]:
        given = f"{twice[0].method}.{twice[0].parameter}" if twice[0].method else twice[0].parameter
        raise check.refuse("over", f"{given}={twice[-1]}", f"the only range of {given}; another is {twice[0]}")
    # A range of one method counts before one of all.
    for each in sorted(plan.over, key=lambda one: one.method is None):
        if each.method is not None:
            check.one_of("over: method", each.method, known)
            check.one_of(f"over: parameter of {each.method}", each.parameter, known[each.method])
        elif not any(each.parameter in values for values in known.values()):
            check.one_of("over: parameter", each.parameter, sorted({name for v in known.values() for name in v}))
        for method in known if each.method is None else [each.method]:
            if each.parameter not in known[method] or (each.method is None and each.parameter in found.get(method, {})):
                continue
            now = known[method][each.parameter]
            if isinstance(now, bool | str):
                raise check.refuse("over", f"{method}.{each.parameter}", f"a number, unlike {now!r}")
            if (method, each.parameter) in set_already:
                raise check.refuse("set", f"{method}.{each.parameter}", "left out, as --over searches it")
            found.setdefault(method, {})[each.parameter] = each
    return {method: list(found[method].values()) for method in known if method in found}


def _untuned(known: Known, ranges: Mapping[str, Sequence[Range]]) -> Iterator[str]:
    without = [method for method in known if method not in ranges]
    if without:
        yield f"Not tuned, as they have none of these parameters: {', '.join(without)}."


@contextmanager
def _held(folder: Path, plan: Plan) -> Iterator[None]:
    """Lock a folder for one tuning and keep its plan there; raises BadInput if it holds anything else."""
    file, text = folder / _PLAN, json.dumps(asdict(plan), indent=2) + "\n"
    with refusals(folder):
        # A hidden file is a lock, or was being written when its process was killed.
        others = folder.exists() and [each.name for each in folder.iterdir() if not each.name.startswith(".")]
        if others and not file.is_file():
            raise BadInput(f"out = {str(folder)!r}: must be a new or empty folder, or that of this tuning")
        if file.is_file() and file.read_text(encoding="utf-8") != text:
            raise BadInput(f"out = {str(folder)!r}: must be a new folder; it holds another tuning ({_PLAN})")
    with held(folder, "tuning"):
        if not file.is_file():
            _write(file, text)
        yield


def _write(path: Path, text: str) -> None:
    with refusals(path.parent), write_whole(path) as file:
        file.write(text.encode())


def _at(when: Mapping[str, Any]) -> str:
    return "".join(f" at {name} {value}" for name, value in when.items())
