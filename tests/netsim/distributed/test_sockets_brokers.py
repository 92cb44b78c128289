"""Datagrams over message brokers: one network in several parts, connected by a real mosquitto or nats-server."""

import asyncio
import gc
import multiprocessing
import os
import runpy
import signal
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import netsim
from netsim import BadInput, Link, NetsimError
from netsim.distributed import MQTT, Transport
from tests.command import ROOT
from tests.parts import (
    IMPAIRED,
    PACE,
    assert_as_simulated,
    averaging,
    free_port,
    in_time,
    message_of,
    mosquitto,
    only_with,
    played,
    program,
    serving,
    shares,
    slow,
    spread,
)

pytest.importorskip("aiomqtt", reason="no aiomqtt: pip install '.[test]'")
needs_broker = pytest.mark.skipif(program("mosquitto") is None, reason="no mosquitto: apt-get install mosquitto")

NAMES = ["a", "b", "c", "d"]
PEERS = shares(NAMES, range(12))


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with mosquitto(tmp_path_factory.mktemp("broker")) as (address, _):
        yield address


def transports(broker: str, **settings: Any) -> dict[str, MQTT]:
    return {name: MQTT(broker, name, PEERS[name], **({"pace": PACE} | settings)) for name in NAMES}


async def failed(transport: Transport) -> None:
    """Wait until the transport has failed."""
    async with asyncio.timeout(20):
        while transport.failure is None:
            await asyncio.sleep(0.01)


async def heard(transport: MQTT, seconds: float = 5.0, count: int = 1) -> list[bytes]:
    """Return up to ``count`` datagrams; stop earlier after ``seconds`` without one."""
    came: asyncio.Queue[bytes] = asyncio.Queue()
    transport.receive_with(came.put_nowait)
    found: list[bytes] = []
    try:
        while len(found) < count:
            found.append(await asyncio.wait_for(came.get(), seconds))
    except TimeoutError:
        pass
    return found


# --- runs -------------------------------------------------------------------------------------------------------------


@needs_broker
@pytest.mark.parametrize("link", [Link(), slow(IMPAIRED)], ids=["ideal", "impaired"])
def test_parts_are_the_simulation(broker: str, link: Link, tmp_path: Path) -> None:
    def play(folder: Path, pace: float) -> None:
        topic = f"t/{tmp_path.name}/{pace}"
        outcome = played(lambda: averaging(link), transports(broker, topic=topic, folder=folder, pace=pace))
        assert [type(each) for each in outcome.values()] == [netsim.Run] * 4, outcome

    simulated = assert_as_simulated(lambda: averaging(link), in_time(play, tmp_path))
    lost = simulated.rounds["lost"].iloc[-1]
    assert (lost > 0) == (link is IMPAIRED)


@pytest.mark.slow
@needs_broker
def test_a_broker_that_dies_ends_all_parts_in_one_line(tmp_path: Path) -> None:
    with mosquitto(tmp_path) as (address, process):
        rows: list[int] = []

        def note(row: int) -> None:
            rows.append(row)
            if row == 3:
                process.kill()

        # The test stops the run long before its 10,000 rounds are over.
        outcome = played(lambda: averaging(Link(), 10_000), transports(address), progress=note)
    line = f"broker = '{address}': the connection was lost (closed by the broker)"
    for name in NAMES:
        assert type(outcome[name]) is NetsimError, outcome
        assert str(outcome[name]) == line
    assert 3 <= max(rows) < 20


@pytest.mark.slow
@needs_broker
@pytest.mark.parametrize("sends", [1, 3])
def test_a_broker_that_dies_as_something_is_sent_is_a_failure_and_no_error(tmp_path: Path, sends: int) -> None:
    async def main() -> tuple[str, list[Any]]:
        errors: list[Any] = []
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: errors.append(context))
        with mosquitto(tmp_path) as (address, process):
            transport = MQTT(address, "a", {"b": [1]})
            await transport.open()
            process.kill()
            process.wait()
            # The broker has closed the connection; the loop notices it in the pass in which the next message is sent.
            await asyncio.sleep(0)
            for _ in range(sends):
                transport.send("b", b"data")
            await failed(transport)
            await transport.close()
        return str(transport.failure).replace(address, "HERE"), errors

    failure, errors = asyncio.run(main())
    assert failure == "broker = 'HERE': the connection was lost (closed by the broker)"
    assert errors == []


# --- brokers that are not there ---------------------------------------------------------------------------------------


def test_no_broker_is_one_line() -> None:
    address = f"127.0.0.1:{free_port()}"
    network, agents = averaging(Link())
    with pytest.raises(NetsimError) as caught:
        network.run(agents, transport=MQTT(address, "a", PEERS["a"]))
    assert str(caught.value) == f"broker = '{address}': cannot be reached (Connection refused)"


def test_a_broker_that_says_nothing_is_one_line_after_a_while() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        network, agents = averaging(Link())
        with pytest.raises(NetsimError, match=f"^broker = '{address}': cannot be reached \\(Operation timed out\\)$"):
            network.run(agents, transport=MQTT(address, "a", PEERS["a"], patience=0.3))


@needs_broker
def test_a_broker_asks_for_a_password(tmp_path: Path) -> None:
    maker = program("mosquitto_passwd")
    assert maker
    subprocess.run([maker, "-b", "-c", tmp_path / "known", "me", "secret"], check=True, capture_output=True)
    with mosquitto(tmp_path, ["allow_anonymous false", f"password_file {tmp_path / 'known'}"]) as (address, _):

        async def meet(**login: str) -> list[bytes]:
            one, other = MQTT(address, "a", {"b": [1]}, **login), MQTT(address, "b", {"a": [0]}, **login)
            await one.open()
            await other.open()
            one.send("b", b"data")
            found = await heard(other)
            await one.close()
            await other.close()
            return found

        assert asyncio.run(meet(username="me", password="secret")) == [b"data"]
        for login in ({}, {"username": "me", "password": "wrong"}):
            with pytest.raises(NetsimError, match=rf"^broker = '{address}': cannot be reached \(Not authorized\)$"):
                asyncio.run(meet(**login))


@pytest.mark.slow
@needs_broker
@pytest.mark.filterwarnings("ignore:.*SSLSocket:pytest.PytestUnraisableExceptionWarning")
@pytest.mark.skipif(program("openssl") is None, reason="no openssl, which makes a certificate")
def test_the_connection_may_be_encrypted(tmp_path: Path) -> None:
    certificate, key = tmp_path / "certificate.pem", tmp_path / "key.pem"
    name = ["-subj", "/CN=here", "-addext", "subjectAltName=IP:127.0.0.1"]
    make = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", *name]
    subprocess.run([*make, "-keyout", key, "-out", certificate], check=True, capture_output=True)

    async def meet(address: str, tls: ssl.SSLContext | None) -> list[bytes]:
        one, other = MQTT(address, "a", {"b": [1]}, tls=tls), MQTT(address, "b", {"a": [0]}, tls=tls)
        await one.open()
        await other.open()
        sent = [os.urandom(100_000) for _ in range(20)]
        for data in sent:
            one.send("b", data)
        found = await heard(other, count=len(sent))
        await one.close()
        await other.close()
        assert found == sent
        return found

    more = ["allow_anonymous true", f"certfile {certificate}", f"keyfile {key}"]
    with mosquitto(tmp_path, more) as (address, _):
        assert asyncio.run(meet(address, ssl.create_default_context(cafile=str(certificate))))
        with pytest.raises(NetsimError, match=rf"^broker = '{address}': cannot be reached \(.*self.signed"):
            asyncio.run(meet(address, ssl.create_default_context()))
        # After a failed handshake, paho leaves closing the socket to the garbage collector.
        gc.collect()


# --- sending ----------------------------------------------------------------------------------------------------------


@needs_broker
def test_datagrams_come_whole_and_in_order_to_whom_they_are_for(broker: str) -> None:
    sent = [b"", b"\0\xff\n", os.urandom(MQTT.most)] + [bytes([number]) for number in range(100)]

    async def main() -> tuple[list[bytes], list[bytes]]:
        one, other = MQTT(broker, "1", {"2": [2], "3": [3]}), MQTT(broker, "2", {"1": [1], "3": [3]})
        third = MQTT(broker, "3", {"1": [1], "2": [2]})
        for each in (one, other, third):
            await each.open()
        for data in sent:
            one.send("2", data)
        found = await asyncio.gather(heard(other, count=len(sent)), heard(third, 0.3))
        for each in (one, other, third):
            await each.close()
        return found[0], found[1]

    assert asyncio.run(main()) == (sent, [])


@pytest.mark.slow
@needs_broker
def test_what_waits_is_bounded_and_the_rest_is_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("netsim.distributed.mqtt._MAX_QUEUED", 1 << 20)
    sent = [number.to_bytes(4, "big") + bytes(100_000) for number in range(500)]

    async def main(address: str, process: Any) -> tuple[list[bytes], list[bytes]]:
        one, other = MQTT(address, "1", {"2": [2]}), MQTT(address, "2", {"1": [1]})
        await one.open()
        await other.open()
        process.send_signal(signal.SIGSTOP)
        for data in sent:
            one.send("2", data)
            await asyncio.sleep(0)
        process.send_signal(signal.SIGCONT)
        found = await heard(other, 2.0, len(sent))
        # Once all messages are read, the queue accepts new ones.
        one.send("2", b"after")
        after = await heard(other)
        await one.close()
        await other.close()
        return found, after

    with mosquitto(tmp_path) as (address, process):
        found, after = asyncio.run(main(address, process))
    assert 10 <= len(found) < len(sent)
    assert found == sent[: len(found)]
    assert after == [b"after"]


@needs_broker
def test_nothing_is_left_behind(broker: str, tmp_path: Path) -> None:
    async def main() -> None:
        transport = MQTT(broker, "a", {"b": [1]})
        for _ in range(3):
            await transport.open()
            transport.send("b", b"data")
            await transport.close()
            assert asyncio.all_tasks() == {asyncio.current_task()}
        transport.send("b", b"too late")
        with mosquitto(tmp_path) as (address, process):
            transport = MQTT(address, "a", {"b": [1]})
            await transport.open()
            process.kill()
            await failed(transport)
            transport.send("b", b"too late")
            await transport.close()
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(main())


# --- bad input --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "line"),
    [
        ({"broker": "nowhere"}, "broker = 'nowhere': must be an address like 127.0.0.1:9000 or [::1]:9000"),
        ({"here": "a/b"}, "here = 'a/b': must be a name without / + #: it is a level of a topic"),
        ({"peers": {"+": [1]}}, "peers = '+': must be a name without / + #: it is a level of a topic"),
        ({"peers": {"b#": [1]}}, "peers = 'b#': must be a name without / + #: it is a level of a topic"),
        ({"topic": "a/#"}, "topic = 'a/#': must be 1 to 200 characters without + and #, the first not $"),
        ({"topic": "$SYS"}, "topic = '$SYS': must be 1 to 200 characters without + and #, the first not $"),
        ({"topic": ""}, "topic = '': must be 1 to 200 characters without + and #, the first not $"),
        (
            {"broker": "192.0.2.1:1883"},
            "broker = '192.0.2.1:1883': must be a loopback address unless a key is given: anybody could send",
        ),
    ],
)
def test_bad_input_is_one_line(settings: dict[str, Any], line: str) -> None:
    assert (
        message_of(lambda: MQTT(**{"broker": "127.0.0.1:1883", "here": "a", "peers": {"b": [1]}} | settings), BadInput)
        == line
    )


def test_a_broker_elsewhere_is_taken_with_a_key() -> None:
    MQTT("192.0.2.1:1883", "a", {"b": [1]}, key=bytes(16))


def test_without_aiomqtt_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "aiomqtt", None)
    line = r"^netsim.MQTT: must go with aiomqtt, which is not installed: in netsim's clone, pip install '\.\[mqtt\]'$"
    with pytest.raises(BadInput, match=line):
        MQTT("127.0.0.1:1883", "a", {"b": [1]})


# --- the transports of docs/examples, between two processes ---------------------------------------------------------

EXAMPLES = ROOT / "docs" / "examples"
SPAWN = multiprocessing.get_context("spawn")


def made(example: str, *args: Any, **settings: Any) -> Any:
    """Create a transport from the one class that a documentation example defines."""
    module = runpy.run_path(str(EXAMPLES / f"{example}_transport.py"))
    [kind] = [each for each in module.values() if isinstance(each, type) and each.__module__ == "<run_path>"]
    return kind(*args, **settings)


def play(example: str, *args: Any, **settings: Any) -> None:
    """Run one part of a network in a separate process."""
    network, agents = averaging(IMPAIRED)
    network.run(agents, [spread], transport=made(example, *args, **settings))


def play_both(example: str, names: list[str], folder: Path, *first: str) -> None:
    def both(place: Path, pace: float) -> None:
        processes = [
            SPAWN.Process(
                target=play, args=(example, *first, here, peers), kwargs={"folder": place, "pace": pace}, daemon=True
            )
            for here, peers in shares(names, range(12)).items()
        ]
        for process in processes:
            process.start()
        for process in processes:
            process.join(100)
        assert [process.exitcode for process in processes] == [0, 0]

    assert_as_simulated(lambda: averaging(IMPAIRED), in_time(both, folder, PACE / 2))


@pytest.fixture
def nats_server(tmp_path: Path) -> Any:
    server = program("nats-server")
    if server is None:
        pytest.skip("no nats-server: apt-get install nats-server")
    port = free_port()
    with serving([server, "-a", "127.0.0.1", "-p", str(port)], port, tmp_path / "nats.log") as process:
        yield f"nats://127.0.0.1:{port}", process


@only_with("nats")
def test_nats_parts_are_the_simulation(nats_server: Any, tmp_path: Path) -> None:
    play_both("nats", ["a", "b"], tmp_path / "parts", nats_server[0])


@only_with("nats")
def test_nats_says_that_the_server_is_gone(nats_server: Any) -> None:
    address, process = nats_server

    async def main() -> list[str]:
        transport = made("nats", address, "a", {"b": [1]})
        transport.receive_with(lambda data: None)
        await transport.open()
        process.kill()
        await failed(transport)
        transport.send("b", b"too late")
        await transport.close()
        assert asyncio.all_tasks() == {asyncio.current_task()}
        with pytest.raises(NetsimError) as caught:
            await transport.open()
        return [str(transport.failure), str(caught.value)]

    lost, absent = asyncio.run(main())
    assert lost == f"server = '{address}': the connection was lost"
    assert absent.startswith(f"server = '{address}': cannot be reached (")


@only_with("zmq")
def test_zeromq_parts_are_the_simulation(tmp_path: Path) -> None:
    play_both("zeromq", [f"127.0.0.1:{free_port()}" for _ in range(2)], tmp_path / "parts")


@only_with("zmq")
def test_zeromq_says_that_an_address_is_taken() -> None:
    import zmq

    here = f"127.0.0.1:{free_port()}"
    with zmq.Context() as context, context.socket(zmq.PULL) as other:
        other.bind(f"tcp://{here}")
        with pytest.raises(NetsimError, match=f"^here = '{here}': must be an available address \\(Address alr"):
            asyncio.run(made("zeromq", here, {"127.0.0.1:1": [1]}).open())
