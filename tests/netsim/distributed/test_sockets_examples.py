"""The transports of docs/examples, between two processes, with real servers and sockets."""

import asyncio
import multiprocessing
import runpy
from pathlib import Path
from typing import Any

import pytest

from netsim import NetsimError
from tests.command import ROOT
from tests.parts import (
    IMPAIRED,
    PACE,
    PERIOD,
    assert_as_simulated,
    averaging,
    free_port,
    longest_lag,
    program,
    serving,
    shares,
    spread,
)

EXAMPLES = ROOT / "docs" / "examples"
SPAWN = multiprocessing.get_context("spawn")


def made(example: str, *args: Any, **settings: Any) -> Any:
    """Return a transport of an example: its one class."""
    module = runpy.run_path(str(EXAMPLES / f"{example}_transport.py"))
    [kind] = [each for each in module.values() if isinstance(each, type) and each.__module__ == "<run_path>"]
    return kind(*args, **settings)


def play(example: str, *args: Any, **settings: Any) -> None:
    """Play a part of a run, in a process of its own."""
    network, agents = averaging(IMPAIRED)
    network.run(agents, [spread], transport=made(example, *args, **settings))


def play_both(example: str, names: list[str], folder: Path, *first: str) -> None:
    for pace in (PACE / 2, PACE / 4, PACE / 8):
        settings = {"folder": folder / str(pace), "pace": pace}
        processes = [
            SPAWN.Process(target=play, args=(example, *first, here, peers), kwargs=settings, daemon=True)
            for here, peers in shares(names, range(12)).items()
        ]
        for process in processes:
            process.start()
        for process in processes:
            process.join(100)
        assert [process.exitcode for process in processes] == [0, 0]
        # Where the machine came late, again with more time.
        if longest_lag(folder / str(pace)) < PERIOD / pace / 5:
            break
    assert_as_simulated(lambda: averaging(IMPAIRED), folder / str(pace))


@pytest.fixture
def nats_server(tmp_path: Path) -> Any:
    pytest.importorskip("nats", reason="no nats-py: pip install nats-py")
    server = program("nats-server")
    if server is None:
        pytest.skip("no nats-server: apt-get install nats-server")
    port = free_port()
    with serving([server, "-a", "127.0.0.1", "-p", str(port)], port, tmp_path / "nats.log") as process:
        yield f"nats://127.0.0.1:{port}", process


@pytest.mark.slow
def test_nats_parts_are_the_simulation(nats_server: Any, tmp_path: Path) -> None:
    play_both("nats", ["a", "b"], tmp_path / "parts", nats_server[0])


def test_nats_says_that_the_server_is_gone(nats_server: Any) -> None:
    address, process = nats_server

    async def main() -> list[str]:
        transport = made("nats", address, "a", {"b": [1]})
        transport.receive_with(lambda data: None)
        await transport.open()
        process.kill()
        async with asyncio.timeout(20):
            while transport.failure is None:
                await asyncio.sleep(0.01)
        transport.send("b", b"nobody takes it")
        await transport.close()
        assert asyncio.all_tasks() == {asyncio.current_task()}
        with pytest.raises(NetsimError) as caught:
            await transport.open()
        return [str(transport.failure), str(caught.value)]

    lost, absent = asyncio.run(main())
    assert lost == f"server = '{address}': the connection was lost"
    assert absent.startswith(f"server = '{address}': cannot be reached (")


@pytest.mark.slow
def test_zeromq_parts_are_the_simulation(tmp_path: Path) -> None:
    pytest.importorskip("zmq", reason="no pyzmq: pip install pyzmq")
    play_both("zeromq", [f"127.0.0.1:{free_port()}" for _ in range(2)], tmp_path / "parts")


def test_zeromq_says_that_an_address_is_taken() -> None:
    zmq = pytest.importorskip("zmq", reason="no pyzmq: pip install pyzmq")
    here = f"127.0.0.1:{free_port()}"
    with zmq.Context() as context, context.socket(zmq.PULL) as other:
        other.bind(f"tcp://{here}")
        with pytest.raises(NetsimError, match=f"^here = '{here}': must be an available address \\(Address alr"):
            asyncio.run(made("zeromq", here, {"127.0.0.1:1": [1]}).open())
