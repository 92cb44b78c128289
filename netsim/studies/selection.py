"""Selection among candidates: survivors first, then the mean error; and validation of what was selected on new seeds.

A search on few seeds may choose a step that happens to survive on these: the best step is often the largest that does.
So the winner runs on further seeds, and where it does not survive all of them the runner-up does. Nothing here runs
anything: a caller gives errors, ∞ of a run that did not survive (`netsim.studies.outcome`).
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from netsim.studies.outcome import share_text

Errors = Mapping[int, Sequence[float]]
"""The errors of each candidate, by its number: one for each seed; ∞ where the run did not survive."""


@dataclass(frozen=True)
class Rung:
    """A step of halving: how many candidates are left, and the seeds that are new to them."""

    count: int
    seeds: tuple[int, ...]

    @property
    def runs(self) -> int:
        """How many runs it takes."""
        return self.count * len(self.seeds)


def rungs(count: int, seeds: Sequence[int]) -> list[Rung]:
    """Return the steps of successive halving: all candidates on one seed, half of them on two, and so on to all."""
    found: list[Rung] = []
    done = 0
    while done < len(seeds):
        upto = min(len(seeds), max(1, 2 * done))
        found.append(Rung(count, tuple(seeds[done:upto])))
        done, count = upto, -(-count // 2)
    return found


def most_candidates(budget: int, seeds: Sequence[int]) -> int:
    """Return the largest number of candidates, 2 or more, whose halving takes no more runs than a budget; else 0."""
    count = 1
    while sum(each.runs for each in rungs(count + 1, seeds)) <= budget:
        count += 1
    return count if count > 1 else 0


def mean(errors: Sequence[float]) -> float:
    """Return the mean of a candidate's errors, ∞ if one of its runs did not survive; 0 of none."""
    return math.fsum(errors) / len(errors) if errors else 0.0


def survived(errors: Sequence[float]) -> int:
    """Return how many runs of a candidate survived."""
    return sum(math.isfinite(each) for each in errors)


def ranked(errors: Errors, candidates: Sequence[int]) -> list[int]:
    """Return candidates from the best to the worst: those with most survivors first, then those of the least mean.

    The mean is that of the survivors, which ranks those that lost a run among themselves. Of equal ones the one with
    the smaller number comes first.
    """

    def key(candidate: int) -> tuple[int, float, int]:
        alive = [each for each in errors[candidate] if math.isfinite(each)]
        return len(errors[candidate]) - len(alive), mean(alive) if alive else math.inf, candidate

    return sorted(candidates, key=lambda each: key(each) if errors[each] else (0, 0.0, each))


def by_rung(errors: Errors) -> list[int]:
    """Return all candidates of a halving from best to worst: those that came furthest first, each rung ranked."""
    order: list[int] = []
    for count in sorted({len(each) for each in errors.values()}, reverse=True):
        order += ranked(errors, [each for each, some in errors.items() if len(some) == count])
    return order


@dataclass(frozen=True)
class Validated:
    """What validation chose.

    Attributes
    ----------
    candidate : int
        The one that is taken.
    errors : dict
        The validation errors of each finalist that ran, in their order.
    """

    candidate: int
    errors: Errors

    @property
    def survived(self) -> int:
        """How many of its validation runs the chosen one survived."""
        return survived(self.errors.get(self.candidate, ()))

    @property
    def runs(self) -> int:
        """How many validation runs it had."""
        return len(self.errors.get(self.candidate, ()))

    def passed_over(self) -> list[int]:
        """Return the finalists that ranked before the chosen one and lost more runs."""
        order = list(self.errors)
        before = order[: order.index(self.candidate)] if self.candidate in order else []
        return [each for each in before if survived(self.errors[each]) < self.survived]

    def tell(self, name: Callable[[int], str]) -> str:
        """Return in a sentence what validation changed, or that nobody survived; empty if the winner stays.

        ``name`` returns a candidate in words.
        """
        losers = [f"{name(each)} {share_text(survived(self.errors[each]), self.runs)}" for each in self.passed_over()]
        text = ""
        if losers:
            text = f"on the validation seeds {', '.join(losers)} did not survive all runs; the runner-up is taken"
        if self.survived < self.runs:
            own = f"{name(self.candidate)} {share_text(self.survived, self.runs)}"
            text = f"no candidate survives all validation seeds; the one with most survivors is taken, {own}"
        return text


def finalist(order: Sequence[int], errors: Errors, most: int) -> int | None:
    """Return the candidate to validate next; None if one has survived all its runs, or ``most`` have run.

    Parameters
    ----------
    order : sequence of int
        Candidates from the best to the worst, by the search (`ranked`).
    errors : mapping
        The validation errors so far.
    """
    if any(len(each) == survived(each) for each in errors.values()):
        return None
    return next((each for each in order[:most] if each not in errors), None)


def validated(order: Sequence[int], errors: Errors) -> Validated:
    """Return the first finalist that survived all its validation runs; if none did, the first with most survivors."""
    ran = {each: tuple(errors[each]) for each in order if each in errors}
    if not ran:
        return Validated(order[0], {})
    return Validated(max(ran, key=lambda each: (survived(ran[each]), -order.index(each))), ran)


@dataclass(frozen=True)
class Margin:
    """How far the chosen candidate is from the nearest one that lost a run.

    Attributes
    ----------
    candidate : int
        That one.
    distance : float
        Euclidean, each parameter's range as 1, of its logarithm where it was searched so.
    """

    candidate: int
    distance: float


def nearest_dead(
    chosen: int, places: Mapping[int, Sequence[float]], errors: Sequence[Errors], search: Sequence[int]
) -> Margin | None:
    """Return the candidate nearest to the chosen one that did not survive all its runs; None if all did.

    Parameters
    ----------
    places : mapping
        Where each candidate lies in each parameter's range: 0 at its low end, 1 at its high end; NaN if not known.
    errors : sequence of mapping
        Those of the search and those of the validation.
    search : sequence of int
        The candidates.
    """
    dead = [
        each
        for each in search
        if each != chosen and any(len(some.get(each, ())) > survived(some.get(each, ())) for some in errors)
    ]
    here = np.asarray(places[chosen], dtype=np.float64)
    found = [Margin(each, float(np.linalg.norm(np.asarray(places[each], dtype=np.float64) - here))) for each in dead]
    found = [each for each in found if not math.isnan(each.distance)]
    return min(found, key=lambda each: (each.distance, each.candidate), default=None)
