"""Helpers shared by tests: runs on one loop and in several processes, one-line errors, and servers."""

import asyncio
import functools
import importlib.util
import inspect
import multiprocessing
import os
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Coroutine, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import netsim
from netsim import Agent, AgentError, Link, Network, Run, latency, loss, topology
from netsim.distributed import UDP, Transport
from netsim.distributed.journal import END, entries
from netsim.run import Probe

PERIOD, PACE = 0.1, 0.5
"""Simulated seconds of a round, and simulated seconds in a real second: a round takes 0.2 real seconds."""

IMPAIRED = Link(
    latency=latency.uniform(5e-3, 40e-3), loss=loss.gilbert_elliott(0.1, 3), rate=1e6, queue=8, mtu=64, corrupt=0.1
)


def slow(*values: Any) -> Any:
    """Return a case of a parametrized test that only ``pytest -m slow`` runs."""
    return pytest.param(*values, marks=pytest.mark.slow)


def only_with(*modules: str) -> pytest.MarkDecorator:
    """Mark tests that need libraries of the extra ``dev``; tests/conftest.py marks them as slow."""
    missing = [each for each in modules if importlib.util.find_spec(each) is None]
    return pytest.mark.skipif(
        bool(missing), reason=f"no {' and no '.join(missing or modules)}: pip install -e '.[dev]'"
    )


def every(names: str | Sequence[str], cases: Iterable[Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Run a test for each of the cases, but as one test.

    pytest needs far longer to collect and report thousands of tests than these tests run, less than a millisecond each.
    A
    failure names its case.
    """
    words, found = names.replace(",", " ").split() if isinstance(names, str) else names, list(cases)

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        def run(**fixtures: Any) -> None:
            for case in found:
                given = dict(zip(words, [case] if len(words) == 1 else case, strict=True))
                try:
                    test(**fixtures, **given)
                except Exception as error:
                    error.add_note(f"with {given}")
                    raise

        functools.update_wrapper(run, test)
        del run.__wrapped__  # type: ignore[attr-defined]
        of_test = inspect.signature(test)
        left = [each for each in of_test.parameters.values() if each.name not in words]
        run.__signature__ = of_test.replace(parameters=left)  # type: ignore[attr-defined]
        return run

    return decorate


def message_of(run: Callable[[], Any], kind: type[BaseException] = AgentError) -> str:
    """Return the one-line message of the error that ``run`` raises; the error must have exactly the given type."""
    with pytest.raises(kind) as caught:
        run()
    assert type(caught.value) is kind
    assert "\n" not in str(caught.value)
    return str(caught.value)


def pseudo_terminal() -> tuple[int, int]:
    """Open a pseudo-terminal, and return its two ends; skip the test if the system has none."""
    try:
        return os.openpty()
    except OSError as error:
        pytest.skip(f"no pseudo-terminal can be opened: {error}")


@contextmanager
def forked_workers() -> Iterator[None]:
    """Let Dask fork its workers from a process with the needed imports; a spawned worker would import for 2 s."""
    import dask
    from distributed.utils import get_mp_context

    if "forkserver" not in multiprocessing.get_all_start_methods():
        yield
        return
    with dask.config.set({"distributed.worker.multiprocessing-method": "forkserver"}):
        needed = ["netsim.parallel.cluster", "netsim.scenarios.coke", "netsim.studies.sweeps.cluster"]
        get_mp_context().set_forkserver_preload(["distributed", "matplotlib.pyplot", "pandas", *needed])
        yield


def on_loop(main: Callable[[], Coroutine[Any, Any, Any]], **settings: Any) -> Any:
    """Run a coroutine on netsim's event loop, in virtual time by default."""
    with asyncio.Runner(loop_factory=lambda: netsim.clock.new_loop(**settings)) as runner:
        return runner.run(main())


# --- in several parts, as processes run them, but in threads of this one ----------------------------------------------

Made = tuple[Network, dict[Any, Agent]]


class Average(Agent):
    """Averages a vector with those of its neighbours; the order of frames affects the last bit."""

    def __init__(self, value: float, rounds: int = 12) -> None:
        self.value = np.linspace(value, value**2 / 7 + 0.1, 20)
        self.count = rounds

    async def run(self) -> None:
        async for _ in self.rounds(self.count):
            await self.broadcast("state", self.value)
            heard = [frame.payload for frame in await self.collect()]
            self.value = sum(heard, self.value) / (1 + len(heard))


def averaging(link: Link, rounds: int = 10) -> Made:
    """Return a network and twelve averaging agents for it, before a run."""
    graph = topology.random_geometric(12, radius=0.6, seed=1)
    network = Network(graph, link, round_period=PERIOD, seed=7)
    return network, {name: Average(float(name), rounds) for name in graph}


def spread(agents: Mapping[Hashable, Any]) -> dict[str, float]:
    """Return the spread of the agents' values, and their sum."""
    values = np.stack([agent.value for agent in agents.values()])
    return {"spread": float(np.ptp(values[:, 0])), "sum": float(values.sum())}


def shares(names: Sequence[str], agents: Sequence[Hashable]) -> dict[str, dict[str, list[Hashable]]]:
    """Return, for each process, the other processes with their agents; agents are dealt to processes in turn."""
    place = {name: list(agents[i :: len(names)]) for i, name in enumerate(names)}
    return {here: {name: place[name] for name in names if name != here} for here in names}


def played(
    make: Callable[[], Made] | Mapping[str, Callable[[], Made]],
    transports: Mapping[str, Transport],
    probes: Sequence[Probe] = (spread,),
    **settings: Any,
) -> dict[str, Run | BaseException]:
    """Run each part in a thread; return the run or error of each. Parts may make different networks."""
    outcome: dict[str, Run | BaseException] = {}

    def play(name: str, transport: Transport) -> None:
        network, agents = (make if callable(make) else make[name])()
        try:
            outcome[name] = network.run(agents, probes, transport=transport, **settings)
        except BaseException as error:
            outcome[name] = error

    threads = [threading.Thread(target=play, args=item, daemon=True) for item in transports.items()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert len(outcome) == len(transports), "a part hangs"
    return outcome


# --- over UDP ---------------------------------------------------------------------------------------------------------


def addresses(count: int) -> list[str]:
    """Return ``count`` addresses with free ports on this machine."""
    held = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(count)]
    for each in held:
        each.bind(("127.0.0.1", 0))
    found = sorted(f"127.0.0.1:{each.getsockname()[1]}" for each in held)
    for each in held:
        each.close()
    return found


def in_parts(
    make: Callable[[], Made],
    folder: Path | None,
    *,
    parts: int = 4,
    peers: Mapping[str, Mapping[str, Sequence[Hashable]]] | None = None,
    probes: Sequence[Probe] = (),
    sample: float | None = None,
    **settings: Any,
) -> dict[str, Run | BaseException]:
    """Run a network in parts over UDP; return the run or error of each part by its address."""
    peers = peers or shares(addresses(parts), list(make()[0].graph))
    transports = {here: UDP(here, others, folder=folder, **settings) for here, others in peers.items()}
    return played(make, transports, probes, sample=sample)


def deployed(
    make: Callable[[], Made], folder: Path, probes: Sequence[Probe] = (), *, pace: float = PACE, **settings: Any
) -> tuple[Run, Any]:
    """Run a network in parts over UDP; return the merged run and its agents."""

    def play(place: Path, pace: float) -> None:
        for here, outcome in in_parts(make, place, probes=probes, pace=pace, **settings).items():
            if isinstance(outcome, BaseException):
                raise AssertionError(here) from outcome

    place = in_time(play, folder, pace)
    network, agents = make()
    return netsim.distributed.merge_parts(network, agents, place, probes, trace=True), agents


def in_time(play: Callable[[Path, float], None], folder: Path, pace: float = PACE) -> Path:
    """Play a run into a folder; repeat it at half the pace while the machine is late by a fifth of a round."""
    for attempt in range(4):
        place = folder / str(attempt)
        play(place, pace / 2**attempt)
        if longest_lag(place) < PERIOD / pace * 2**attempt / 5:
            break
    return place


def longest_lag(folder: Path) -> float:
    """Return the largest delay (real seconds) of any part of run 0."""
    parts = [dict(entries(path)) for path in folder.glob("run-0/*.journal")]
    return max(float(part[END]["longest_lag"]) for part in parts)


def relaxed(deploy: Callable[[float, Path], None], folder: Path) -> Path:
    """Deploy a study, with longer rounds if the machine was late; return its folder."""
    for seconds in (0.3, 0.6, 1.2):
        out = folder / f"rounds of {seconds}"
        deploy(seconds, out)
        if pd.read_csv(out / "processes.csv")["longest_lag_s"].max() < seconds / 5:
            break
    return out


def assert_as_simulated(make: Callable[[], Made], folder: Path) -> Run:
    """Merge the parts of a run, and check that they equal the simulation; return the simulated run."""
    network, agents = make()
    simulated = network.run(agents, [spread], trace=True)
    network, gathered_agents = make()
    gathered = netsim.distributed.merge_parts(network, gathered_agents, folder, [spread], trace=True)
    for name, agent in agents.items():
        assert np.array_equal(vars(agent)["value"], vars(gathered_agents[name])["value"]), name
    must_be_the_same(simulated, gathered)
    return simulated


def must_be_the_same(simulated: Run, run: Run) -> None:
    """Check that a run merged from parts equals the simulation to the last bit."""
    pd.testing.assert_frame_equal(simulated.rounds, run.rounds[simulated.rounds.columns], check_exact=True)
    assert (run.rounds["missing"] == 0).all()
    assert run.trace_hash == simulated.trace_hash
    assert run.trace.hash == run.trace_hash
    by = ["sender", "receiver", "kind"]
    ours, theirs = (each.ledger.table().set_index(by).sort_index() for each in (run, simulated))
    assert (ours.pop("missing") == 0).all()
    assert ours.equals(theirs)
    assert run.ledger.senders_table().equals(simulated.ledger.senders_table())
    assert run.ended_at == simulated.ended_at


# --- servers ----------------------------------------------------------------------------------------------------------


def program(name: str) -> str | None:
    """Return the path of a server program, or None if it is not installed."""
    return shutil.which(name, path=os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin"]))


def free_port() -> int:
    """Return a free TCP port of the loopback interface."""
    with socket.socket() as made:
        made.bind(("127.0.0.1", 0))
        return int(made.getsockname()[1])


@contextmanager
def serving(command: Sequence[str | Path], port: int, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run a server within the context; it is ready when its port accepts connections."""
    with log.open("wb") as file, subprocess.Popen(command, stdout=file, stderr=file) as process:
        try:
            give_up = time.monotonic() + 60
            while True:
                try:
                    socket.create_connection(("127.0.0.1", port), 1).close()
                    break
                except OSError:
                    assert process.poll() is None, log.read_text()
                    assert time.monotonic() < give_up, log.read_text()
                    time.sleep(0.02)
            yield process
        finally:
            process.kill()


@contextmanager
def mosquitto(folder: Path, more: Sequence[str] = ("allow_anonymous true",)) -> Iterator[tuple[str, Any]]:
    """Run a new MQTT broker; yield its address and its process."""
    port = free_port()
    lines = [f"listener {port} 127.0.0.1", "set_tcp_nodelay true", "user root", *more]
    settings = folder / "mosquitto.conf"
    settings.write_text("\n".join(lines) + "\n")
    with serving([program("mosquitto") or "", "-c", settings], port, folder / "mosquitto.log") as process:
        yield f"127.0.0.1:{port}", process
