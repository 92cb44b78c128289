"""Rules for the source code: what it imports and where, no shared random state, and no patterns that match arrays."""

import ast
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

import pytest

from tests.command import ROOT


def modules(*folders: str) -> list[Path]:
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))


INSTALLED = modules("netsim", "agents", "scenarios")


@cache
def parsed(path: Path) -> ast.Module:
    """Return a file's syntax tree, cached because several tests use it."""
    return ast.parse(path.read_text())


@pytest.fixture(scope="module", autouse=True)
def trees() -> Iterator[None]:
    """Discard the syntax trees at the end, because each later garbage collection would scan their millions of nodes."""
    yield
    parsed.cache_clear()


def imported(tree: ast.AST, later: bool = False) -> Iterator[tuple[str, bool]]:
    """Yield each imported module, and whether the import is executed when the module itself is imported."""
    if isinstance(tree, ast.Import):
        yield from ((alias.name, not later) for alias in tree.names)
    elif isinstance(tree, ast.ImportFrom):
        assert tree.level == 0, "imports are absolute here"
        names = [f"{tree.module}.{alias.name}" for alias in tree.names]
        yield from ((name, not later) for name in [str(tree.module), *names])
    elif isinstance(tree, ast.If):
        later = later or "TYPE_CHECKING" in ast.dump(tree.test)
    elif isinstance(tree, ast.FunctionDef | ast.AsyncFunctionDef):
        later = True
    # Expressions are skipped, because they contain no imports.
    for part in ast.iter_child_nodes(tree):
        if isinstance(part, ast.stmt | ast.excepthandler | ast.match_case):
            yield from imported(part, later)


def forbidden(tree: ast.AST, roots: Sequence[str], top_only: bool = False) -> list[str]:
    return [name for name, at_top in imported(tree) if name.split(".")[0] in roots and (at_top or not top_only)]


def test_what_is_installed_does_not_import_what_is_not() -> None:
    for path in INSTALLED:
        assert not forbidden(parsed(path), ["tests", "benchmarks"]), path


def test_what_is_not_always_needed_is_imported_where_it_is() -> None:
    around = ["pandas", "matplotlib", "typer", "rich", "joblib", "sklearn", "pooch"]
    for path in modules("netsim"):
        if path.name not in ("cli.py", "figures.py"):
            assert not forbidden(parsed(path), around, top_only=True), path


def test_signatures_are_written_out() -> None:
    for path in INSTALLED:
        assert "typing.Unpack" not in dict(imported(parsed(path))), f"{path}: editors do not show what it unpacks"


NEW_STYLE = {"default_rng", "Generator", "SeedSequence", "PCG64", "Philox", "BitGenerator"}


def global_randomness(tree: ast.AST) -> list[str]:
    """Return uses of shared random state, and of clocks that differ from run to run."""
    found = [name for name, _ in imported(tree) if name.split(".")[0] in ("random", "secrets", "uuid")]
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(ast.Attribute(ast.Name("np" | "numpy"), "random"), name) if name not in NEW_STYLE:
                found.append(f"np.random.{name}")
            case ast.Attribute(ast.Name("time"), "time") | ast.Attribute(ast.Name("os"), "urandom"):
                found.append(ast.unparse(node))
            case ast.Call(ast.Name(name) | ast.Attribute(_, name), [], []) if name.endswith("default_rng"):
                # Without a seed, default_rng is seeded by the operating system.
                found.append("default_rng()")
    return found


# Allowed uses: unguessable addresses and keys need the system's randomness, and hosts compare their clocks by the time
# of day. No simulation depends on any of them.
REAL = {
    # This module checks whether agents used global random functions, and draws no numbers itself.
    "netsim/engine/process.py": ["random", "np.random.get_state", "np.random.get_state"],
    "netsim/live/server.py": ["secrets"],
    # This module transfers random generators that agents hold to other processes.
    "netsim/distributed/states.py": [
        *("random", "np.random.RandomState", "np.random.MT19937", "np.random.PCG64DXSM", "np.random.SFC64"),
        *["np.random.RandomState"] * 3,
    ],
    "netsim/parallel/cluster.py": ["secrets"],
    "netsim/studies/deploy/plan.py": ["secrets"],
    "netsim/distributed/membership.py": ["time.time"],
}


def test_no_global_random_state() -> None:
    found = {path.relative_to(ROOT).as_posix(): global_randomness(parsed(path)) for path in INSTALLED}
    assert {path: uses for path, uses in found.items() if uses} == REAL


@pytest.mark.parametrize(
    "code",
    [
        "import random",
        "from random import shuffle",
        "np.random.seed(1)",
        "x = numpy.random.rand(3)",
        "time.time()",
        "np.random.default_rng()",
    ],
)
def test_the_scan_finds_it(code: str) -> None:
    assert global_randomness(ast.parse(code))


def test_the_scan_finds_imports() -> None:
    code = "import pandas\nfrom benchmarks import coke\nif TYPE_CHECKING:\n    import rich\ndef f():\n    import typer"
    tree = ast.parse(code)
    assert forbidden(tree, ["pandas", "rich", "typer"], top_only=True) == ["pandas"]
    assert forbidden(tree, ["benchmarks", "typer"]) == ["benchmarks", "benchmarks.coke", "typer"]


def test_a_test_that_hangs_fails(request: pytest.FixtureRequest) -> None:
    assert 0 < float(request.config.getini("timeout") or 0) < 3600


# Allowed sequence patterns: each matches a tuple that Python itself creates, and never a payload.
OWN_SEQUENCES = {"agents/classics/spanning_tree.py": "the arguments of a method"}


def loose_patterns(tree: ast.AST) -> list[str]:
    """Return sequence and mapping patterns, which are forbidden: since numpy 2.5 arrays match those of sequences."""
    kinds = ast.MatchSequence | ast.MatchMapping
    return [ast.unparse(node) for node in ast.walk(tree) if isinstance(node, kinds)]


def test_no_pattern_takes_an_array_for_a_list() -> None:
    paths = modules("netsim", "agents", "scenarios")
    assert {path.relative_to(ROOT).as_posix() for path in paths if loose_patterns(parsed(path))} == {*OWN_SEQUENCES}


def test_the_scan_finds_patterns() -> None:
    code = "match x:\n    case [int(a), b]:\n        pass\n    case {'k': 1} | Crash(agent=(c, d)):\n        pass"
    assert loose_patterns(ast.parse(code)) == ["[int(a), b]", "{'k': 1}", "[c, d]"]


def words_of_asserts(tree: ast.AST) -> list[str]:
    """Return the asserts with a message: a rule that users read must be raised, not asserted."""
    return [ast.unparse(node) for node in ast.walk(tree) if isinstance(node, ast.Assert) and node.msg is not None]


def test_what_users_read_is_raised() -> None:
    """``python -O`` removes asserts, and pytest changes their messages in packages that contain a plugin."""
    found = {path: words_of_asserts(parsed(path)) for path in modules("netsim", "agents", "scenarios")}
    assert not {path: each for path, each in found.items() if each}


def test_the_scan_finds_asserts_that_say_something() -> None:
    assert words_of_asserts(ast.parse("assert a\nassert b > 1, 'more'\n")) == ["assert b > 1, 'more'"]
