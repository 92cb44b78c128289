"""The pytest plugin: provides the options of `netsim.testing.simulate`, and records which test is running.

pytest imports the plugin at each start, even if no test uses netsim. So the plugin imports no module of netsim.
"""

import os
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import pytest

__all__ = ["CALL", "Call"]


class Call(NamedTuple):
    """A test that pytest runs, and the options for it.

    Attributes
    ----------
    node : str
        The test's identifier on the command line.
    seed : int or None
        The only seed to try; None: the seeds of the test.
    at, order : str or None
        Faults and order as text; None: as `netsim.testing.simulate` draws them.
    folder : Path or None
        The folder for replays; None: replays are not written.
    """

    node: str
    seed: int | None
    at: str | None
    order: str | None
    folder: Path | None


CALL: ContextVar[Call | None] = ContextVar("CALL", default=None)
"""The test that runs; None outside of pytest."""


def pytest_addoption(parser: "pytest.Parser") -> None:
    """Add the options."""
    group = parser.getgroup("netsim", "simulated networks (netsim.testing.simulate)")
    group.addoption("--netsim-seed", type=int, metavar="SEED", help="try only this seed")
    group.addoption("--netsim-at", metavar="FAULTS", help="these faults, not drawn ones, as a failing test prints them")
    group.addoption("--netsim-order", metavar="ORDER", help="this order of events, not a drawn one, likewise")
    group.addoption(
        "--netsim-replays",
        metavar="FOLDER",
        help="where replays of failing tests are written; by default netsim in the cache's folder, .pytest_cache/d",
    )


def pytest_configure(config: "pytest.Config") -> None:
    """Raise a usage error for inconsistent options."""
    seed = config.getoption("--netsim-seed")
    if seed is not None and seed < 0:
        raise _refused(f"--netsim-seed = {seed}: must be a whole number >= 0")
    for option in ("--netsim-at", "--netsim-order"):
        if config.getoption(option) is not None and seed is None:
            raise _refused(f"{option}: must go with --netsim-seed")


def _refused(text: str) -> Exception:
    import pytest

    return pytest.UsageError(text)


def pytest_runtest_setup(item: "pytest.Item") -> None:
    """Record the running test and its options."""
    config = item.config
    file, _, rest = item.nodeid.partition("::")
    here = os.path.relpath(config.rootpath / file, config.invocation_params.dir)
    seed, at, order = (config.getoption(f"--netsim-{name}") for name in ("seed", "at", "order"))
    CALL.set(Call(f"{here}::{rest}", seed, at, order, _folder(config)))


def pytest_runtest_teardown() -> None:
    """Record that no test is running."""
    CALL.set(None)


def _folder(config: "pytest.Config") -> Path | None:
    """Return the folder of replays, which need not exist; None if neither an option nor pytest's cache gives one."""
    folder: str | None = config.getoption("--netsim-replays")
    if folder is not None:
        return Path(config.invocation_params.dir, folder)
    cache = getattr(config, "cache", None)
    return None if cache is None else Path(cache.mkdir("netsim"))
