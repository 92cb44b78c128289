"""Mutation testing: change functions in one place at a time, and count the changes that no test detects.

A change swaps a comparison or an operation, shifts a whole number by one, negates a condition, removes a statement or
exchanges ``and`` and ``or``. Each change is made in a copy of the project, where the tests that belong to the file run
until the first one fails (with the core in Python, because the Python code is what changes). A sample takes hours, so
this is not for CI. Survivors are printed with their line, for a reader to judge: some of them change nothing that could
be observed.

To compare two commits, test the same places in both: ``--list`` prints the places of a sample and runs nothing, and
``--places FILE`` reads such a list. A place is a function, the hash of its code, and the number of the change in it. It
is found even if the function has moved; places whose function has changed in this commit are named and omitted.
"""

import ast
import copy
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.report import parser

ROOT = Path(__file__).parents[1]
SECONDS = 600
_MOST = 8

# Pairs of operators that are replaced by each other.
_SWAPPED: list[tuple[Any, Any]] = [(ast.Lt, ast.LtE), (ast.Gt, ast.GtE), (ast.Eq, ast.NotEq), (ast.Is, ast.IsNot)]
_SWAPPED += [(ast.In, ast.NotIn), (ast.Add, ast.Sub), (ast.Mult, ast.Div), (ast.LShift, ast.RShift)]
INSTEAD: dict[Any, Any] = dict([*_SWAPPED, *(pair[::-1] for pair in _SWAPPED)]) | {ast.FloorDiv: ast.Mult}

# {beginning of a file's path: tests that belong to the file besides those that import it}.
BESIDES = {
    "netsim/transport": [
        *("order", "heard", "actions", "rounds", "agent", "links", "laws"),
        *("clock", "end", "task_order", "network_fuzz"),
    ],
    "netsim/accounting": ["trace", "laws", "order", "network_fuzz"],
    "netsim/engine": ["agent", "links", "failures", "end", "actions", "background", "task_order"],
    "netsim/agent": ["agent", "failures", "rounds"],
    "netsim/context": ["agent", "rounds", "heard", "actions", "compute"],
    "netsim/network": ["failures", "links", "actions"],
    "netsim/run": ["agent", "files", "failures"],
    "netsim/studies": ["cli", "files", "files_reserve", "edge"],
}


def sites(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes that can be changed, in order."""
    for node in ast.walk(tree):
        compared = isinstance(node, ast.Compare) and type(node.ops[0]) in INSTEAD
        combined = isinstance(node, ast.BinOp | ast.AugAssign) and type(node.op) in INSTEAD
        number = isinstance(node, ast.Constant) and type(node.value) is int
        dropped = isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
        if compared or combined or number or dropped or isinstance(node, ast.BoolOp | ast.If | ast.IfExp):
            yield node


def change(node: ast.AST) -> None:
    """Change one node in place."""
    if isinstance(node, ast.Compare):
        node.ops[0] = INSTEAD[type(node.ops[0])]()
    elif isinstance(node, ast.BinOp | ast.AugAssign):
        node.op = INSTEAD[type(node.op)]()
    elif isinstance(node, ast.Constant):
        assert isinstance(node.value, int)
        node.value += 1
    elif isinstance(node, ast.BoolOp):
        node.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
    elif isinstance(node, ast.If | ast.IfExp):
        node.test = ast.UnaryOp(ast.Not(), node.test)
    elif isinstance(node, ast.Expr):
        node.value = ast.Constant(None)


@cache
def uses(test: Path) -> set[str]:
    """Return the names that a test imports, and those that it reads as ``package.name`` from an imported package."""
    nodes = [*ast.walk(ast.parse(test.read_text()))]
    imported = {alias.name for node in nodes if isinstance(node, ast.ImportFrom) for alias in node.names}
    read = [node for node in nodes if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)]
    return imported | {node.attr for node in read if ast.unparse(node.value) in imported}


def tests_of(file: str) -> list[str]:
    """Return the tests to run for a file: those of its room, and those that import it or use what it defines."""
    module = file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    name = module.rpartition(".")[2]
    besides = {f"test_{each}" for prefix, names in BESIDES.items() if file.startswith(prefix) for each in names}
    if not module.startswith("netsim"):
        module = f"netsim.{module}"
    # Modules at the root of a package belong to no room. The tests of agents/protocols are in tests/agents.
    room = next(folder for folder in (ROOT / "tests" / file).parents if folder.is_dir())
    found = {str(test.relative_to(ROOT)) for test in room.glob("test_*.py") if file.count("/") > 1}
    tests = sorted((ROOT / "tests").rglob("test_*.py"))
    for test in tests:
        if test.stem in besides or f"{module} import" in test.read_text() or name in uses(test):
            found.add(str(test.relative_to(ROOT)))
    # Most tests import names from the package, not from the module that defines them. Names that more than `_MOST` test
    # files use, such as `Agent`, would add hours and hardly a failure.
    kinds = ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef
    for defined in {each.name for each in ast.parse((ROOT / file).read_text()).body if isinstance(each, kinds)}:
        using = [str(test.relative_to(ROOT)) for test in tests if defined in uses(test)]
        found.update(using if len(using) <= _MOST else ())
    # Slow tests come last, because only the first failure matters.
    return sorted(found, key=lambda test: ("fuzz" in test or "law" in test, test))


def functions(tree: ast.AST, before: str = "") -> Iterator[tuple[str, ast.AST]]:
    """Yield the functions and methods of a module, each with its name and the hash of its code without docstrings."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.ClassDef):
            yield from functions(node, f"{before}{node.name}.")
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            code = copy.deepcopy(node)
            for each in ast.walk(code):
                if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and ast.get_docstring(each):
                    del each.body[0]
            yield f"{before}{node.name} {hashlib.sha256(ast.dump(code).encode()).hexdigest()[:12]}", node


def places_in(file: str) -> dict[str, tuple[str, int]]:
    """Return {place: (file, number of the change in the file)} for all functions of a file."""
    tree = ast.parse((ROOT / file).read_text())
    numbers = {node: number for number, node in enumerate(sites(tree))}
    found = functions(tree)
    return {f"{name} {i}": (file, numbers[node]) for name, inner in found for i, node in enumerate(sites(inner))}


def survives(file: str, number: int, slow: bool) -> str | None:
    """Make change ``number`` of a file; return its description if no test detects it, else None."""
    tree = ast.parse((ROOT / file).read_text())
    node = list(sites(tree))[number]
    before = copy.deepcopy(node)
    change(node)
    with tempfile.TemporaryDirectory() as folder:
        skip = shutil.ignore_patterns(
            ".git", ".venv", "build", "runs", "*.so", "__pycache__", ".*_cache", ".hypothesis"
        )
        # Without symlinks, netsim/agents would be a copy of its own, without the change.
        project = shutil.copytree(ROOT, Path(folder) / "project", symlinks=True, ignore=skip)
        (project / file).write_text(ast.unparse(ast.fix_missing_locations(tree)))
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-m", "" if slow else "not slow"]
        command += ["-p", "no:cacheprovider", *tests_of(file)]
        settings = os.environ | {"NETSIM_CORE": "python", "PYTHONPATH": str(project), "OPENBLAS_NUM_THREADS": "1"}
        try:
            done = subprocess.run(command, cwd=project, env=settings, capture_output=True, timeout=SECONDS, check=False)
        except subprocess.TimeoutExpired:
            return None
    if done.returncode:
        return None
    return f"{file}:{getattr(before, 'lineno', '?')}: {ast.unparse(before)[:70]}  →  {ast.unparse(node)[:70]}"


def main() -> None:
    """Test a sample of changes."""
    command = parser(__doc__, changes=100, seed=0, jobs=2)
    command.add_argument("--list", action="store_true", help="print the places of the sample, and run nothing")
    command.add_argument("--places", type=Path, help="a file of places, as --list prints them")
    command.add_argument("--quick", action="store_true", help="without the slow tests")
    command.add_argument("paths", nargs="*", default=["netsim", "agents"], help="folders or files; default both")
    chosen = command.parse_args()
    files = [str(p.relative_to(ROOT)) for path in chosen.paths for p in sorted((ROOT / path).rglob("*.py"))]
    files += [path for path in chosen.paths if path.endswith(".py")]
    places = {place: where for file in files for place, where in places_in(file).items()}
    rng = np.random.default_rng(chosen.seed)
    asked = [[*places][i] for i in rng.choice(len(places), size=min(chosen.changes, len(places)), replace=False)]
    if chosen.places:
        asked = chosen.places.read_text().splitlines()
    if chosen.list:
        print(*asked, sep="\n")
        return
    picked = [places[each] for each in asked if each in places]
    for each in asked:
        if each not in places:
            print(f"{each}: not here")
    left = []
    with ThreadPoolExecutor(chosen.jobs) as pool:
        for done, found in enumerate(pool.map(lambda place: survives(place[0], place[1], not chosen.quick), picked), 1):
            left += [found] if found else []
            print(f"{done} of {len(picked)}: {len(left)} left{f': {found}' if found else ''}", flush=True)
    print(f"{len(picked) - len(left)} of {len(picked)} noticed ({len(places)} places)")


if __name__ == "__main__":
    main()
