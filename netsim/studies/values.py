"""Values for the parameters of a study's methods: ``--set METHOD.PARAMETER=VALUE``, and the file of `netsim tune`."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from netsim.errors import BadInput
from netsim.util import check
from netsim.util.datafiles import used

if TYPE_CHECKING:
    from netsim.studies.study import Study

ASK = "list"
"""The value of ``--set`` that asks for all methods and parameters; no run follows."""

_CODER = "coder"
"""The word before the parameters of a method's coder: ``coder.bits``."""

# What chooses methods, and what a file of settings or a command line gives on purpose; their values may differ.
_MAY_DIFFER = ("algorithms", "methods", "method", "set", "settings", "seed", "jobs", "folder")

Known = Mapping[str, Mapping[str, Any]]
"""The parameters of each method by name, with their present values."""


class Asked(BadInput):
    """What `ASK` ends a run with: as an error it names the methods and parameters, ``known``, in a line.

    The command line prints `listing` instead.
    """

    def __init__(self, known: Known) -> None:
        super().__init__(f"set = {ASK!r}: must be METHOD.PARAMETER=VALUE, of these: {names_of(known)}")
        self.known = known

    def listing(self) -> str:
        """Return a line ``METHOD.PARAMETER=VALUE`` for each parameter, with its present value."""
        return "\n".join(
            f"{method}.{name}={_shown(value)}" if name else f"{method}: no parameters"
            for method, values in self.known.items()
            for name, value in (values or {"": None}).items()
        )


def _shown(value: Any) -> str:
    """Return a value as `--set` reads it; one that has to be given has none yet."""
    return str(value).lower() if value is None or isinstance(value, bool) else str(value)


def names_of(known: Known) -> str:
    """Return the methods, each with its parameters."""
    return ", ".join(f"{method} ({', '.join(values) or 'none'})" for method, values in known.items())


def values_of(study: "Study", known: Known, given: str | None = None) -> dict[str, dict[str, Any]]:
    """Return the values that a study's parameters ``set`` and ``settings`` give, by method and parameter.

    A value of ``set``, or of ``given`` in its place, replaces one of ``settings``.

    Raises
    ------
    BadInput
        For an unknown method or parameter, a value of another type, a file that `netsim tune` did not write, a
        condition that was not tuned, or a seed that was used for tuning.
    """
    text, file = study.settings.get("set") or "" if given is None else given, study.settings.get("settings")
    if (text or file) and {"tune", "step"} <= study.settings.keys() and study.settings["tune"]:
        # Of online studies --tune chooses step sizes, and not the bandwidth only.
        raise BadInput("tune = True: must go without --set and --settings, whose step sizes it would replace")
    if text == ASK:
        raise Asked(known)
    found: dict[str, dict[str, Any]] = {} if file is None else _tuned(study, file, known)
    for (method, name), value in parsed(text).items():
        check.one_of("set: method", method, known)
        check.one_of(f"set: parameter of {method}", name, known[method])
        found.setdefault(method, {})[name] = typed(f"set {method}.{name}", value, known[method][name])
    return found


def parsed(text: str) -> dict[tuple[str, str], str]:
    """Return the texts of ``METHOD.PARAMETER=VALUE,…`` by method and parameter; raises BadInput for another form."""
    found: dict[tuple[str, str], str] = {}
    for part in filter(None, (each.strip() for each in text.split(","))):
        place, equals, value = part.partition("=")
        method, name = placed(place)
        if not (equals and method and name and value.strip()):
            raise check.refuse("set", part, "METHOD.PARAMETER=VALUE, several with commas between")
        if (method, name) in found:
            raise BadInput(f"set = {f'{method}.{name}'!r}: must have one value, not several")
        found[method, name] = value.strip()
    return found


def placed(text: str) -> tuple[str, str]:
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


# --- the file of best settings ----------------------------------------------------------------------------------------


def tuned_for(files: str, settings: Mapping[str, Any]) -> tuple[str, dict[str, Any], dict[str, dict[str, Any]]]:
    """Return the first of some files of best settings that is for a run's condition: its name, all of it, its values.

    Parameters
    ----------
    files : str
        Paths with commas between.
    settings : mapping
        The run's parameters.

    Raises
    ------
    BadInput
        For a file that `netsim tune` did not write, a seed on which one was tuned, or a condition that none is for.
    """
    names = [each.strip() for each in files.split(",")]
    every = [(name, _read(name)) for name in names]
    for name, tuned in every:
        for what, seeds in (("chosen", tuned["seeds"]), ("validated", tuned.get("validation", []))):
            if (seed := settings.get("seed")) in seeds:
                raise BadInput(
                    f"seed = {seed}: must be none on which the settings of {name} were {what} ({_listed(seeds)})"
                )
    for name, tuned in every:
        here = {each: settings.get(each) for each in tuned["per"]}
        for each in tuned["best"]:
            if each["when"] == here:
                return name, tuned, each["methods"]
    wanted = {each: settings.get(each) for _, tuned in every for each in tuned["per"]}
    there = "; ".join(dict.fromkeys(_condition(each["when"]) for _, tuned in every for each in tuned["best"]))
    raise BadInput(f"settings = {files!r}: must be tuned for {_condition(wanted)}; it is for {there}")


def _tuned(study: "Study", files: str, known: Known) -> dict[str, dict[str, Any]]:
    """Return the values of a file for a study's condition, of the methods that it runs; notes what the file lacks."""
    file, tuned, found = tuned_for(files, study.settings)
    study.note(*_doubts(study, file, tuned, [name for name in known if name not in found]))
    _record(study, file, tuned, [name for name in known if name in found])
    best: dict[str, dict[str, Any]] = {}
    for method in known.keys() & found.keys():
        for name, value in found[method].items():
            if name not in known[method]:
                raise BadInput(f"settings = {file!r}: must be of methods as they are now; {method} has no {name}")
            best.setdefault(method, {})[name] = value
    return best


def _record(study: "Study", file: str, tuned: Mapping[str, Any], methods: Sequence[str]) -> None:
    """Record in the study's settings.json how its methods were tuned: the file may be gone when somebody asks."""
    kept = {name: tuned[name] for name in ("seeds", "validation", "metric", "budget", "per") if name in tuned}
    over = {name: each for name, each in tuned.get("over", {}).items() if name in methods}
    study.origin["tuning"] = {"file": file, "methods": list(methods), "over": over, **kept}
    seeds = [f"seeds {_listed(tuned['seeds'])}"]
    seeds += [f"validated on {_listed(tuned['validation'])}"] if tuned.get("validation") else []
    searched = {f"{parameter} in {text}" for own in over.values() for parameter, text in own.items()}
    runs = [f"{tuned['budget']} runs at most"] if "budget" in tuned else []
    least = [f"least {tuned['metric']}"] if "metric" in tuned else []
    if methods:
        how = "; ".join([*sorted(searched), *runs, *seeds, *least])
        study.note(f"Settings of {', '.join(methods)} from {file}: {how}.")


def _read(file: str) -> dict[str, Any]:
    try:
        tuned = json.loads(used(Path(file)).read_text(encoding="utf-8"))
        if all(name in tuned for name in ("scenario", "parameters", "seeds", "per", "best")):
            return dict(tuned)
        why = "a part is missing"
    except (OSError, ValueError, TypeError) as error:
        why = (error.strerror if isinstance(error, OSError) else None) or "it is no JSON"
    raise BadInput(f"settings = {file!r}: must be a tuned.json that netsim tune wrote ({why})")


def _doubts(study: "Study", file: str, tuned: Mapping[str, Any], untuned: Sequence[str]) -> Iterator[str]:
    """Yield notes on what of a file of settings does not fit."""
    if untuned:
        yield f"Not in {file}, and so with the study's own settings: {', '.join(untuned)}."
    given = tuned["parameters"]
    others = [
        f"{name} = {given[name]} (here {value})"
        for name, value in study.settings.items()
        if name in given and name not in (*_MAY_DIFFER, *tuned["per"]) and given[name] != value
    ]
    if others:
        yield f"The settings of {file} were chosen with {', '.join(others)}."


def _condition(when: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} = {value}" for name, value in when.items()) or "any condition"


def _listed(seeds: Sequence[int]) -> str:
    whole = len(seeds) > 2 and list(seeds) == list(range(seeds[0], seeds[0] + len(seeds)))
    return f"{seeds[0]} to {seeds[-1]}" if whole else ", ".join(map(str, seeds))
