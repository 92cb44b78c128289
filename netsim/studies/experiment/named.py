"""Methods' parameters by the names that a command line gives them: ``COKE.rho``, ``COKE.v``, ``CHOCO.coder.bits``.

``--set METHOD.PARAMETER=VALUE`` sets one, ``--over [METHOD.]PARAMETER=LOW:HIGH`` searches one. Paths of the experiment,
as ``problem.features`` or ``method.eta``, are taken in both places, too.
"""

import dataclasses
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from netsim.errors import BadInput
from netsim.studies.catalogue import Asked
from netsim.studies.experiment import paths
from netsim.studies.experiment.cells import is_of
from netsim.studies.experiment.experiment import Experiment
from netsim.studies.experiment.methods import Derived
from netsim.studies.experiment.paths import plain
from netsim.studies.experiment.tuning import Between, range_of
from netsim.studies.sweeps.grid import split
from netsim.util import check

ASK = "list"
"""The value of ``--set`` that asks for all methods and parameters; no run follows."""

PLAIN = (bool, int, float, str)
"""What a command line can give."""

_CODER = "coder"
"""The word before the parameters of a method's coder."""

_PARTS = ("censor", "duals")
_ROOTS = ("problem", "network", "networks", "method", "methods")

Known = Mapping[str, Mapping[str, Any]]
"""The parameters of each method by name, with their present values."""


def _asked(known: Known) -> Asked:
    """Return what `ASK` ends a run with; its listing has a line ``METHOD.PARAMETER=VALUE`` for each parameter."""
    names = ", ".join(f"{method} ({', '.join(values) or 'none'})" for method, values in known.items())
    listing = "\n".join(
        f"{method}.{name}={_shown(value)}" if name else f"{method}: no parameters"
        for method, values in known.items()
        for name, value in (values or {"": None}).items()
    )
    return Asked(f"set = {ASK!r}: must be METHOD.PARAMETER=VALUE, of these: {names}", listing)


def _shown(value: Any) -> str:
    """Return a value as `--set` reads it; one that has to be given has none yet."""
    return str(value).lower() if value is None or isinstance(value, bool) else str(value)


def with_set_values(experiment: Experiment, text: str) -> Experiment:
    """Return the experiment with the values of a text ``METHOD.PARAMETER=VALUE,…``; they replace tuned ones, too.

    Raises
    ------
    BadInput
        For an unknown method, parameter or path, a value of another type, or text of another form.
    Asked
        For the text "list".
    """
    known = _families(experiment)
    if text == ASK:
        now = {each: {name: _present(experiment, at) for name, at in own.items()} for each, own in known.items()}
        raise _asked(now)
    values: dict[str, Any] = {}
    form = "METHOD.PARAMETER=VALUE, several with commas between"
    for place, several in assigned([text], form).items():
        if not all(_placed(place)) or not several[0]:
            raise check.refuse("set", f"{place}={several[0]}", form)
        if len(several) > 1:
            raise BadInput(f"set = {place!r}: must have one value, not several")
        at = _paths_of(experiment, known, "set", place)
        values |= dict.fromkeys(at, typed(f"set {place}", several[0], _present(experiment, at)))
    return without_tuned(experiment.with_values(values), values)


def without_tuned(experiment: Experiment, places: Iterable[str]) -> Experiment:
    """Return the experiment without tuned values at some paths or short names: there it has values by hand."""
    given = {experiment._long(path) for place in places for path in experiment._of(place)}
    settings = {}
    for key, tuned in experiment.settings.items():
        own = [paths.ANY, *(name for name, method in experiment.methods.items() if is_of(name, method, key))]
        settings[key] = {
            path: value for path, value in tuned.items() if given.isdisjoint(f"methods.{name}.{path}" for name in own)
        }
    return dataclasses.replace(experiment, settings=settings)


def with_names(experiment: Experiment, place: str) -> Experiment:
    """Return the experiment with the short name ``METHOD.PARAMETER``, unless that is a path or a name already."""
    if place in experiment.names or place.partition(".")[0] in _ROOTS or not all(_placed(place)):
        return experiment
    return dataclasses.replace(
        experiment, names={**experiment.names, place: _paths_of(experiment, _families(experiment), "set", place)}
    )


def ranges_of(experiment: Experiment, over: Sequence[str]) -> dict[str, Between]:
    """Return the ranges that texts ``[METHOD.]PARAMETER=LOW:HIGH[:log]`` give, by path.

    One without a method is of every method that has the parameter; one of a method goes before it.

    Raises
    ------
    BadInput
        For an unknown method, parameter or path, one that holds no number, two ranges of one, or text of another form.
    """
    known, given = _families(experiment), dict[str, Between]()
    for text in over:
        place, between = range_of(text, "[METHOD.]PARAMETER")
        if place in given:
            raise check.refuse("over", f"{place}={between}", f"the only range of {place}; another is {given[place]}")
        given[place] = between
    found: dict[str, Between] = {}
    for place, between in sorted(given.items(), key=lambda each: bool(_placed(each[0])[0])):
        at = _paths_of(experiment, known, "over", place)
        for path in at:
            if isinstance(now := plain(experiment.values(path)[0]), bool | str):
                raise check.refuse("over", place, f"a number, unlike {now!r}")
        found |= dict.fromkeys(at, between)
    return found


def _families(experiment: Experiment) -> dict[str, dict[str, list[str]]]:
    """Return the paths of each method's parameters by name; methods with the same label ``family`` are variants."""
    found: dict[str, dict[str, list[str]]] = {}
    for name, method in experiment.methods.items():
        family = found.setdefault(method.label.get("family", name), {})
        for parameter, path in settable(name, method).items():
            family.setdefault(parameter, []).append(f"methods.{name}.{path}")
    return found


def _paths_of(experiment: Experiment, known: Mapping[str, Mapping[str, list[str]]], what: str, place: str) -> list[str]:
    """Return the paths that ``[METHOD.]PARAMETER``, a short name or a path stands for."""
    if place in experiment.names or place.partition(".")[0] in _ROOTS:
        return experiment._of(place)
    method, name = _placed(place)
    if method or what == "set":
        own = known[check.one_of(f"{what}: method", method, known)]
        return own[check.one_of(f"{what}: parameter of {method}", name, own)]
    found = [path for own in known.values() for path in own.get(name, [])]
    if not found:
        check.one_of(f"{what}: parameter", name, sorted({each for own in known.values() for each in own}))
    return found


def settable(name: str, method: Any) -> dict[str, str]:
    """Return the paths of a method's parameters that are numbers, switches or words, by their names.

    Parameters of a censor or of duals go by their own names, those of a coder by ``coder.bits``. A coder that the
    method's name tells has none: another one would make the name wrong.
    """
    found: dict[str, str] = {}
    names_coder = method.label.get("coder", "own") != "own" or re.search(r"\d-?bit", name) is not None
    for path, value in paths.places(method):
        first, _, rest = path.partition(".")
        if first == "weights" or (first == _CODER and names_coder):
            continue
        value = plain(value)
        if value is None or isinstance(value, (*PLAIN, Derived)):
            found.setdefault(rest if first in _PARTS and rest else path, path)
    ordered = sorted(found.items(), key=lambda each: "." in each[1])
    return {parameter: path for parameter, path in ordered if path not in (_CODER, *_PARTS)}


def _present(experiment: Experiment, at: Sequence[str]) -> Any:
    return plain(experiment.values(at[0])[0])


def assigned(texts: Sequence[str], form: str) -> dict[str, list[str]]:
    """Return the texts of values by place, of texts ``PLACE=VALUE,VALUE,PLACE=…``.

    Raises BadInput, which names the ``form``, if no place stands first.
    """
    found: dict[str, list[str]] = {}
    place = ""
    for text in filter(None, split(texts)):
        first, equals, value = (part.strip() for part in text.partition("="))
        if equals and "(" not in first:
            place, text = first, value
        elif not found:
            raise check.refuse("set", text, form)
        found.setdefault(place, []).append(text)
    return found


def _placed(text: str) -> tuple[str, str]:
    """Return the method, or "", and the parameter of ``[METHOD.]PARAMETER``.

    The parameter is what follows the last full stop, for a method's name may hold some, and with a coder's parameter
    the words "coder." before it: ``COKE.coder.bits``, and ``CHOCO.coder.coder.bits`` of the coder in a coder.
    """
    method, _, name = text.strip().rpartition(".")
    while method == _CODER or method.endswith(f".{_CODER}"):
        method, name = method[: -len(_CODER)].rstrip("."), f"{_CODER}.{name}"
    return method, name


def typed(name: str, text: str, now: Any) -> Any:
    """Return a value in the type of the present one; where that is None, as a number if it is one."""
    if isinstance(now, str):
        return text
    if isinstance(now, bool):
        if text.lower() not in ("true", "false"):
            raise check.refuse(name, text, "true or false")
        return text.lower() == "true"
    if now is None and text.lower() == "none":
        return None
    for kind in (float,) if isinstance(now, float) else (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    if now is None:
        return text
    raise check.refuse(name, text, "a number")
