"""Sizes beyond the available memory are refused immediately with a one-line error; SIGTERM ends a long construction."""

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import networkx as nx
import numpy as np
import pytest

import netsim
from netsim import BadInput, Network, topology
from netsim.agents.maps.features import RandomFourier
from netsim.util import check
from tests.command import call
from tests.parts import every

HUGE = 10**15
NEEDS = r"[^\n]* would take [\d,.a-z* ]+ GiB, more than the [\d.,]+ GiB of memory here"


def test_what_fits_is_taken_and_what_does_not_is_refused_with_both_sizes() -> None:
    check.fits("features", 100, 800, "they")
    wanted = r"^features = 100000000: must be smaller; they would take 1,000,000 GiB, more than the \S+ GiB of memory"
    with pytest.raises(BadInput, match=wanted):
        check.fits("features", 100_000_000, 2**30 * 1_000_000, "they")
    with pytest.raises(BadInput, match=r"they would take more than 10\*\*15 GiB"):
        check.fits("features", 1, 10**400, "they")


@pytest.mark.skipif(sys.platform == "win32", reason="limits of POSIX")
def test_the_limit_of_a_process_counts() -> None:
    code = (
        "import resource; from netsim.util import check\n"
        "check.fits('size', 1, 2**31, 'it')\n"
        "resource.setrlimit(resource.RLIMIT_DATA, (2**30, 2**30))\n"
        "check.fits('size', 1, 2**31, 'it')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert "size = 1: must be smaller; it would take 2 GiB, more than the 1 GiB of memory here" in done.stderr
    assert "line 4" in done.stderr


@every(
    ("make", "expected"),
    [
        (lambda: topology.ring(HUGE), "agents = "),
        (lambda: topology.path(HUGE), "agents = "),
        (lambda: topology.star(HUGE), "agents = "),
        (lambda: topology.complete(10_000_000), "agents = 10000000: must be smaller"),
        (lambda: topology.grid(10**8, 10**8), "rows, columns = "),
        (lambda: topology.erdos_renyi(HUGE, p=0.1), "agents = "),
        (lambda: topology.erdos_renyi(10_000_000, p=0.5), "p = 0.5"),
        (lambda: topology.erdos_renyi(10_000_000, edges=10**13), "edges = "),
        (lambda: topology.random_geometric(HUGE, 0.5), "agents = "),
        (lambda: topology.random_geometric(1_000_000, 1.0), "radius = 1.0"),
        (lambda: RandomFourier(5, HUGE), "features = "),
        (lambda: RandomFourier(1, 1_000_000)(np.zeros((1_000_000, 1))), "features = 1000000"),
    ],
)
def test_what_no_memory_holds_is_refused_before_it_is_made(make: Callable[[], object], expected: str) -> None:
    start = time.process_time()
    with pytest.raises(BadInput, match=f"^{expected}.*{NEEDS}$"):
        make()
    assert time.process_time() - start < 5.0


def test_what_memory_holds_is_made() -> None:
    assert len(topology.ring(100_000)) == 100_000
    assert topology.complete(300).number_of_edges() == 44_850
    assert nx.is_connected(topology.random_geometric(1_000, 0.2))
    assert len(Network(topology.star(20_000)).graph) == 20_000


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("averaging", "--agents", "1000000000000"), "agents = 1000000000000"),
        (("averaging", "--agents", "1000000", "--radius", "1"), "radius = 1.0"),
        (("aloha", "--agents", "1000000000000"), "agents = 1000000000000"),
        (("coke", "--agents", "1000000000000"), "agents = 1000000000000"),
        (("coke", "--features", "100000000"), "features = 100000000"),
        (("coke", "--rounds", "1000000000000"), "rounds = 1000000000000"),
        (("omkl", "--rows", "1000000000000"), "rows = 1000000000000"),
        (("polk", "--samples", "1000000000000"), "samples = 1000000000000"),
        (("privacy", "--samples", "1000000000000"), "agents, samples = (10, 1000000000000)"),
        (("projections", "--examples", "1000000000000"), "examples = 1000000000000"),
        (("deep", "--layers", "1000000000000"), "layers = 1000000000000"),
        (("pushsum", "--rounds", "1000000000000"), "rounds = 1000000000000"),
    ],
)
def test_a_study_that_no_memory_holds_ends_in_one_line(words: tuple[str, ...], expected: str, tmp_path: Path) -> None:
    done = call("run", *words, "--out", "out", cwd=tmp_path)
    assert done.returncode == 2
    (line,) = [each for each in done.stderr.splitlines() if each.startswith("netsim: ")]
    assert line.startswith(f"netsim: {expected}: must be smaller; ")
    assert " GiB, more than the " in line
    assert not list(tmp_path.iterdir())


def test_a_sweep_of_more_points_than_there_may_be_is_refused_before_they_are_listed(tmp_path: Path) -> None:
    done = call("sweep", "coke", "--seed", "0:100000000000000000000000", "--out", "out", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith("netsim: seed = '0:100000000000000000000000': ")
    assert "must be at most 1,000,000 values" in done.stderr
    done = call("sweep", "coke", "--seed", "0:100000", "--rounds", "1:100001", "--out", "out", cwd=tmp_path)
    assert done.stderr.startswith("netsim: points = 10,000,000,000: must be at most 1,000,000")
    with pytest.raises(BadInput, match="seed = range"):
        netsim.studies.sweep("coke", out=tmp_path / "out", seed=range(10**12))
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
def test_sigterm_ends_at_once_what_builds_something_big(tmp_path: Path) -> None:
    # sum() runs in C, so Python calls no signal handler until it returns.
    (tmp_path / "big.py").write_text(
        "from pathlib import Path\n"
        "def big(study, *, seed: int = 0) -> None:\n"
        "    Path('began').touch()\n"
        "    sum(range(10**13))\n"
    )
    words = [sys.executable, "-m", "netsim", "run", "big.py", "--out", "out"]
    process = subprocess.Popen(words, cwd=tmp_path, stderr=subprocess.PIPE)
    while not (tmp_path / "began").exists():
        time.sleep(0.01)
    process.send_signal(signal.SIGTERM)
    try:
        # A shell would report this as status 143.
        assert process.wait(timeout=120) == -signal.SIGTERM
    finally:
        process.kill()
        process.communicate()
    assert not (tmp_path / "out").exists()
    # The next run removes the hidden files that were left.
    call("run", "averaging", "--out", "out", cwd=tmp_path)
    assert sorted(each.name for each in tmp_path.iterdir() if each.name[0] == ".") == []
