"""Imports run one way: scenarios → agents → netsim, and inside netsim without a circle, type-only imports included."""

import ast
from pathlib import Path

import networkx as nx
import pytest

ROOT = Path(__file__).parents[1]


def modules(package: str) -> dict[str, Path]:
    """Return the files of a package by the names of their modules."""
    found = {}
    for path in sorted((ROOT / package).rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imported(path: Path, known: set[str]) -> set[str]:
    """Return the known modules that a file imports, wherever in it."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            assert node.level == 0, f"{path}: imports are absolute"
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= (names & known) or {node.module}
    return found & known


def test_there_is_no_circle_inside_netsim() -> None:
    files = modules("netsim")
    graph = nx.DiGraph((name, other) for name, path in files.items() for other in imported(path, set(files)))
    assert len(graph) > 30
    assert list(nx.simple_cycles(graph, length_bound=8)) == []
    assert nx.is_directed_acyclic_graph(graph)


@pytest.mark.parametrize(("package", "may_not"), [("netsim", {"agents", "scenarios"}), ("agents", {"scenarios"})])
def test_imports_run_one_way(package: str, may_not: set[str]) -> None:
    names = {name for forbidden in may_not for name in modules(forbidden)}
    for name, path in modules(package).items():
        assert not imported(path, names), name


def test_a_circle_would_be_seen(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from netsim.link import Link\n"
    )
    assert imported(tmp_path / "a.py", {"netsim.link", "netsim"}) == {"netsim.link"}
