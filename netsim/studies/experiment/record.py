"""The content of experiment.json: parts with their values by condition, versions, tuning."""

import ast
import dataclasses
import hashlib
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from netsim.studies.experiment import paths
from netsim.studies.experiment.cells import METHOD, SEED, Cell
from netsim.studies.experiment.content import digest, is_users
from netsim.studies.experiment.networks import Links
from netsim.studies.experiment.paths import value_of
from netsim.studies.experiment.results import Results

if TYPE_CHECKING:
    from netsim.studies.experiment.experiment import Experiment


def record(experiment: "Experiment", results: Results) -> dict[str, Any]:
    """Return an experiment's metadata besides its results."""
    kinds = {name: getattr(method, "kind", None) for name, method in experiment.methods.items()}
    return {
        "paths": dict(experiment.paths()[["path", "value"]].itertuples(index=False, name=None)),
        "cells": {cell.key: {name: str(value) for name, value in cell.columns.items()} for cell, _ in results.cells},
        "conditions": _conditions(results),
        "seeds": list(dict.fromkeys(cell.seeds.text for cell, _ in results.cells)),
        "rounds": sorted({cell.rounds for cell, _ in results.cells}),
        "until": experiment.until,
        "goals": list(experiment.goals),
        "ending": dataclasses.asdict(experiment.ending),
        "settings": {
            ", ".join(key): {path: paths.brief(value_of(value)) for path, value in values.items()}
            for key, values in experiment.settings.items()
        },
        "spent": sorted(experiment.spent),
        "tuning": experiment.tuning,
        "papers": {name: [cited] for name, kind in kinds.items() if (cited := getattr(kind, "citation", str)())},
        "own": [name for name, kind in kinds.items() if kind is not None and is_users(kind)],
        "versions": list({digest(found.about): found.about for _, found in results.cells if found.about}.values()),
        "files": {name: sha for _, found in results.cells for name, sha in found.read.items()},
    }


def title_of_toml(text: str) -> str:
    """Return the comment in the first line of a TOML file, if any."""
    first = text.lstrip().partition("\n")[0]
    return first.strip("# ") if first.startswith("#") else ""


def of_file(file: Path) -> dict[str, Any]:
    """Return the name of the file that defines an experiment, its title, and its SHA-256."""
    source = file.read_bytes()
    if file.suffix == ".toml":
        title = title_of_toml(source.decode(errors="replace"))
    else:
        title = (ast.get_docstring(ast.parse(source)) or "").partition("\n")[0]
    return {"file": file.name, "title": title, "file_sha256": hashlib.sha256(source).hexdigest()}


def _conditions(results: Results) -> list[dict[str, Any]]:
    """Return each condition once, with its parameters and its described methods, problem and network."""
    links, firsts, conditions = Links(), dict[Any, Cell](), list[dict[str, Any]]()
    for cell, _ in results.cells:
        firsts.setdefault((*cell.condition, cell.method_name), cell)
    for cell in firsts.values():
        columns = {name: each for name, each in cell.columns.items() if name not in (METHOD, SEED, *results.labels)}
        problem = {} if cell.problem is None else {columns.get("problem", ""): _described(cell.problem, None)}
        networks = {columns.get("network", ""): _described(cell.network, links)}
        methods = {str(cell.columns[METHOD]): _described(cell.method, None)}
        conditions.append({"parameters": columns, "methods": methods, "problems": problem, "networks": networks})
    for kind, usual in (("methods", {}), ("problems", {}), ("networks", _described(links, links))):
        # Omit values that are the defaults under all conditions.
        told = {
            (name, key)
            for each in conditions
            for name, values in each[kind].items()
            for key, text in values.items()
            if text not in (usual.get(key, "None"), usual.get(key, "False"))
        }
        for each in conditions:
            each[kind] = {
                name: {key: text for key, text in values.items() if (name, key) in told} or {"ideal": "links"}
                for name, values in each[kind].items()
            }
    return conditions


def _described(part: Any, usual: Any) -> dict[str, str]:
    """Return a part's parameters, and its class or function unless that is the default's class."""
    kind = getattr(part, "kind", None) or getattr(part, "function", None) or type(part)
    kind = kind.func if isinstance(kind, partial) else kind
    named = {} if kind is type(usual) else {"class" if isinstance(kind, type) else "function": paths.brief(kind)}
    return named | dict(_parameters(part, usual))


def _parameters(part: Any, usual: Any, prefix: str = "") -> Iterator[tuple[str, str]]:
    for name, value in paths.parameters(part).items():
        other = paths.parameters(usual).get(name)
        if type(value) is type(other) and paths.parameters(value):
            yield from _parameters(value, other, f"{prefix}{name}.")
        else:
            # Show a file by its name: a paper has no use for the paths of a machine.
            yield f"{prefix}{name}", value.name if isinstance(value, Path) else paths.brief(value)
