"""Consistent names: a public name has one meaning, and the same kind of parameter has the same name everywhere."""

import importlib
import inspect
import re
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import netsim

ROOMS = {
    **{name: getattr(netsim, name) for name in netsim.__all__ if inspect.ismodule(getattr(netsim, name))},
    "agents.classics": importlib.import_module("netsim.agents.classics"),
    "studies.experiment": importlib.import_module("netsim.studies.experiment"),
}

# Public names that several rooms (subpackages) define, with the meaning in each.
TWICE = {
    "compare": "runs side by side: as a page, and as a table",
    "correlated": "a model with memory: of losses, and of delays",
    "lora": "a preset of links and radios, and the error rate of its modulation, as oqpsk and fsk are",
    "of": "a model of what a parameter takes: of losses, and of delays",
    "read": "a file of what the room holds",
    "register": "tells the wire a type: of a coder, and of any payload; in checkers a register, the data type",
    "trace": "recorded losses, and recorded delays",
}

# Parameter names that must not occur, and the name to use instead.
OTHERWISE = {
    **dict.fromkeys(("begins", "begin_s", "start_time"), "at"),
    **dict.fromkeys(("ends_at", "end_time", "stop"), "until"),
    **dict.fromkeys(("speedup", "realtime_factor"), "pace"),
    **dict.fromkeys(("tries", "max_tries"), "attempts"),
    **dict.fromkeys(("transmit_power", "tx_power"), "transmit_dbm, or power_dbm"),
    **dict.fromkeys(("filename", "file_name"), "path"),
    **dict.fromkeys(("directory", "dir"), "folder"),
    **dict.fromkeys(("processes", "n_jobs"), "jobs of a sweep, or workers of a network"),
    **dict.fromkeys(("scenario", "experiment_name"), "study"),
    **dict.fromkeys(("random_state", "rng_seed"), "seed"),
}

# How the annotation of each of these parameters must begin.
ANNOTATED = {
    "at": "float",
    "attempts": "int",
    "every": "int",
    "folder": r"str \| Path|Path",
    "jobs": "int",
    "one_way": "bool",
    "pace": "float",
    "path": r"str \| Path",
    "period": "float",
    "position": r"tuple\[float|Sequence\[float|object",
    "rounds": r"int|bool",
    "sample": "float",
    "seed": r"int|Seeds",
    "seeds": r"Sequence\[|Iterable\[|Seeds",
    "until": "float",
    "workers": "int",
}
# Exceptions, in which the name has a different meaning: a dotted path, a chain of generals, round numbers of rows.
APART = {
    "Ending.judge: rounds",
    "OralMessages.decide: path",
    "OralMessages.tell: path",
    "Traitor.tell: path",
    "vary: path",
}
# The seed is the main argument here: an order is made from it, and a run of an experiment is identified by it.
SEED_BY_PLACE = {"Order", "Experiment.play"}


def public() -> Iterator[tuple[str, str, Any]]:
    """Yield each public name: the room, the name, and the object."""
    for room, module in ROOMS.items():
        own = [name for name, found in vars(module).items() if getattr(found, "__module__", "") == module.__name__]
        for name in getattr(module, "__all__", own):
            if not name.startswith("_"):
                yield room, name, getattr(module, name)


def parameters() -> Iterator[tuple[str, inspect.Parameter]]:
    """Yield the parameters of public functions, classes and methods, each with the name of its function or class."""
    for name, found in {id(found): (name, found) for _, name, found in public()}.values():
        members = {name: found}
        if inspect.isclass(found):
            members |= {f"{name}.{each}": member for each, member in vars(found).items() if not each.startswith("_")}
        for where, member in members.items():
            function = getattr(member, "__func__", member)
            if inspect.isfunction(function) or inspect.isclass(function):
                try:
                    signature = inspect.signature(function)
                except ValueError:  # some types written in C have no signature
                    continue
                yield from ((where, parameter) for parameter in signature.parameters.values())


def test_a_public_name_stands_for_one_thing() -> None:
    rooms = defaultdict[str, dict[int, str]](dict)
    for room, name, found in public():
        rooms[name].setdefault(id(found), room)
    assert {name for name, those in rooms.items() if len(those) > 1} == set(TWICE)


def test_a_parameter_has_one_name() -> None:
    assert [(where, each.name, OTHERWISE[each.name]) for where, each in parameters() if each.name in OTHERWISE] == []


def test_a_name_of_a_parameter_means_one_thing() -> None:
    apart = {}
    for where, each in parameters():
        if each.name in ANNOTATED and each.annotation is not each.empty:
            kind = each.annotation
            text = kind.__name__ if inspect.isclass(kind) else str(kind)
            if not re.match(ANNOTATED[each.name], re.sub(r"\b(collections\.abc|typing|pathlib)\.", "", text)):
                apart[f"{where}: {each.name}"] = text
    assert apart.keys() == APART, apart


def test_a_seed_is_given_by_name() -> None:
    by_place = {
        where
        for where, each in parameters()
        if each.name == "seed" and each.default is not each.empty and each.kind is not each.KEYWORD_ONLY
    }
    assert by_place == SEED_BY_PLACE
