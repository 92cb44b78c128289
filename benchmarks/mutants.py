"""Mutation testing: change the code in one place at a time, and count the changes that no test notices.

A change swaps a comparison or an operation, shifts a whole number by one, negates a condition, drops a statement or
takes the other of ``and`` and ``or``. Each is made in a copy of the project, where the tests that belong to the file
run until the first fails (with the Python core, which is the one changed). A sample takes hours, so this is run by
hand, not in CI. Survivors are printed with their line for a reader to judge, because some changes have no observable
effect.
"""

import ast
import copy
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.report import parser

ROOT = Path(__file__).parents[1]
SECONDS = 600

# Pairs of operators that are replaced by each other.
_SWAPPED: list[tuple[Any, Any]] = [(ast.Lt, ast.LtE), (ast.Gt, ast.GtE), (ast.Eq, ast.NotEq), (ast.Is, ast.IsNot)]
_SWAPPED += [(ast.In, ast.NotIn), (ast.Add, ast.Sub), (ast.Mult, ast.Div), (ast.LShift, ast.RShift)]
INSTEAD: dict[Any, Any] = dict([*_SWAPPED, *(pair[::-1] for pair in _SWAPPED)]) | {ast.FloorDiv: ast.Mult}

# Tests of a file are those that import it, and these, by the beginning of its path.
BESIDES = {
    "netsim/transport": [
        *("order", "heard", "actions", "rounds", "agent", "links", "laws"),
        *("clock", "end", "task_order", "network_fuzz"),
    ],
    "netsim/accounting": ["trace", "laws", "order", "network_fuzz"],
    "netsim/engine": ["agent", "links", "failures", "end", "actions", "background", "task_order"],
    "netsim/agent": ["agent", "failures", "rounds"],
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


def tests_of(file: str) -> list[str]:
    """Return the tests to run for a file."""
    module = file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    parent, _, name = module.rpartition(".")
    besides = {f"test_{each}" for prefix, names in BESIDES.items() if file.startswith(prefix) for each in names}
    if not module.startswith("netsim"):
        module, parent = f"netsim.{module}", f"netsim.{parent}"
    found = set()
    for test in sorted((ROOT / "tests").rglob("test_*.py")):
        text = test.read_text()
        if test.stem in besides or f"{module} import" in text or (f"from {parent} import" in text and name in text):
            found.add(str(test.relative_to(ROOT)))
    # Slow tests come last, because only the first failure matters.
    return sorted(found, key=lambda test: ("fuzz" in test or "law" in test, test))


def survives(file: str, number: int) -> str | None:
    """Return the change if no test notices change ``number`` of a file, else None."""
    tree = ast.parse((ROOT / file).read_text())
    node = list(sites(tree))[number]
    before = copy.deepcopy(node)
    change(node)
    with tempfile.TemporaryDirectory() as folder:
        skip = shutil.ignore_patterns(
            ".git", ".venv", "build", "runs", "*.so", "__pycache__", ".*_cache", ".hypothesis"
        )
        project = shutil.copytree(ROOT, Path(folder) / "project", ignore=skip)
        (project / file).write_text(ast.unparse(ast.fix_missing_locations(tree)))
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-m", "", "-p", "no:cacheprovider", *tests_of(file)]
        settings = os.environ | {"NETSIM_CORE": "python", "PYTHONPATH": str(project), "OPENBLAS_NUM_THREADS": "1"}
        try:
            done = subprocess.run(command, cwd=project, env=settings, capture_output=True, timeout=SECONDS, check=False)
        except subprocess.TimeoutExpired:
            return None
    if done.returncode:
        return None
    return f"{file}:{getattr(before, 'lineno', '?')}: {ast.unparse(before)[:70]}  →  {ast.unparse(node)[:70]}"


def main() -> None:
    """Change a sample."""
    command = parser(__doc__, changes=100, seed=0, jobs=2)
    command.add_argument("paths", nargs="*", default=["netsim", "agents"], help="folders or files; default both")
    chosen = command.parse_args()
    files = [str(p.relative_to(ROOT)) for path in chosen.paths for p in sorted((ROOT / path).rglob("*.py"))]
    files += [path for path in chosen.paths if path.endswith(".py")]
    places = [(f, i) for f in files for i in range(len(list(sites(ast.parse((ROOT / f).read_text())))))]
    rng = np.random.default_rng(chosen.seed)
    picked = [places[i] for i in rng.choice(len(places), size=min(chosen.changes, len(places)), replace=False)]
    left = []
    with ThreadPoolExecutor(chosen.jobs) as pool:
        for done, found in enumerate(pool.map(lambda place: partial(survives, *place)(), picked), 1):
            left += [found] if found else []
            print(f"{done} of {len(picked)}: {len(left)} left{f': {found}' if found else ''}", flush=True)
    print(f"{len(picked) - len(left)} of {len(picked)} noticed ({len(places)} places)")


if __name__ == "__main__":
    main()
