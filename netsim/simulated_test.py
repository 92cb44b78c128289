"""Tests that run a network once for each seed, with drawn faults and in a drawn order."""

import asyncio
import functools
import inspect
import os
import re
import shlex
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any

from netsim.clock.clock import new_loop
from netsim.clock.order import Method, Order
from netsim.engine.build import Settings
from netsim.engine.launch import aside
from netsim.errors import AgentError, NetsimError, Stalled, one_line
from netsim.faults.words import appending
from netsim.network import Network, Refine, refined_by, unscheduled
from netsim.pytest_plugin import CALL, Call
from netsim.run import Run
from netsim.seed_search import Change, Drawn, Finding, Invariant, Trials, quoted
from netsim.util import check

__all__ = ["simulate"]

Test = Callable[..., Any]

# The folders of netsim and asyncio: a traceback begins after their frames.
_FOLDERS = os.path.dirname(__file__), os.path.dirname(asyncio.__file__)


def simulate(
    *,
    seeds: Iterable[int] = range(50),
    faults: Drawn = None,
    order: bool | Method = False,
    invariant: Invariant | type[Any] | None = None,
) -> Callable[[Test], Callable[..., None]]:
    """Turn a function that runs a network into a test, which calls the function once per seed, until it fails.

    ::

        @simulate(seeds=range(50), order=True, faults=dict(until=5.0, crashes=1))
        async def test_each_sale_counts(network):
            tills = {name: Till() for name in network.graph}
            await network.run_async(tills, until=10.0)
            assert tills[0].total == 2

    The function runs in virtual time. It must run exactly one network: with `netsim.Network.run_async`, on the same
    clock as the function's own sleeps and tasks, or with `netsim.Network.run`. The seed under test replaces the
    network's own seed, and the drawn faults are added to the network's own. Arguments are fixtures, as in any test; an
    argument ``seed`` receives the seed. After each run, actions and watched states that the test added to a network
    from a fixture are removed.

    If the function or an agent raises, or if the network deadlocks, faults and order are shrunk to the necessary ones
    (`netsim.testing.search`), and the test fails with the error of the shrunk run. A note on the error shows seed,
    faults and order as text, and the command that repeats only that run, with the options of netsim's pytest plugin:
    ``--netsim-seed``, ``--netsim-at``, ``--netsim-order``. The replay is written into pytest's cache, or into the
    folder ``--netsim-replays``. The resulting test is not a coroutine function, so pytest's asyncio plugins ignore it.

    Parameters
    ----------
    seeds : iterable of int
        The seeds to run, in this order.
    faults : mapping, callable or iterable of Fault, optional
        As for `netsim.testing.search`: by default none.
    order : bool or {"random", "priorities"}
        As for `netsim.testing.search`.
    invariant : callable or class, optional
        The property to check at each instant, as for `netsim.testing.search`, such as those of `netsim.checkers`.

    Raises
    ------
    BadInput
        If an argument cannot be used, or the test runs no network, or several.
    """
    check.instance("seeds", seeds, Iterable, "whole numbers, such as range(100)")
    # Store the seeds, because a test may be called several times and an iterator could be used only once.
    tried = seeds if isinstance(seeds, Sequence) else tuple(seeds)

    def simulated(test: Test) -> Callable[..., None]:
        if not inspect.isfunction(test) or inspect.isasyncgenfunction(test) or inspect.isgeneratorfunction(test):
            raise check.refuse("test", test, "a function, `async def` or plain")
        if hasattr(test, "hypothesis"):
            raise check.refuse("test", test.__name__, "without given(…), which belongs above simulate(…)")
        signature = inspect.signature(test)
        takes_seed = "seed" in signature.parameters

        @functools.wraps(test)
        def run(*args: Any, **arguments: Any) -> None:
            __tracebackhide__ = True
            call = CALL.get()
            program = _Body(test, args, arguments, takes_seed, call)
            trials = Trials(program, (lambda agents: True) if invariant is None else invariant, faults)
            if call is None or (call.at is None and call.order is None):
                found = trials.search(tried if call is None or call.seed is None else [call.seed], order)
            else:
                with appending(call.at):
                    found = trials.repeat(call.seed or 0, Order.parse(call.order or ""))
            if found is not None:
                raise _told(found, call)

        if takes_seed:
            shown = [each for name, each in signature.parameters.items() if name != "seed"]
            vars(run)["__signature__"] = signature.replace(parameters=shown)
        return run

    return simulated


class _Body:
    """The `Program` that calls a test's function."""

    def __init__(
        self, test: Test, args: Sequence[Any], arguments: Mapping[str, Any], takes_seed: bool, call: Call | None
    ) -> None:
        self.name = test.__name__
        self._test, self._args, self._arguments, self._takes_seed = test, args, arguments, takes_seed
        self._call = call

    def play(self, seed: int, refine: Refine) -> BaseException | None:
        def seeded(network: Network, settings: Settings, result: Run) -> Settings:
            return refine(network, replace(settings, seed=seed, link_seed=seed), result)

        arguments = {**self._arguments, **({"seed": seed} if self._takes_seed else {})}
        with ExitStack() as stack:
            for each in (*self._args, *arguments.values()):
                if isinstance(each, Network):
                    stack.enter_context(unscheduled(each))
            stack.enter_context(refined_by(seeded))
            try:
                self._run(arguments)
            except BaseException as error:
                found = _alone(error)
                if not _is_failure(found):
                    raise
                return found
        return None

    def _run(self, arguments: Mapping[str, Any]) -> None:
        if not inspect.iscoroutinefunction(self._test):
            self._test(*self._args, **arguments)
            return
        with aside(), asyncio.Runner(loop_factory=new_loop) as runner:
            runner.run(self._test(*self._args, **arguments))

    def again(self, seed: int, words: str | None, order: Sequence[Change]) -> str:
        call = self._call
        if call is None:
            return f"{self.name} under simulate(seeds=[{seed}], …), with the same faults and order"
        command = f"pytest {shlex.quote(call.node)} --netsim-seed {seed}"
        told = "; ".join(map(str, order))
        if call.at is not None or call.order is not None:
            words, told = call.at or "", call.order or ""
        if words is None:
            # Faults without a text form cannot be given to the command, so it draws and shrinks them again.
            return command
        return f"{command} --netsim-at {quoted(words)} --netsim-order {quoted(told)}"


def _alone(error: BaseException) -> BaseException:
    """Return the only error in an exception group, as a TaskGroup raises it; otherwise the given error."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error


def _is_failure(error: BaseException) -> bool:
    """Return whether an error means that a test failed, rather than a misuse of netsim or a skip."""
    if isinstance(error, Exception):
        return not isinstance(error, NetsimError) or isinstance(error, AgentError | Stalled)
    # `pytest.fail`, or `pytest.raises` without an error in its block, raises an exception of this class.
    pytest = sys.modules.get("pytest")
    return pytest is not None and isinstance(error, pytest.fail.Exception)


def _told(found: Finding, call: Call | None) -> BaseException:
    """Return the error of a finding with a note on how to repeat it, after writing its replay."""
    notes = [found.story]
    if call is not None and call.folder is not None:
        name = re.sub(r"\W+", "-", call.node.rpartition("/")[2].replace(".py::", "-")).strip("-")
        notes.append(_replay(found, call.folder / f"{name}.html"))
    error = found.error
    trace = None if error is None else _own(error.__traceback__)
    if trace is None and call is not None and getattr(error, "__cause__", None) is None:
        # The error was raised in an invariant of netsim or a separate task, for which pytest would show only netsim's
        # code.
        import pytest

        return pytest.fail.Exception("\n".join([found.message, *notes]), pytrace=False)
    error = error or AssertionError(found.message)
    for note in notes:
        error.add_note(note)
    if isinstance(error, NetsimError):
        _cut(trace)
    return error.with_traceback(trace)


def _cut(trace: TracebackType | None) -> None:
    """Truncate a traceback after its last frame outside netsim and asyncio."""
    last = trace
    while trace is not None:
        last = last if trace.tb_frame.f_code.co_filename.startswith(_FOLDERS) else trace
        trace = trace.tb_next
    if last is not None:
        last.tb_next = None


def _replay(found: Finding, path: Path) -> str:
    """Write a finding's replay, and return a line with its path, or with the reason for its absence."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return f"replay: {found.replay(path)}"
    except (NetsimError, OSError) as error:
        return f"replay: not written ({one_line(error)})"


def _own(trace: TracebackType | None) -> TracebackType | None:
    """Return a traceback from the first frame outside netsim and asyncio on; None if there is none."""
    while trace is not None and trace.tb_frame.f_code.co_filename.startswith(_FOLDERS):
        trace = trace.tb_next
    return trace
