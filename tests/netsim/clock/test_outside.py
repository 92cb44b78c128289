"""Devices and sockets: allowed in real time (docs/devices.md), refused with a one-line error in virtual time."""

import asyncio
import runpy
import socket
import subprocess
import sys
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from netsim import AgentError, Network, topology
from netsim.testing import Actor, Listener
from tests.command import ROOT

SCRIPT = ROOT / "docs" / "examples" / "device.py"


def test_a_device_in_a_process_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    code = f"import runpy; runpy.run_path({str(SCRIPT)!r})['device']({port}, readings=3)"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as device:
        run = runpy.run_path(str(SCRIPT))["network_run"](port)
        printed, _ = device.communicate(timeout=60)
    readings = ["20.0 °C", "20.5 °C", "21.0 °C"]
    assert run.agents["sink"].readings == readings
    assert printed.splitlines() == [*(f"{each} delivered" for each in readings), "end delivered"]
    assert run.ledger.table(by=["kind"]).set_index("kind")["delivered"]["reading"] == 2 * 4


async def _datagrams(loop: asyncio.AbstractEventLoop) -> None:
    await loop.create_datagram_endpoint(asyncio.DatagramProtocol, local_addr=("127.0.0.1", 0))


async def _stream(loop: asyncio.AbstractEventLoop) -> None:
    await asyncio.open_connection("127.0.0.1", 9)


async def _server(loop: asyncio.AbstractEventLoop) -> None:
    await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 0)


async def _socket(loop: asyncio.AbstractEventLoop) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as line:
        line.bind(("127.0.0.1", 0))
        line.setblocking(False)
        await loop.sock_recv(line, 10)


async def _reader(loop: asyncio.AbstractEventLoop) -> None:
    loop.add_reader(0, print)


async def _subprocess(loop: asyncio.AbstractEventLoop) -> None:
    await asyncio.create_subprocess_exec("true")


@pytest.mark.parametrize(
    ("use", "name"),
    [
        (_datagrams, "create_datagram_endpoint"),
        (_stream, "create_connection"),
        (_server, "create_server"),
        (_socket, "sock_recv"),
        (_reader, "add_reader"),
        (_subprocess, "subprocess_exec"),
    ],
)
def test_what_waits_for_another_process_is_refused_in_virtual_time(
    use: Callable[[asyncio.AbstractEventLoop], Coroutine[Any, Any, None]], name: str
) -> None:
    async def talk(agent: Any) -> None:
        await use(asyncio.get_running_loop())

    with pytest.raises(AgentError) as caught:
        Network(topology.path(2)).run({0: Actor(talk), 1: Listener()})
    assert f"loop.{name}: must go with clock='wall' in Network.run: virtual time jumps" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_threads_work_in_virtual_time() -> None:
    async def talk(agent: Any) -> None:
        agent.log.append(await asyncio.to_thread(sum, [1, 2]))

    run = Network(topology.path(2)).run({0: Actor(talk), 1: Listener()}, until=1.0)
    assert run.agents[0].log == [3]
