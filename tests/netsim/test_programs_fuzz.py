"""Random asyncio programs write the same log on netsim's virtual loop as on asyncio's own."""

import pytest

from tests.fuzzers.programs import ModelLoop, difference, log_on, program
from tests.parts import slow


@pytest.mark.parametrize("first", [0, 40, 80, *map(slow, range(120, 400, 40))])
def test_random_programs_run_as_on_asyncios_loop(first: int) -> None:
    assert [found for seed in range(first, first + 40) if (found := difference(seed, 20 + 20 * (seed % 5)))] == []


@pytest.mark.parametrize("drift", [1.0, 0.1, -0.25, -5e-5])
def test_programs_by_a_clock_that_is_off_notice_nothing(drift: float) -> None:
    """Sleeps, timeouts and timers use the clock of the agent whose code runs, so a program notices no error."""
    assert [found for seed in range(25) if (found := difference(seed, 20 + 20 * (seed % 5), drift))] == []


def test_the_programs_do_something() -> None:
    """The random programs contain every kind of statement, and end in many ways."""
    log = [what for seed in range(100) for _, what in log_on(ModelLoop, program(seed))]
    assert len(log) > 5000
    for word in ("end gather", "leave group", "TimeoutError", "CancelledError", "ProgramError", "caught", "cleaned up"):
        assert sum(word in what for what in log) > 20, word
