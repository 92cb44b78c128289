"""The record of an experiment, as experiment.json has it: parts with their values by condition, versions, tuning."""

import ast
import dataclasses
import hashlib
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from netsim.studies.experiment import paths
from netsim.studies.experiment.cells import METHOD, SEED, Cell
from netsim.studies.experiment.content import is_users
from netsim.studies.experiment.grid import value_of
from netsim.studies.experiment.networks import Links
from netsim.studies.experiment.results import Results

if TYPE_CHECKING:
    from netsim.studies.experiment.experiment import Experiment


def record(experiment: "Experiment", results: Results) -> dict[str, Any]:
    """Return what a reader must know of an experiment besides its results."""
    kinds = {name: getattr(method, "kind", None) for name, method in experiment.methods.items()}
    return {
        "paths": dict(experiment.paths()[["path", "value"]].itertuples(index=False, name=None)),
        "cells": {cell.key: {name: str(value) for name, value in cell.columns.items()} for cell, _ in results.cells},
        "conditions": _conditions(results),
        "seeds": list(dict.fromkeys(cell.seeds.text for cell, _ in results.cells)),
        "rounds": sorted({cell.rounds for cell, _ in results.cells}),
        "until": experiment.until,
        "ending": dataclasses.asdict(experiment.ending),
        "settings": {
            ", ".join(key): {path: paths.brief(value_of(value)) for path, value in values.items()}
            for key, values in experiment.settings.items()
        },
        "spent": sorted(experiment.spent),
        "tuning": experiment.tuning,
        "papers": {name: [cited] for name, kind in kinds.items() if (cited := getattr(kind, "citation", str)())},
        "own": [name for name, kind in kinds.items() if kind is not None and is_users(kind)],
        "versions": _different(found.about for _, found in results.cells if found.about),
        "files": {name: sha for _, found in results.cells for name, sha in found.read.items()},
    }


def title_of_toml(text: str) -> str:
    """Return the comment in the first line of a TOML file, if there is one."""
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
    """Return the different methods under each condition, beside its problem and network."""
    found: dict[Any, dict[str, Any]] = {}
    described: dict[int, dict[str, str]] = {}
    links = Links()

    def of(part: Any, usual: Any = None) -> dict[str, str]:
        if id(part) not in described:
            described[id(part)] = _described(part, usual)
        return described[id(part)]

    for cell, _ in results.cells:
        method, columns = of(cell.method), _settings(cell, results.labels)
        found.setdefault(
            (*cell.condition, *method.items()),
            {
                "parameters": columns,
                "methods": {str(cell.columns[METHOD]): method},
                "problems": {} if cell.problem is None else {columns.get("problem", ""): of(cell.problem)},
                "networks": {columns.get("network", ""): of(cell.network, links)},
            },
        )
    conditions = list(found.values())
    for kind, usual in (("methods", {}), ("problems", {}), ("networks", _described(links, links))):
        told: dict[str, set[str]] = {}
        for name, values in (pair for each in conditions for pair in each[kind].items()):
            unusual = {
                key for key, text in values.items() if text not in (usual.get(key, "None"), usual.get(key, "False"))
            }
            told.setdefault(name, set()).update(unusual)
        for each in conditions:
            each[kind] = {
                name: {key: text for key, text in values.items() if key in told[name]} or {"ideal": "links"}
                for name, values in each[kind].items()
            }
    return conditions


def _settings(cell: Cell, labels: tuple[str, ...]) -> dict[str, Any]:
    return {name: value for name, value in cell.columns.items() if name not in (METHOD, SEED, *labels)}


def _described(part: Any, usual: Any) -> dict[str, str]:
    """Return what a part is made of, and its parameters; below those that are of a usual one's class, theirs."""
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
            # A paper has no use for the folders of a machine.
            yield f"{prefix}{name}", value.name if isinstance(value, Path) else paths.brief(value)


def _different(several: Iterator[Mapping[str, Any]]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for each in several:
        if each not in found:
            found.append(dict(each))
    return found
