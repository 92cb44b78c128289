"""The server of a lab: access control and branches; each branch equals the run of its command."""

import http.client
import json
import os
import random
import re
import shlex
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import click
import numpy as np
import pytest

from netsim.replay.html import as_json
from netsim.studies.catalogue import StudyDefinition, find_study
from netsim.studies.cli import _at
from netsim.studies.laboratory.server import LabServer
from netsim.studies.laboratory.worker import simulate
from netsim.studies.options import options_of
from tests.command import call

MAKE = '''"""A sum that all get to know."""
from netsim import Agent, Link, Network, topology


class Adder(Agent):
    def __init__(self, value):
        self.value = value

    async def run(self):
        async for k in self.rounds(8):
            await self.broadcast("x", self.value)
            for frame in await self.collect():
                self.value += frame.payload / 4


def make(*, agents: int = 4, loss: float = 0.1, seed: int = 1):
    graph = topology.ring(agents)
    network = Network(graph, Link(latency=0.1, loss=loss), seed=seed)
    network.watch(["value"])
    return network, {i: Adder(float(i)) for i in graph}
'''


def test_it_is_told_how_far_a_network_of_ones_own_is(tmp_path: Path) -> None:
    path, told = tmp_path / "mine.py", list[dict[str, Any]]()
    path.write_text(MAKE)
    assert not simulate(str(path), {}, "", "", "", told.append)["error"]
    assert told[0] == {"progress": "run: 1 rounds"}


class Client:
    """A client that sends the same requests as a lab's page."""

    def __init__(self, address: str) -> None:
        parts = urlsplit(address)
        self.host, self.path, self.seen = parts.netloc, parts.path, 0

    def post(self, rest: str, body: bytes) -> tuple[int, str]:
        """Send bytes that need not be JSON; return the status and text of the answer."""
        connection = http.client.HTTPConnection(self.host, timeout=60)
        headers = {"Content-Type": "application/json", "Origin": f"http://{self.host}"}
        try:
            connection.request("POST", self.path + rest, body, headers)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    def ask(
        self, method: str, rest: str, body: Any = None, headers: dict[str, str] | None = None, path: str | None = None
    ) -> tuple[int, Any]:
        connection = http.client.HTTPConnection(self.host, timeout=60)
        given = {"Content-Type": "application/json", "Origin": f"http://{self.host}"} if method == "POST" else {}
        text = None if body is None else json.dumps(body)
        try:
            connection.request(method, (self.path if path is None else path) + rest, text, given | (headers or {}))
            answer = connection.getresponse()
            content = answer.read().decode()
        finally:
            connection.close()
        return answer.status, json.loads(content) if content.startswith("{") else content

    def until(self, holds: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """Wait until the state of the lab meets a condition, and return the state."""
        deadline = time.monotonic() + 60
        self.seen = 0
        while True:
            _, state = self.ask("GET", f"state?seen={self.seen}")
            self.seen = state["version"]
            if holds(state):
                return dict(state)
            assert time.monotonic() < deadline, state

    def settled(self) -> dict[str, Any]:
        """Wait until every branch is simulated; return the state with an additional dict of branches by number."""
        state = self.until(lambda state: all(row["state"] in ("done", "failed") for row in state["branches"]))
        return state | {"by_number": {row["number"]: row for row in state["branches"]}}


def edit(file: Path, text: str, *, at: float) -> None:
    """Replace a file's text and time in one step; a lab that looked between the two would read the file twice."""
    new = file.with_suffix(".new")
    new.write_text(text)
    os.utime(new, (at, at))
    new.replace(file)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "adder.py"
    path.write_text(MAKE)
    return path


@pytest.fixture
def client(file: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Client]:
    """A lab that simulates in this process, because a worker process would spend seconds on imports."""
    monkeypatch.setattr(
        "netsim.studies.laboratory.process.Worker.simulate",
        lambda self, request, progress: simulate(**request, answer=lambda what: None),
    )
    with LabServer(str(file), {}, browser=False, report=lambda line: None) as server:
        yield Client(server.address)


@pytest.fixture
def apart(file: Path) -> Iterator[Client]:
    """A lab with a separate worker process, as used normally."""
    with LabServer(str(file), {}, browser=False, report=lambda line: None) as server:
        yield Client(server.address)


def test_only_its_own_page_may_act(client: Client) -> None:
    fault = {"branch": 0, "text": "2.5 crash 1"}
    assert client.ask("GET", "")[0] == 200
    assert client.ask("GET", "", path="/another-token/")[0] == 404
    assert client.ask("GET", "", headers={"Host": "example.org"})[0] == 421
    assert client.ask("POST", "fault", fault, path="/another-token/")[0] == 404
    assert client.ask("POST", "fault", fault, headers={"Host": "example.org"})[0] == 421
    for origin in ("http://example.org", "null", f"https://{client.host}"):
        assert client.ask("POST", "fault", fault, headers={"Origin": origin})[0] == 403
    assert client.ask("POST", "fault", fault, headers={"Content-Type": "text/plain"})[0] == 400
    assert client.ask("POST", "quit", fault)[0] == 404
    assert client.ask("GET", "branch/0/9")[0] == 404
    assert len(client.settled()["branches"]) == 1


def test_a_branch_is_what_its_command_makes(client: Client, file: Path, tmp_path: Path) -> None:
    assert client.ask("POST", "fault", {"branch": 0, "text": "2.5 crash 1"})[1]["branch"] == 1
    assert client.ask("POST", "fault", {"branch": 1, "text": "4.5 restart 1"})[1]["branch"] == 2
    assert client.ask("POST", "fault", {"branch": 0, "text": "3 lose 0-1"})[1]["branch"] == 3
    rows = client.settled()["by_number"]
    assert len({row["hash"] for row in rows.values()}) == 4
    for number, row in rows.items():
        at = [] if not row["at"] else ["--at", row["at"]]
        done = call("run", str(file), *at, "--out", str(tmp_path / f"out{number}"), cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        summary = json.loads((tmp_path / f"out{number}" / "summary.json").read_text())
        assert summary["trace_hash"] == row["hash"]
        exec(compile(row["script"], "script", "exec"), {})


def test_whatever_was_clicked_before_a_branch_is_the_same(client: Client, file: Path) -> None:
    for text in ("1.5 cut 0-1", "2.5 crash 1", "3 delay 2 by 0.2"):
        client.ask("POST", "fault", {"branch": 0, "text": text})
    client.ask("POST", "settings", {"values": {"loss": 0.5}, "branch": 0})
    client.ask("POST", "delete", {"branch": 1})
    client.ask("POST", "settings", {"values": {"loss": 0.1}, "branch": 0})
    rows = client.settled()["by_number"]
    assert list(rows) == [0, 2, 3]
    assert rows[2]["hash"] == find_study(str(file)).execute(at="2.5 crash 1").trace_hash


def test_before_the_fault_a_branch_is_its_parent(file: Path) -> None:
    when = 3.55
    usual = find_study(str(file)).execute(trace=True).runs["run"].trace.table()
    for text in ("crash 1", "cut 0-1", "lose 0-1", "delay 2 by 0.2", "partition 0,1"):
        branch = find_study(str(file)).execute(trace=True, at=f"{when} {text}").runs["run"].trace.table()
        before, now = (table[table["time_s"] < when].reset_index(drop=True) for table in (usual, branch))
        assert before.equals(now)
        assert not usual.equals(branch)


def test_what_cannot_be_is_said_and_nothing_changes(client: Client) -> None:
    for what, asked, words in (
        ("fault", {"branch": 0, "text": "2 crsh 1"}, "at = '2 crsh 1': must be one of"),
        ("fault", {"branch": 7, "text": "2 crash 1"}, "branch = 7"),
        ("fault", {"branch": 0}, "text = None"),
        ("settings", {"values": {"agents": 2.5}}, "agents = 2.5: must be a whole number"),
        ("settings", {"values": {"agent": 2}}, "setting"),
        ("settings", {"values": {"agents": True}}, "agents = True: must be a whole number"),
        ("settings", {"values": {"loss": 2}, "branch": [0]}, "branch = [0]: must be one of 0"),
        ("settings", [1], "asked = [1]: must be an object"),
        ("cancel", {"branch": True}, "branch = True: must be one of 0"),
        ("delete", {"branch": 0, "brunch": 1}, "field of delete = 'brunch'"),
        ("delete", {"branch": 0}, "another one than the main run"),
    ):
        status, answer = client.ask("POST", what, asked)
        assert status == 400
        assert words in answer["error"]
    assert client.ask("POST", "fault", {"branch": 0, "text": "2 crash 9"})[0] == 200
    rows = client.settled()["by_number"]
    assert rows[0]["state"] == "done"
    assert rows[1]["error"] == "at = '2 crash 9': must be of a node of the graph: 0, 1, 2, 3"


EVERY = """
def make(
    *, agents: int = 4, loss: float = 0.1, seed: int = 1, fast: bool = True, name: str = "a", mode: str | None = None,
    gain: float | None = None, most: float = float("inf"), data_seed: int | None = None, start: float | None = 0.5,
):
    graph = topology.ring(agents)
    return Network(graph, Link(latency=0.1, loss=loss), seed=seed), {i: Adder(float(i)) for i in graph}
"""


@pytest.fixture
def unrun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Client, StudyDefinition]]:
    """A lab with parameters of all types that simulates nothing: each branch ends immediately."""
    done = {"runs": [], "hash": "", "error": "", "words": []}
    monkeypatch.setattr("netsim.studies.laboratory.process.Worker.simulate", lambda self, request, progress: done)
    path = tmp_path / "every.py"
    path.write_text(MAKE.partition("def make")[0] + EVERY)
    with LabServer(str(path), {}, browser=False, report=lambda line: None) as server:
        yield Client(server.address), find_study(str(path))


RACE = """
import asyncio
import netsim
from netsim import Link, Network, topology

class Pair(netsim.Agent):
    async def run(self):
        self.log = []
        async with asyncio.TaskGroup() as group:
            for name in "ab":
                group.create_task(self.say(name))

    async def say(self, name):
        await asyncio.sleep(1)
        self.log.append(name)
        await self.broadcast("said", name)

def make(*, seed: int = 1):
    return Network(topology.path(2), Link(latency=0.1), seed=seed), {0: Pair(), 1: Pair()}
"""


def test_a_branch_in_another_order_shows_its_words_and_repeats(
    client: Client, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    edit(file, RACE, at=time.time() + 5)
    client.until(lambda state: [each["name"] for each in state["controls"]] == ["seed"])
    for seed in range(1, 9):
        assert client.ask("POST", "fault", {"branch": 0, "text": f"order {seed}"})[0] == 200
    rows = client.settled()["by_number"]
    drawn = next(row for row in rows.values() if row["words"])
    assert drawn["name"] == f"order {drawn['order']}"
    assert re.fullmatch(r"at [01] s agent [01].*: Pair\.\w+ \(line \d+\) comes before Pair\.\w+ .*", drawn["words"][0])
    assert drawn["hash"] != rows[0]["hash"]
    # The text of the order gives the same run, and so does the branch's command.
    said = client.ask("POST", "fault", {"branch": 0, "text": f"order {'; '.join(drawn['words'])}"})[1]["branch"]
    found = client.settled()["by_number"][said]
    assert found["hash"] == drawn["hash"]
    assert found["name"].startswith("order changed at ")
    for number, row in enumerate((drawn, found)):
        done = call(*shlex.split(row["command"])[1:], "--out", str(tmp_path / str(number)), cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert json.loads((tmp_path / str(number) / "summary.json").read_text())["trace_hash"] == drawn["hash"]
    # A fault added to the branch keeps the branch's order.
    crash = client.ask("POST", "fault", {"branch": drawn["number"], "text": "0.5 crash 1"})[1]["branch"]
    assert f"--order {drawn['order']}" in client.settled()["by_number"][crash]["command"]
    assert client.ask("POST", "fault", {"branch": 0, "text": "order tomorrow"})[1]["error"].startswith(
        "order = 'tomorrow': must be a seed"
    )


def parsed(definition: StudyDefinition, command: str) -> dict[str, Any]:
    """Return the settings that result from a command `netsim run`."""
    words = shlex.split(command)
    assert words[:3] == ["netsim", "run", definition.name]
    return dict(
        click.Command("run", params=[*options_of(definition.parameters), _at()]).make_context("run", words[3:]).params
    )


def repeats(state: dict[str, Any], definition: StudyDefinition) -> bool:
    """Return whether each branch's command results in the lab's settings, and its script is valid Python."""
    settings = {
        name: value if value is None or kind is str else kind(value)
        for name, value, kind in (
            (each.name, state["settings"][each.name], each.kind) for each in definition.parameters
        )
    }
    for row in state["branches"]:
        compile(row["script"], "script", "exec")
        found = parsed(definition, row["command"])
        # JSON has no infinity, so the page leaves the field empty.
        known = {name: None if value == float("inf") else value for name, value in found.items() if name != "at"}
        if known != settings:
            return False
    return True


def test_an_emptied_field_has_the_default_as_the_command_has(unrun: tuple[Client, StudyDefinition]) -> None:
    client, definition = unrun
    usual = client.settled()["settings"]
    set_to = {"agents": 5, "loss": 0.5, "seed": 3, "fast": False, "name": "b", "mode": "c", "gain": 2.0, "most": 1.0}
    set_to |= {"data_seed": 4, "start": 0.25}
    for emptied in (None, ""):
        for name, value in set_to.items():
            assert client.ask("POST", "settings", {"values": {name: value}, "branch": 0})[0] == 200
        state = client.settled()
        assert state["settings"] == set_to
        assert repeats(state, definition)
        for name in set_to:
            assert client.ask("POST", "settings", {"values": {name: emptied}, "branch": 0})[0] == 200
            assert repeats(client.settled(), definition)
        assert client.settled()["settings"] == usual


@pytest.mark.parametrize("seed", [2**53 + 1, 2**64 - 1, 10**30 + 7])
@pytest.mark.parametrize("form", [int, str])
def test_a_large_number_keeps_its_digits(seed: int, form: type, unrun: tuple[Client, StudyDefinition]) -> None:
    client, definition = unrun
    assert client.ask("POST", "settings", {"values": {"seed": form(seed)}})[0] == 200
    state = client.settled()
    assert state["settings"]["seed"] == str(seed)
    assert parsed(definition, state["branches"][0]["command"])["seed"] == seed
    assert f"--seed {seed}:{seed + 20} " in state["branches"][0]["sweep"]


def any_json(draw: random.Random, depth: int = 0) -> Any:
    """Return a random JSON-like value: of any type, possibly very large, nested, or with unusual texts."""
    leaves: list[Any] = [None, True, False, 0, -1, 1.5, 1e308, -0.0, 2**53 + 1, 10**400, -(10**30), "", " ", "0", "1e3"]
    leaves += [
        float("inf"),
        float("nan"),
        "nan",
        "1e999",
        "1e99999999",
        "1_0",
        "\u0661",
        "\ud800",
        "\0",
        "a\nb",
        "--at",
    ]
    leaves += [
        "</script>",
        "'; rm -rf ~",
        '"""',
        "\\",
        "é" * 9,
        "x" * 200_001,
        "2.5 crash 1",
        "3 lose 0-1",
        "2 crash 9",
    ]
    leaves += ["9" * 5000, "1 partition " + "0," * 500, "true", "-5"]
    if depth > 3 or draw.random() < 0.7:
        return draw.choice(leaves)
    if draw.random() < 0.5:
        return [any_json(draw, depth + 1) for _ in range(draw.randrange(4))]
    names = ["branch", "text", "values", "seed", "agents", "x" * 5000, "", "\n"]
    return {draw.choice(names): any_json(draw, depth + 1) for _ in range(draw.randrange(4))}


def test_whatever_is_sent_the_lab_answers_and_lives_on(unrun: tuple[Client, StudyDefinition]) -> None:
    client, definition = unrun
    draw = random.Random(7)
    fields = [each.name for each in definition.parameters]
    for _ in range(200):
        what = draw.choice(
            ["settings", "settings", "settings", "fault", "fault", "delete", "cancel", "quit", "state", ""]
        )
        asked: Any = any_json(draw)
        if draw.random() < 0.8:
            number = draw.choice([0, 0, 1, 2, None, any_json(draw)])
            asked = {"branch": number}
            if what == "settings":
                asked["values"] = {draw.choice(fields): any_json(draw) for _ in range(draw.randrange(3))}
            elif what == "fault":
                asked["text"] = any_json(draw)
        status, text = client.post(what, json.dumps(asked).encode())
        if what in ("quit", "state", ""):
            assert status == 404
            continue
        assert status in (200, 400), (what, asked)
        if text != "must be JSON":
            answer = json.loads(text)
            assert ("branch" in answer) == (status == 200)
            if status == 400:
                assert 0 < len(answer["error"]) <= 1100
                assert len(answer["error"].splitlines()) == 1
        assert repeats(client.ask("GET", "state?seen=0")[1], definition), (what, asked)
    for body in (
        b"",
        b"{",
        b"[" * 100_000,
        b'{"branch": ' + b"9" * 5000 + b"}",
        b"\xff\xfe",
        b"null",
        b'"a"',
        b"0" * 999_999,
    ):
        for what in ("settings", "fault", "delete", "cancel"):
            assert client.post(what, body)[0] == 400
    assert client.post("settings", b'{"values": {"seed": null}, "branch": 0}')[0] == 200
    assert client.settled()["settings"]["seed"] == 1
    assert client.ask("GET", "")[0] == 200


@pytest.mark.slow
def test_an_edit_may_raise_anything_and_change_types(apart: Client, file: Path) -> None:
    apart.ask("POST", "settings", {"values": {"seed": 5, "loss": 0.5}})
    apart.settled()
    edit(file, "raise KeyboardInterrupt('no Ctrl-C')\n", at=2)
    apart.until(lambda state: str(state["file_error"]).endswith("adder.py: KeyboardInterrupt: no Ctrl-C"))
    edit(file, MAKE.replace("seed: int = 1", 'seed: str = "one"').replace("seed=seed", "seed=len(seed)"), at=1)
    apart.until(lambda state: state["settings"]["seed"] == "one")
    state = apart.settled()
    assert state["settings"]["loss"] == 0.5
    assert state["branches"][0]["error"] == ""
    assert "--seed" not in state["branches"][0]["sweep"]


def test_an_error_of_an_agent_has_file_and_line_and_an_edited_file_is_taken_up(apart: Client, file: Path) -> None:
    apart.ask("POST", "fault", {"branch": 0, "text": "2.5 crash 1"})
    first = apart.settled()["by_number"]
    edit(file, MAKE.replace("frame.payload / 4", "frame.paylod / 4"), at=1)
    state = apart.until(lambda state: all(row["state"] == "failed" for row in state["branches"]))
    assert "adder.py" in state["branches"][0]["error"]
    assert "line 13" in state["branches"][0]["error"]
    # The part of the run before the error is available.
    assert state["branches"][0]["runs"][0]["hash"]
    edit(file, "def make(:\n", at=2)
    assert "SyntaxError (adder.py, line 1)" in apart.until(lambda state: bool(state["file_error"]))["file_error"]
    edit(file, MAKE.replace("loss: float", "noise: float = 0.0, loss: float"), at=3)
    apart.until(lambda state: any(control["name"] == "noise" for control in state["controls"]))
    assert {row["hash"] for row in apart.settled()["branches"]} == {row["hash"] for row in first.values()}


@pytest.mark.slow
def test_a_long_run_is_cancelled_and_taken_up_again(apart: Client, file: Path) -> None:
    apart.settled()
    endless = MAKE.replace("self.rounds(8)", "self.rounds(8 if self.value < 99 else 10**9)").replace(
        "float(i)) for i", "float(i) + (agents - 4) * 99) for i"
    )
    apart.ask("POST", "settings", {"values": {"agents": 5}, "branch": 0})
    apart.until(lambda state: state["branches"][0]["state"] == "done" and state["settings"]["agents"] == 5)
    # With five agents, the edited file runs for ever, whereas the old one ends immediately.
    edit(file, endless, at=1)
    apart.until(lambda state: state["branches"][0]["state"] == "running")
    assert apart.ask("POST", "cancel", {"branch": 0})[0] == 200
    apart.until(lambda state: state["branches"][0]["state"] == "cancelled")
    apart.ask("POST", "settings", {"values": {"agents": 4}, "branch": 0})
    assert apart.settled()["branches"][0]["state"] == "done"


def test_a_script_that_runs_networks_shows_them_all(tmp_path: Path) -> None:
    file = tmp_path / "twice.py"
    file.write_text(
        MAKE.partition("def make")[0]
        + "graph = topology.ring(4)\nprint('hello')\n"
        + "for loss in (0, 0.5):\n    Network(graph, Link(loss=loss)).run({i: Adder(1.0) for i in graph})\n"
    )
    found = simulate(str(file), {}, "2.5 crash 1", "", "", lambda what: None)
    assert [run["name"] for run in found["runs"]] == ["run", "run 2"]
    assert found["error"] == ""
    assert found["hash"] == find_study(str(file)).execute(at="2.5 crash 1").trace_hash
    data = json.loads(found["runs"][1]["data"])
    assert data["meta"]["ended_at"] == 8
    assert as_json(data)
    assert np.isfinite(json.loads(found["runs"][0]["data"])["meta"]["ended_at"])


def test_network_and_agents_at_the_top_are_run(tmp_path: Path) -> None:
    file = tmp_path / "plain.py"
    file.write_text(MAKE.replace("def make(", "def _make(") + "\n\nnetwork, agents = _make()\n")
    (tmp_path / "made.py").write_text(MAKE)
    found = simulate(str(file), {}, "", "", "", lambda what: None)
    assert found["hash"] == find_study(str(tmp_path / "made.py")).execute().trace_hash
    (tmp_path / "none.py").write_text("x = 1\n")
    assert (
        "or a network that it runs" in simulate(str(tmp_path / "none.py"), {}, "", "", "", lambda what: None)["error"]
    )


def test_defaults_of_numpy_are_as_those_of_python(tmp_path: Path) -> None:
    path = tmp_path / "with spaces.py"
    numbers = {"agents: int = 4": "agents: int = np.int64(4)", "loss: float = 0.1": "loss: float = np.float64(0.1)"}
    text = "import numpy as np\n" + MAKE.replace(
        "seed: int = 1):", "seed: int = np.int32(1), fast: bool = np.bool_(True)):"
    )
    for plain, of_numpy in numbers.items():
        text = text.replace(plain, of_numpy)
    path.write_text(text)
    defaults = {each.name: each.default for each in find_study(str(path)).parameters}
    assert defaults == {"agents": 4, "loss": 0.1, "seed": 1, "fast": True}
    assert {type(each) for each in defaults.values()} == {int, float, bool}
    done = call("run", str(path), "--no-fast", "--out", "out", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
