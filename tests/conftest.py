"""Settings and fixtures for all tests."""

import contextlib
import functools
import gc
import importlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from hypothesis import HealthCheck, settings
from threadpoolctl import threadpool_limits

from netsim.engine import process
from tests import chromium
from tests.command import ROOT

# A PNG file of one pixel, in place of figures that need not be drawn.
DOT = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108000000003a7e9b55"
    "0000000a49444154789c63f80f0001010100b138f6140000000049454e44ae426082"
)
# Without this, a test could pass only because of data sets that were downloaded on this machine.
os.environ["NETSIM_CACHE"] = str(ROOT / ".no-cache")
BEFORE = pytest.StashKey[set[Path]]()

LONGEST = (
    "test_lessons",
    "test_sweep_dask",
    "test_sockets",
    "test_docs",
    "test_deploy",
    "test_folder",
    "test_workers",
    "test_theory_scenario",
    "test_grading",
    "test_against_ns3",
    "test_conditions",
    "test_neural",
    "test_backends",
    "test_sweep_whole",
    "test_core",
    "test_intel_lab",
    "test_scripts",
    "test_local_training",
    "test_task_order",
    "test_shared_rounds",
    "test_sockets_brokers",
    "test_sockets_hostile",
    "test_hash_seed",
    "test_outcomes",
    "test_lab_page",
    "test_bench",
    "test_cli",
    "test_partial",
    "test_tune",
    "test_frontier",
    "test_online_scenarios",
    "test_packet_loss",
    "test_files_reserve",
    "test_live_page",
    "test_kernel_benchmark",
    "test_survival_first_order",
    "test_models",
    "test_server",
    "test_deep_scenarios",
    "test_convergecast",
    "test_one_agent",
    "test_source",
    "test_parameters",
    "test_projections",
    "test_first_order",
    "test_command",
    "test_compare",
    "test_export",
    "test_imports",
)
"""The test files that take longest, whether their tests are marked slow or not, in descending order."""

APART = (
    "::test_examples_run",
    "::test_an_algorithm_is_the_simulations",
    "test_against_ns3.py::",
    "test_conditions.py::",
    "test_grading.py::",
    "test_neural.py::",
)
"""Files and groups of tests that need nothing from the rest of their file; as one unit they would end last."""


# Every run tries the same examples, so a failure is due to a change; benchmarks.soak draws new ones. There is no
# deadline, because a busy machine may be slow.
settings.register_profile("same", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("same")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Distribute whole files to workers, except that the tests in `APART` are distributed one by one."""
    from xdist.scheduler import LoadFileScheduling

    class ByFileOrTest(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            scope: str = super()._split_scope(nodeid)
            return nodeid if any(each in nodeid for each in APART) else scope

    return ByFileOrTest(config, log) if config.getvalue("dist") == "loadfile" else None


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int | None:
    """Let ``-n auto`` start one process more than there are cores, as some tests wait for processes and sockets."""
    if "PYTEST_XDIST_AUTO_NUM_WORKERS" in os.environ:
        return None
    return len(os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else range(os.cpu_count() or 1)) + 1


def pytest_configure(config: pytest.Config) -> None:
    """Keep the order of tests: xdist would start with the files that have most tests, and end with long ones of few.

    Let worker processes write bytecode, whatever the environment says. Otherwise each worker would rewrite the asserts
    of all tests, which takes 14 s, and each process that a test starts would compile netsim anew.
    """
    config.option.loadscopereorder = False
    if getattr(config.option, "numprocesses", None):
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


def files() -> set[Path]:
    """Return the files in the repository, without caches, builds and environments, which git ignores."""
    found: set[Path] = set()
    for folder, inner, names in os.walk(ROOT):
        inner[:] = [each for each in inner if not each.startswith((".", "__pycache__", "build", "site"))]
        found |= {Path(folder, name) for name in names if not name.startswith(".") and not name.endswith(".so")}
    return found


def pytest_sessionstart(session: pytest.Session) -> None:
    """Record which files exist before the tests."""
    if not hasattr(session.config, "workerinput"):
        session.config.stash[BEFORE] = files()


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail if a test has left a file in the repository instead of in a temporary folder."""
    # pytest ends with ten garbage collections, to report errors raised in them. One is enough, so the rest is frozen.
    gc.collect()
    gc.freeze()
    # Only the controlling process checks, because it ends after the workers.
    if not hasattr(session.config, "workerinput"):
        left = sorted(str(path.relative_to(ROOT)) for path in files() - session.config.stash[BEFORE])
        if left:
            print(f"\nthe tests left files in the tree: {', '.join(left)}")
            session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests that need a browser, real data or the extra ``dev`` as slow, and start with the longest files.

    Workers receive whole files, so a long file must not start when all others have ended.
    """
    for item in items:
        reasons = [mark.kwargs.get("reason", "") for mark in item.iter_markers("skipif")]
        lacking = any("NETSIM_DATA" in each or "[dev]" in each for each in reasons)
        if lacking or "browser" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.slow)
        if item.get_closest_marker("slow") and not may_be_slow(item.path):
            raise pytest.UsageError(f"{item.nodeid}: it is slow, and its file must have the word: see may_be_slow")
    places = {name: place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: places.get(item.path.stem, len(places)))


@functools.cache
def may_be_slow(path: Path) -> bool:
    """Return whether a file may have slow tests; ``-m slow`` imports no other files, which saves 3 s."""
    text = path.read_text(encoding="utf-8")
    return any(word in text for word in ("slow", "NETSIM_DATA", "browser", "only_with", "problems import CASES"))


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Skip files without slow tests if only slow tests are requested."""
    left_out = config.option.markexpr == "slow" and collection_path.suffix == ".py" and not may_be_slow(collection_path)
    return True if left_out else None


def pytest_collection(session: pytest.Session) -> None:
    """Let each of n workers rewrite the asserts of every n-th file first, so that it finds the others rewritten."""
    given = getattr(session.config, "workerinput", None)
    if given is not None:
        # Imported modules never become garbage; scanning them repeatedly would take an eighth of the time.
        gc.disable()
    if given is not None and session.config.args == session.config.getini("testpaths"):
        number = int(given["workerid"].removeprefix("gw"))
        only_slow = session.config.option.markexpr == "slow"
        paths = [each for each in sorted((ROOT / "tests").rglob("test_*.py")) if not only_slow or may_be_slow(each)]
        for path in paths[number :: given["workercount"]]:
            # Import errors and skips are reported later, when the module's tests are collected.
            with contextlib.suppress(Exception, pytest.skip.Exception):
                importlib.import_module(".".join(path.relative_to(ROOT).with_suffix("").parts))


def pytest_collection_finish() -> None:
    """Exclude tests and libraries, which are never freed, from later garbage collections; this saves half a second."""
    gc.collect()
    gc.freeze()
    gc.enable()


@pytest.fixture
def nothing_frozen(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Unfreeze the garbage collector, as in a user's program, because `netsim.Network.run` freezes at most once."""
    gc.unfreeze()
    monkeypatch.setattr(process, "_freezes", True)
    yield
    gc.freeze()


@contextlib.contextmanager
def without_drawing() -> Iterator[None]:
    """Create figures without drawing them, because drawing takes most of the time of a small study.

    `tests/scenarios/test_one_agent.py` draws the figures of every study, as do the tests of figures.
    """
    from matplotlib.figure import Figure

    drawn = Figure.savefig

    def save(figure: Figure, file: Any, **more: Any) -> None:
        if more.get("format") == "png":
            file.write(DOT)
        else:
            drawn(figure, file, **more)

    with mock.patch.object(Figure, "savefig", save):
        yield


@pytest.fixture
def undrawn() -> Iterator[None]:
    """Apply `without_drawing` to one test."""
    with without_drawing():
        yield


@pytest.fixture(scope="module")
def all_undrawn() -> Iterator[None]:
    """Apply `without_drawing` to a whole module and its fixtures."""
    with without_drawing():
        yield


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> Iterator[None]:
    """Limit BLAS to one thread: for small matrices, further threads only wait for each other, sometimes for minutes."""
    with threadpool_limits(limits=1):
        yield


@pytest.fixture(scope="session", autouse=True)
def interruptible() -> Iterator[None]:
    """Handle SIGINT as usual: in the background, pytest and so the processes of its tests might ignore it."""
    before = signal.getsignal(signal.SIGINT)
    if before is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(scope="module", autouse=True)
def same_environment() -> Iterator[None]:
    """Restore the environment after each file, because Dask, for example, sets a hash seed for its workers."""
    with mock.patch.dict(os.environ):
        yield


@pytest.fixture(scope="module")
def browser() -> Iterator[chromium.Page]:
    """Start a browser for all tests of a module."""
    if chromium.program() is None:
        pytest.skip("no chromium: apt-get install chromium")
    with chromium.browser() as page:
        page.look(1200, 800)
        yield page
