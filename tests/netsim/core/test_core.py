"""The compiled core and its twin in Python, beside what tests/netsim/test_network_fuzz.py runs on both."""

import os
import subprocess
import sys

import numpy as np
import pytest

from netsim import core
from netsim.core import arrival_queue, records, tally
from tests.command import ROOT, python

# The random networks and radios of tests/fuzzers run on both cores, too: these see what a run draws and how it fails.
BY_TWIN = ["tests/test_laws.py", "tests/netsim/accounting/test_trace.py", "tests/netsim/engine/test_failures.py"]
# The closed forms of a link's stages.
BY_TWIN += ["tests/netsim/transport/test_transmitter.py", "tests/netsim/links/test_links.py"]


@pytest.mark.slow
@pytest.mark.skipif(core.NAME != "compiled", reason="the twin runs all tests already")
def test_the_twin_passes_tests_of_its_own() -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-m", "", "-p", "no:cacheprovider", *BY_TWIN]
    done = subprocess.run(command, cwd=ROOT, env=os.environ | {"NETSIM_CORE": "python"}, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-3000:]


@pytest.mark.parametrize(
    "queue", dict.fromkeys([arrival_queue.ArrivalQueue, core.ArrivalQueue]), ids=lambda kind: kind.__module__
)
def test_a_frame_that_may_be_late_is_settled_on_its_own(queue: type[arrival_queue.ArrivalQueue]) -> None:
    keys = np.zeros(1, dtype=np.uint64)
    for time, plain, careful in [(0.9, True, False), (1.0, True, True), (1.1, True, True), (0.9, False, True)]:
        arrivals = queue((core.Tally if queue is core.ArrivalQueue else tally.Tally)(keys, keys, False))
        arrivals.push(time, 0, 0, core.Frame("x", 0, 1, 0.5, b"", plain), 1.0)
        assert arrivals.careful is careful
        assert len(arrivals.due(2.0)) == 1
        assert not arrivals.careful


def test_each_cause_has_the_number_of_its_place() -> None:
    assert [getattr(records, name.upper()) for name in records.ALL_CAUSES] == list(range(len(records.ALL_CAUSES)))


def test_an_unknown_core_is_refused_in_one_line() -> None:
    with pytest.raises(AssertionError, match=r"NETSIM_CORE = 'rust': must be python, compiled or empty\n"):
        python("from netsim import Network", NETSIM_CORE="rust")
