"""The branches of a lab, and ways to repeat them.

A branch is the same run with additional faults, or with another order of simultaneous steps.
"""

import math
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from netsim.clock.order import Order as InstantOrder
from netsim.errors import BadInput
from netsim.faults.words import Order, joined
from netsim.studies.catalogue import Parameter, flag, run_command
from netsim.util import check

__all__ = ["Branch", "Source", "Tree", "exact", "shortened", "text_of", "told"]

MOST = 200
"""Branches that a lab has at most."""

MOST_TOLD = 200
"""Changes of order of a run that a page tells at most."""

MOST_CHARACTERS = 100_000
"""Characters that a text may have: a partition of a large network is long."""

# Most characters of an error that a page shows.
_MOST_SHOWN = 1000

# The largest integer up to which JavaScript is exact, because its numbers are floats.
_EXACT = 2**53 - 1

# A number in a field of the page. The exponent is limited: a longer one would exhaust memory, or take minutes.
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d{1,3})?", re.ASCII | re.IGNORECASE)


@dataclass
class Branch:
    """A run of a lab, with its faults and its order.

    Attributes
    ----------
    number, parent : int
        The branch's number, and the number of the branch from which it starts; the main run's parent is −1.
    at : str
        The branch's faults as text, including those of its parent.
    order : str
        The order of an agent's steps at equal times: a seed, or text; "" for asyncio's order.
    name : str
        The name of the action that made the branch, with its time.
    since : float
        When the branch departs from its parent, in seconds.
    state : str
        "waiting", "running", "done", "failed" or "cancelled".
    edition : int
        How often the branch was simulated.
    result : dict or None
        The value returned by the simulation.
    """

    number: int
    parent: int
    at: str
    order: str
    name: str
    since: float
    state: str = "waiting"
    progress: str = ""
    error: str = ""
    edition: int = 0
    result: dict[str, Any] | None = field(default=None, repr=False)


@dataclass(frozen=True)
class Source:
    """The code of a lab: a study's name or a file's path, with parameters; and ways to repeat its branches."""

    study: str
    parameters: tuple[Parameter, ...]

    def command(self, settings: Mapping[str, Any], at: str, order: str) -> str:
        """Return the command that repeats a branch."""
        return " ".join([run_command(self.study, self._changed(settings)), *_at(at), *_order(order)])

    def sweep(self, settings: Mapping[str, Any], at: str, order: str) -> str:
        """Return the command of a sweep whose first point is the branch, with further seeds."""
        seed = settings.get("seed")
        # In a user's file the seed may be a text or None, which has no range.
        varied = [f"--seed {seed}:{seed + 20}"] if isinstance(seed, int) and not isinstance(seed, bool) else []
        given = {name: value for name, value in self._changed(settings).items() if name != "seed" or not varied}
        words = ["netsim sweep", shlex.quote(self.study), *(flag(name, value) for name, value in given.items())]
        words += ["--at", shlex.quote(at)] if at else []
        words += _order(order)
        return " ".join([*words, *varied, "--out", "sweeps/lab"])

    def script(self, settings: Mapping[str, Any], at: str, order: str, name: str, trace_hash: str) -> str:
        """Return a Python script that repeats a branch, and fails if its run differs."""
        given = self._changed(settings) | ({"at": at} if at else {}) | ({"order": order} if order else {})
        values = [f"{key}={_literal(value)}" for key, value in given.items()]
        return (
            f'"""{_plain(self.study)}: {_plain(name)}. {_plain(self.command(settings, at, order))}"""\n\n'
            "from netsim.studies import find_study\n\n"
            f"study = find_study({self.study!r}).execute(\n    {', '.join(['trace=True', *values])}\n)\n"
            f'assert study.trace_hash == "{trace_hash}", study.trace_hash\n'
            'print(study.rounds.groupby("algorithm").last())\n'
        )

    def checked(self, name: str, value: Any) -> Any:
        """Return a setting in the study's type; raises BadInput for an invalid one.

        None and "" come from an empty field, and mean the default, as for a command without the flag. A number may be
        given as text, because JavaScript's integers are exact to 53 bits only.
        """
        known = {each.name: each for each in self.parameters}
        parameter = known[check.one_of("setting", name, known)]
        if value is None or value == "":
            return parameter.default
        if parameter.kind is bool:
            check.instance(name, value, bool, "true or false")
            return value
        if parameter.kind is str:
            return text_of(name, value, "text")
        found = _number(value)
        if parameter.kind is int:
            if found is None or found != int(found):
                raise check.refuse(name, value, "a whole number")
            return int(found)
        if found is None or not math.isfinite(float(found)):
            raise check.refuse(name, value, "a number")
        return float(found)

    def _changed(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        usual = {each.name: each.default for each in self.parameters}
        return {name: value for name, value in settings.items() if value != usual[name] and value is not None}


def text_of(name: str, value: Any, what: str) -> str:
    """Return a text if a command line can contain it; raises BadInput for any other value."""
    if not isinstance(value, str) or len(value) > MOST_CHARACTERS or "\0" in value:
        raise check.refuse(name, value, f"{what} of at most {MOST_CHARACTERS:,} characters, none of them NUL")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise check.refuse(name, value, f"{what} in Unicode, without halves of surrogate pairs") from None
    return value


def shortened(error: str) -> str:
    """Return an error shortened for a page, because it may repeat a long input."""
    return error if len(error) <= _MOST_SHOWN else f"{error[: _MOST_SHOWN // 2]} … {error[-_MOST_SHOWN // 2 :]}"


def exact(value: Any) -> Any:
    """Return a value for JSON; an integer that JavaScript would round becomes a text."""
    return str(value) if isinstance(value, int) and abs(value) > _EXACT else value


def _number(value: Any) -> Decimal | None:
    """Return a number, or a text that is one, as an exact Decimal; None for anything else."""
    if isinstance(value, str):
        return Decimal(value) if len(value) < 1000 and _NUMBER.fullmatch(value) else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return None if isinstance(value, float) and not math.isfinite(value) else Decimal(value)


def _literal(value: Any) -> str:
    """Return a setting as a Python literal."""
    return f"float('{value}')" if isinstance(value, float) and not math.isfinite(value) else repr(value)


def _at(at: str) -> list[str]:
    return [word for text in at.split("; ") if text for word in ("--at", shlex.quote(text))]


def _order(order: str) -> list[str]:
    return ["--order", shlex.quote(order)] if order else []


def _plain(text: str) -> str:
    return text.replace("\\", "/").replace('"', "'")


class Tree:
    """The branches of a lab, in order of creation; the first is the main run, which has no faults."""

    def __init__(self, source: Source, settings: Mapping[str, Any]) -> None:
        self.source = source
        self.settings = {each.name: each.default for each in source.parameters} | dict(settings)
        self.branches = {0: Branch(0, -1, "", "", "main run", 0.0)}
        self._made = 1

    def get(self, number: Any) -> Branch:
        """Return a branch; raises BadInput if no branch has this number."""
        # Exclude bool, because True would be number 1.
        found = self.branches.get(number) if isinstance(number, int) and not isinstance(number, bool) else None
        if found is None:
            raise check.refuse("branch", number, f"one of {', '.join(map(str, self.branches))}")
        return found

    def grow(self, parent: Branch, text: str) -> Branch:
        """Return the child of a branch with an additional fault, given as text; an existing child is reused.

        The text "order", followed by a seed or an order (`netsim.testing.Order.parse`), sets the child's order instead.
        """
        first, _, rest = text.strip().partition(" ")
        if first == "order":
            if any(each.name == first for each in self.source.parameters):
                raise BadInput("order: must be left to the study, which has a parameter of that name")
            return self._branch(parent, parent.at, *_ordered(rest))
        order = Order.of(text)
        at = joined([parent.at, order.text] if parent.at else order.text)
        return self._branch(parent, at, parent.order, _named(order), order.at)

    def _branch(self, parent: Branch, at: str, order: str, name: str, since: float) -> Branch:
        for each in self.branches.values():
            if (each.at, each.order) == (at, order):
                return each
        if len(self.branches) >= MOST:
            raise BadInput(f"branches = {MOST + 1}: must be at most {MOST}; delete some")
        branch = Branch(self._made, parent.number, at, order, name, since)
        self.branches[branch.number] = branch
        self._made += 1
        return branch

    def delete(self, branch: Branch) -> None:
        """Delete a branch and its descendants; raises BadInput for the main run."""
        if branch.parent < 0:
            raise check.refuse("branch", branch.number, "another one than the main run")
        for each in [each for each in self.branches.values() if each.parent == branch.number]:
            self.delete(each)
        self.branches.pop(branch.number, None)

    def again(self) -> None:
        """Mark all branches as waiting, so that they are simulated again."""
        for branch in self.branches.values():
            branch.state, branch.progress, branch.error, branch.result = "waiting", "", "", None

    def waiting(self, first: int) -> Branch | None:
        """Return the next branch to simulate; the branch with number ``first`` takes precedence."""
        chosen = [each for each in self.branches.values() if each.state == "waiting"]
        return next((each for each in chosen if each.number == first), chosen[0] if chosen else None)

    def request(self, branch: Branch) -> dict[str, Any]:
        """Return the arguments of `netsim.studies.laboratory.worker.simulate` for a branch."""
        settings, command = dict(self.settings), self.source.command(self.settings, branch.at, branch.order)
        how = {"at": branch.at, "order": branch.order, "command": command}
        return {"study": self.source.study, "settings": settings, **how}

    def take(self, branch: Branch, result: dict[str, Any]) -> None:
        """Store the result of a branch's simulation."""
        branch.result, branch.error, branch.edition = result, result["error"], branch.edition + 1
        branch.state = "failed" if branch.error else "done"

    def as_dict(self) -> dict[str, Any]:
        """Return the page's data on all branches, without their runs."""
        settings = {name: exact(value) for name, value in self.settings.items()}
        return {"settings": settings, "branches": [self._row(each) for each in self.branches.values()]}

    def _row(self, branch: Branch) -> dict[str, Any]:
        result = branch.result or {"runs": [], "hash": "", "words": []}
        how = self.settings, branch.at, branch.order
        return {name: value for name, value in vars(branch).items() if name != "result"} | {
            "hash": result["hash"],
            "runs": [{key: run[key] for key in ("name", "hash", "last")} for run in result["runs"]],
            "words": result["words"],
            "command": self.source.command(*how),
            "sweep": self.source.sweep(*how),
            "script": self.source.script(*how, branch.name, result["hash"]),
        }


def _named(order: Order) -> str:
    """Return the name of a branch with this fault: the fault, its target, and its time."""
    by = "" if order.by is None else f" by {order.by:g} s"
    by += "".join(f" {name} {value:g}" for name, value in order.to)
    words = {"lose": "lose next frame"}.get(order.what, order.what)
    target = order.target.replace("-", "–") if order.what in ("cut", "heal", "lose", "change") else order.target
    return f"{words} {target}{by} at {order.at:g} s"


def _ordered(text: str) -> tuple[str, str, float]:
    """Return an order as stored in a branch, the branch's name, and when (s) it departs from its parent."""
    order = InstantOrder.parse(text)
    order.must_fit()
    if order.seed is not None:
        return str(order.seed), f"order {order.seed}", 0.0
    if not order.schedule:
        raise check.refuse("order", text, "a seed, or words of an order")
    first = min(each.time for each in order.schedule)
    return "; ".join(map(str, order.schedule)), f"order changed at {first:g} s", first


def told(order: InstantOrder | None) -> list[str]:
    """Return as texts how the last ordered run differs from asyncio's order; a long list is truncated."""
    changes = [] if order is None else [str(each) for each in order.again().schedule]
    return changes[:MOST_TOLD] + ([f"and {len(changes) - MOST_TOLD:,} more"] if len(changes) > MOST_TOLD else [])
