"""Imports go one way: netsim.scenarios → netsim.agents → netsim; and between the rooms of netsim without cycles."""

import ast
import importlib
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import networkx as nx
import pytest

from tests.command import ROOT

FOLDERS = ("netsim", "agents", "scenarios", "tests", "benchmarks", "docs")


def modules(*folders: str) -> dict[str, Path]:
    """Return the files of the given folders by module name; the folder agents/ is netsim.agents."""
    found = {}
    for path in sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        if parts[0] != "netsim":
            parts = ("netsim", *parts)
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imported(path: Path, known: set[str], types: bool = False) -> set[str]:
    """Return the known modules that a file imports, anywhere in it; with ``types`` also those for types only."""
    found = set()
    for module, names, is_for_types in _imports(path):
        if types or not is_for_types:
            found |= {f"{module}.{name}" for name in names} & known or {module}
    return found & known


@cache
def _imports(path: Path) -> list[tuple[str, list[str], bool]]:
    """Return each imported module of a file, the names imported from it, and whether they are for types only."""
    text = path.read_text()
    nodes = list(statements(ast.parse(text)))
    typing = {
        inner
        for node in (nodes if "TYPE_CHECKING" in text else [])
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
        for part in node.body
        for inner in ast.walk(part)
    }
    found: list[tuple[str, list[str], bool]] = []
    for node in nodes:
        if isinstance(node, ast.Import):
            found += [(alias.name, [], node in typing) for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            assert node.level == 0, f"{path}: imports are absolute"
            found.append((node.module, [alias.name for alias in node.names], node in typing))
    return found


def statements(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield all statements of a tree; expressions are skipped, because they contain no imports."""
    yield tree
    for part in ast.iter_child_nodes(tree):
        if isinstance(part, ast.stmt | ast.excepthandler | ast.match_case):
            yield from statements(part)


def room(module: str) -> str:
    """Return the room (subpackage) of netsim that contains a module; a module at the root is a room of its own."""
    return ".".join(module.split(".")[:2])


def test_there_is_no_circle() -> None:
    files = modules("netsim", "agents", "scenarios")
    assert {"netsim.links.link", "netsim.agents.maps.deep", "netsim.scenarios.coke"} <= set(files)
    graph = nx.DiGraph((name, other) for name, path in files.items() for other in imported(path, set(files)))
    assert len(graph) > 100
    assert nx.is_directed_acyclic_graph(graph), nx.find_cycle(graph)


def arrows_between_rooms(types: bool = False) -> "nx.DiGraph[str]":
    """Return a graph of the imports between the rooms of netsim."""
    files = modules("netsim")
    arrows = {(room(name), room(other)) for name, path in files.items() for other in imported(path, set(files), types)}
    return nx.DiGraph((one, other) for one, other in arrows if one != other)


def circles(graph: "nx.DiGraph[str]") -> list[list[str]]:
    return [sorted(circle) for circle in nx.strongly_connected_components(graph) if len(circle) > 1]


def test_arrows_between_rooms_run_one_way() -> None:
    graph = arrows_between_rooms()
    assert {"netsim.wire", "netsim.core", "netsim.engine", "netsim.network", "netsim.studies"} <= set(graph)
    assert circles(graph) == []


def test_rooms_import_only_from_those_above_them_in_the_table() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text()
    table = [f"netsim.{name}" for name in re.findall(r"^\| `(\w+)/` \|", text, re.MULTILINE)]
    table = table[: table.index("netsim.agents")]
    assert {*table, "netsim.agents", "netsim.scenarios"} == {
        f"netsim.{path.parent.name}" for path in (ROOT / "netsim").glob("*/__init__.py")
    }
    places = {name: place for place, name in enumerate(table)}
    among = arrows_between_rooms().subgraph(places)
    assert [(one, other) for one, other in among.edges if places[one] < places[other]] == []


# Imports for types only that go against the order. Avoiding one would need a Protocol that mirrors a single class.
UP = {
    ("netsim.network", "netsim.deployment"): "a network keeps the Deployment that made it",
    ("netsim.engine", "netsim.deployment"): "a run moves nodes by the powers of that Deployment",
    ("netsim.engine", "netsim.distributed"): "a run calls its Node, which carries frames to other processes",
    ("netsim.engine", "netsim.parallel"): "or its Part of a run over several workers",
    ("netsim.faults", "netsim.engine"): "faults act on the run that holds them",
}


def test_arrows_of_types_run_the_same_way() -> None:
    graph = arrows_between_rooms(types=True)
    assert set(UP) <= set(graph.edges) - set(arrows_between_rooms().edges)
    graph.remove_edges_from(UP)
    assert circles(graph) == []


@pytest.mark.parametrize(("folder", "may_not"), [("netsim", ["agents", "scenarios"]), ("agents", ["scenarios"])])
def test_imports_run_one_way(folder: str, may_not: list[str]) -> None:
    names = set(modules(*may_not))
    for name, path in modules(folder).items():
        assert not imported(path, names), name


def test_nobody_imports_the_folders_by_their_bare_names() -> None:
    # A module loaded both as `agents.x` and as `netsim.agents.x` exists twice, as do its classes.
    names = "(?:agents|scenarios)\\b"
    bare = re.compile(rf"^\s*(?:from|import)\s+{names}|(?:import_module|__import__)\([\"']{names}")
    assert bare.search("    from agents.deep import Deep")
    assert bare.search('find = importlib.import_module("scenarios")')
    files = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*.*")]
    texts = [path for path in files if path.suffix in {".py", ".pyx", ".md", ".ipynb"} and path != Path(__file__)]
    assert len(texts) > 150
    for path in texts:
        for line in path.read_text().splitlines():
            assert not bare.search(line), f"{path}: {line.strip()}"


def test_the_folders_are_part_of_netsim() -> None:
    for folder in ("agents", "scenarios"):
        package = importlib.import_module(f"netsim.{folder}")
        assert package.__file__
        assert Path(package.__file__).parts[-3:] == ("netsim", folder, "__init__.py")
        assert (ROOT / "netsim" / folder).samefile(ROOT / folder)


@pytest.mark.slow
def test_files_of_the_same_names_beside_a_script_hide_nothing(tmp_path: Path) -> None:
    for name in ("agents", "scenarios"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('this file is not what was meant')")
    (tmp_path / "script.py").write_text(
        "from netsim.agents import COKE\nfrom netsim.studies.catalogue import find_study\n"
        "find_study('coke').execute(agents=3, rounds=5)\nprint(COKE.__module__)"
    )
    done = subprocess.run([sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True)
    assert done.stdout.startswith("netsim.agents."), done.stderr


def test_a_circle_would_be_seen_but_not_one_of_types(tmp_path: Path) -> None:
    known = {"netsim.links.link", "netsim.run", "netsim"}
    (tmp_path / "a.py").write_text(
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from netsim.links.link import Link\n"
        "def late():\n    from netsim.run import Run\n"
    )
    assert imported(tmp_path / "a.py", known) == {"netsim.run"}
    assert imported(tmp_path / "a.py", known, types=True) == {"netsim.run", "netsim.links.link"}
