"""netsim deploy, node and gather (docs/sockets.md): a study in several processes, some of which are killed."""

import importlib.util
import itertools
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from netsim import NetsimError
from netsim.distributed.journal import ROW, entries
from netsim.studies.deploy.plan import Connection, Host, Plan, hosts_in, local_hosts
from netsim.studies.folder import load
from tests.command import Done, call
from tests.parts import addresses, mosquitto, program, relaxed

# Slow: processes connect over real sockets and wait in real time.
pytestmark = pytest.mark.slow

STUDY = '''
"""Averages on a small network."""
import netsim, numpy as np
from netsim import Link, Network, topology

class Average(netsim.Agent):
    def __init__(self, value, rounds):
        self.value, self.rounds_left = np.full(10, float(value)), rounds
    async def run(self):
        async for _ in self.rounds(self.rounds_left):
            await self.broadcast("state", self.value)
            heard = [f.payload for f in await self.collect()]
            self.value = sum(heard, self.value) / (1 + len(heard))

def spread(agents):
    return float(np.ptp([a.value[0] for a in agents.values()]))

def averages(study, *, rounds: int = 30, loss: float = 0.0, twice: bool = False, seed: int = 0):
    """Average.

    Parameters
    ----------
    rounds : int
        Number of rounds.
    loss : float
        Share of frames that are lost.
    twice : bool
        Whether to run it twice.
    seed : int
        Seed.
    """
    graph = topology.random_geometric(8, radius=0.7, seed=1)
    for name in ("first", "second")[: 1 + twice]:
        network = Network(graph, Link(loss=loss), round_period=1.0, seed=seed)
        study.run(name, network, {i: Average(i, rounds) for i in graph}, [spread], rounds)
'''


@pytest.fixture
def study(tmp_path: Path) -> Path:
    path = tmp_path / "averages.py"
    path.write_text(STUDY)
    return path


def netsim(*words: object, cwd: Path, **more: Any) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "netsim", *map(str, words)]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=300, **more)


def here(*words: object, cwd: Path) -> Done:
    """Run the command in this process."""
    return call(*map(str, words), cwd=cwd)


def test_a_study_in_three_processes_is_the_simulation(study: Path, tmp_path: Path) -> None:
    flags = ("averages.py", "--rounds", 12, "--loss", 0.1, "--twice")
    done = subprocess.CompletedProcess[str]([], 1)

    def deploy(seconds: float, out: Path) -> None:
        nonlocal done
        how = ("--processes", 3, "--round-time", seconds, "--trace", "--out", out)
        done = here("deploy", *flags, *how, cwd=tmp_path)
        assert done.returncode == 0, done.stderr

    (tmp_path / "all").mkdir()
    relaxed(deploy, tmp_path / "all").rename(tmp_path / "real")
    assert "The same as in the simulation, to the last bit: all rows and the trace hash of 2 runs" in done.stdout
    assert "3 processes over udp: row 24 of 24" in done.stderr
    assert here("run", *flags, "--trace", "--out", "sim", cwd=tmp_path).returncode == 0
    real, sim = (load(tmp_path / name) for name in ("real", "sim"))
    assert real["summary"]["trace_hash"] == sim["summary"]["trace_hash"]
    pd.testing.assert_frame_equal(real["rounds"].drop(columns="missing")[sim["rounds"].columns], sim["rounds"])
    assert real["settings"]["deployment"]["carrier"] == "udp"
    processes = pd.read_csv(tmp_path / "real" / "processes.csv")
    assert list(processes["ended"]) == ["well"] * 6
    assert processes["dropped"].isna().all()
    assert (processes["clock_offset_s"].abs() < 0.05).all()
    # The commands for run folders also accept the folder of a deployment.
    shown = here("show", "real", cwd=tmp_path)
    assert shown.returncode == 0, shown.stderr
    assert here("replay", "real", cwd=tmp_path).returncode == 0
    refused = here("verify", "real", cwd=tmp_path)
    assert refused.returncode == 2
    assert "must be of a simulation" in refused.stderr


def planned(folder: Path, study: Path, rounds: int, round_time: float = 0.3) -> Plan:
    """Write the plan of a deployment with three processes, and return it."""
    from netsim.studies.catalogue import find_study

    definition = find_study(str(study))
    hosts = tuple(Host(f"p{i}", place) for i, place in enumerate(addresses(3)))
    parameters = {"rounds": rounds, "loss": 0.0, "twice": False, "seed": 0}
    settings = Connection(round_time=round_time, silence=2.0, patience=30.0)
    plan = Plan(str(study), parameters, settings, hosts, runs=1, sha256=definition.sha256)
    folder.mkdir()
    plan.write(folder)
    return plan


def start(folder: Path, name: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "netsim", "node", str(folder), "--host", name]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True)


def rows_in(journal: Path) -> int:
    """Return how many rows a part has written so far."""
    try:
        return [what for what, _ in entries(journal)].count(ROW)
    except NetsimError:
        # The file has been created, but is still empty.
        return 0


def wait_for(folder: Path, parts: int) -> None:
    """Wait until ``parts`` processes have each written three rows."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if sum(rows_in(path) >= 3 for path in folder.glob("parts/run-0/*.journal")) >= parts:
            return
        time.sleep(0.05)
    raise AssertionError("nothing begins")


def test_one_of_three_is_killed_and_comes_back(study: Path, tmp_path: Path) -> None:
    # On a busy machine a restart may take longer than the whole run, so it is tried with more and more rounds.
    for count in (40, 120, 400):
        folder = tmp_path / f"{count} rounds"
        planned(folder, study, rounds=count)
        running = {name: start(folder, name) for name in ("p0", "p1", "p2")}
        wait_for(folder, 3)
        os.kill(running["p1"].pid, signal.SIGKILL)
        running["p1"].communicate()
        time.sleep(3.0)
        again = start(folder, "p1")
        for process in (running["p0"], running["p2"]):
            _, output = process.communicate(timeout=300)
            assert process.returncode == 0, output
        _, output = again.communicate(timeout=120)
        if again.returncode == 0:
            break
    assert again.returncode == 0, output
    done = here("gather", folder, "--out", "run", cwd=tmp_path)
    assert done.returncode == 1, done.stderr
    plan = Plan.read(folder)
    killed = plan.host("p1").address
    assert f"Process {killed} was killed, or its part was cut off: what it took with it is missing." in done.stdout
    processes = pd.read_csv(tmp_path / "run" / "processes.csv").set_index("process")
    assert sorted(processes.loc[killed, "ended"]) == ["killed", "well"]
    assert processes.loc[killed, "joined_s"].max() > 5
    ledger = pd.read_csv(tmp_path / "run" / "ledger.csv")
    ends = ledger.loc[:, "delivered":"in_flight"].sum(axis=1)  # type: ignore[misc]
    assert (ledger["offered"] + ledger["duplicated"] == ends).all()
    assert ledger["missing"].sum() > 0
    rounds = load(tmp_path / "run")["rounds"]
    assert len(rounds) == count
    # The restarted process joins the next round, and its frames are delivered from then on.
    grown = rounds["delivered"].diff().iloc[-8:]
    assert grown.max() == rounds["delivered"].iloc[0]


@pytest.mark.skipif(os.name != "posix", reason="modes of files")
def test_a_key_that_others_may_read_is_refused(study: Path, tmp_path: Path) -> None:
    folder = tmp_path / "deployment"
    planned(folder, study, rounds=4)
    (folder / "key").chmod(0o644)
    done = here("node", folder, "--host", "p0", cwd=tmp_path)
    assert done.returncode == 2
    assert "key': must be readable only by its owner (mode 600)" in done.stderr
    assert done.stderr.endswith("its mode is 644\n")


def test_the_first_process_is_killed_and_the_others_finish(study: Path, tmp_path: Path) -> None:
    folder = tmp_path / "deployment"
    plan = planned(folder, study, rounds=20)
    running = {name: start(folder, name) for name in ("p0", "p1", "p2")}
    wait_for(folder, 3)
    os.kill(running["p0"].pid, signal.SIGKILL)
    running["p0"].communicate()
    for name in ("p1", "p2"):
        _, output = running[name].communicate(timeout=120)
        assert running[name].returncode == 0, output
    done = here("gather", folder, "--out", "run", cwd=tmp_path)
    assert f"Process {plan.host('p0').address} was killed" in done.stdout
    assert len(load(tmp_path / "run")["rounds"]) == 20


def test_a_process_whose_peers_never_come_names_them(study: Path, tmp_path: Path) -> None:
    folder = tmp_path / "deployment"
    plan = planned(folder, study, rounds=5)
    content = json.loads((folder / "deployment.json").read_text())
    content["settings"]["patience"] = 1.0
    (folder / "deployment.json").write_text(json.dumps(content))
    done = here("node", folder, "--host", "p0", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    for name in ("p1", "p2"):
        assert plan.host(name).address in done.stderr


def test_hosts_elsewhere_get_the_commands_to_run(study: Path, tmp_path: Path) -> None:
    (tmp_path / "hosts.toml").write_text(
        '[hosts.a]\naddress = "192.0.2.1:9000"\nagents = [0, 1]\n[hosts.b]\naddress = "192.0.2.2:9000"\n'
    )
    done = here("deploy", "averages.py", "--rounds", 5, "--nodes", "hosts.toml", "--out", "plan", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "on a (192.0.2.1:9000): netsim node plan --host a" in done.stdout
    assert "netsim gather plan" in done.stdout
    assert sorted(path.name for path in (tmp_path / "plan").iterdir()) == ["deployment.json", "key"]
    assert (tmp_path / "plan" / "key").stat().st_mode & 0o077 == 0
    plan = Plan.read(tmp_path / "plan")
    assert plan.places(range(8)) == {"192.0.2.1:9000": [0, 1], "192.0.2.2:9000": [2, 3, 4, 5, 6, 7]}
    assert plan.runs == 1


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        (("--processes", 1), "processes = 1: must be"),
        (("--processes", 9), "processes = 9: must be at most one for each of 8 agents"),
        ((), "processes: must be given, or --nodes FILE instead"),
        (("--processes", 2, "--nodes", "x.toml"), "processes: must be given, or --nodes FILE instead"),
        (("--nodes", "x.toml"), "nodes = 'x.toml': must be an existing TOML file"),
        (("--processes", 2, "--transport", "tcp"), "transport = 'tcp': must be one of udp, mqtt"),
        (("--processes", 2, "--round-time", 0), "round_time = 0.0: must be a number > 0"),
        (("--processes", 2, "--broker", "x:1"), "broker = 'x:1': must go with --transport mqtt"),
        (("--processes", 2, "--proceses", 2), "No such option '--proceses'. (Did you mean"),
    ],
)
def test_bad_flags_end_in_a_line(study: Path, tmp_path: Path, flags: tuple[object, ...], expected: str) -> None:
    done = here("deploy", "averages.py", "--rounds", 3, *flags, cwd=tmp_path)
    assert done.returncode == 2
    assert expected in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "runs").exists()


def test_what_cannot_be_reached_is_reported_before_any_work(study: Path, tmp_path: Path) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken, socket.socket() as silent:
        for each in (taken, silent):
            each.bind(("127.0.0.1", 0))
        taken_at, closed = (f"127.0.0.1:{each.getsockname()[1]}" for each in (taken, silent))
        [free] = addresses(1)
        (tmp_path / "hosts.toml").write_text(f'[hosts.a]\naddress = "{free}"\n[hosts.b]\naddress = "{taken_at}"\n')
        asked = [(("--nodes", "hosts.toml"), f"here = '{taken_at}': must be an available address (Address")]
        if importlib.util.find_spec("aiomqtt"):
            flags = ("--processes", 2, "--transport", "mqtt", "--broker", closed)
            asked.append((flags, f"broker = '{closed}': cannot be reached (Connection refused)"))
        for words, expected in asked:
            done = here("deploy", "averages.py", "--rounds", 3, *words, cwd=tmp_path)
            assert done.returncode == 2
            assert done.stderr.startswith(f"netsim: {expected}")
            assert done.stderr.count("\n") == 1
            assert not (tmp_path / "runs").exists()


def test_without_aiomqtt_it_is_reported_before_any_work(study: Path, tmp_path: Path) -> None:
    (tmp_path / "aiomqtt.py").write_text("raise ImportError")
    done = netsim("deploy", "averages.py", "--processes", 2, "--transport", "mqtt", cwd=tmp_path)
    assert done.returncode == 2
    how = "in netsim's clone, pip install '.[mqtt]'"
    assert done.stderr == f"netsim: netsim.MQTT: must go with aiomqtt, which is not installed: {how}\n"


def test_what_is_on_the_air_is_not_deployed(tmp_path: Path) -> None:
    done = here("deploy", "aloha", "--processes", 2, cwd=tmp_path)
    assert done.returncode == 2
    assert "must have wires, or a radio without collisions, to be deployed" in done.stderr


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[hosts", "must be a TOML file"),
        ("[hosts.a]\naddress='x:1'", "must have two tables [hosts.NAME] at least"),
        ("hots = 1\n[hosts.a]\naddress='x:1'\n[hosts.b]\naddress='y:1'", "entry = 'hots'"),
        ("[hosts.a]\naddress=1\n[hosts.b]\naddress='y:1'", "hosts.a.address = 1: must be text"),
        ("[hosts.a]\naddress='y:1'\n[hosts.b]\naddress='y:1'", "an address of its own"),
        ("[hosts.a]\naddress='x:1'\nagents=[]\n[hosts.b]\naddress='y:1'", "hosts.a.agents = []"),
        (
            "[hosts.'../a']\naddress='x:1'\n[hosts.b]\naddress='y:1'",
            "hosts = '../a': must be names of",
        ),
        ("[hosts.'/a']\naddress='x:1'\n[hosts.b]\naddress='y:1'", "hosts = '/a': must be names of"),
    ],
)
def test_bad_files_of_hosts_are_named(tmp_path: Path, text: str, expected: str) -> None:
    from netsim import BadInput

    path = tmp_path / "hosts.toml"
    path.write_text(text)
    with pytest.raises(BadInput) as found:
        hosts_in(str(path))
    assert expected in str(found.value)


def test_agents_are_dealt_evenly() -> None:
    plan = Plan("coke", {}, Connection(), local_hosts(3, "udp"))
    assert [len(names) for names in plan.places(range(10)).values()] == [3, 4, 3]
    assert list(itertools.chain(*plan.places(range(10)).values())) == list(range(10))


# --- the papers' algorithms -------------------------------------------------------------------------------------------

HOW = ("--processes", 2, "--agents", 8, "--rounds", 8)
HARD = ("--loss", 0.1, "--latency", 0.05, "--rate", "1e6")
GOSSIP = "omkl --algorithms gossip --repeats 1 --topologies path --eta 0.1 --gamma 0.09"
STUDIES = {
    "COKE, plain and quantized": (*["coke", "--bits", "4", "--algorithms"], "COKE,COKE 4-bit"),
    # With this threshold, about half of the broadcasts are sent in so few rounds.
    "QC-ODKLA": ("online", "--algorithms", "QC-ODKLA", "--threshold", "0.1"),
    "gossip OMKL": tuple(GOSSIP.split()),
}


@pytest.mark.parametrize(
    ("name", "how"),
    [
        ("COKE, plain and quantized", "udp, ideal"),
        ("QC-ODKLA", "udp"),
        ("gossip OMKL", "mqtt"),
    ],
)
def test_an_algorithm_is_the_simulations(name: str, how: str, tmp_path: Path) -> None:
    if how != "mqtt":
        must_be_the_simulation(STUDIES[name] + (HARD if how == "udp" else ()), tmp_path)
    else:
        pytest.importorskip("aiomqtt", reason="no aiomqtt: pip install '.[mqtt]'")
        if program("mosquitto") is None:
            pytest.skip("no mosquitto: apt-get install mosquitto")
        with mosquitto(tmp_path) as (broker, _):
            must_be_the_simulation((*STUDIES[name], *HARD, "--transport", "mqtt", "--broker", broker), tmp_path)


def must_be_the_simulation(words: tuple[object, ...], folder: Path) -> None:
    output = ""

    def deploy(seconds: float, out: Path) -> None:
        nonlocal output
        done = here("deploy", *words, *HOW, "--round-time", seconds, "--out", out, cwd=folder)
        assert done.returncode == 0, done.stderr
        output = done.stdout

    relaxed(deploy, folder)
    runs = "1 run" if "QC-ODKLA" in words else "2 runs"
    same = "The same as in the simulation, to the last bit: all rows and the trace hash of"
    found = re.search(rf"{same} {runs}, ([\d,]+) link messages\.", output)
    assert found, output
    assert int(found[1].replace(",", "")) >= 50


# --- ended from outside -----------------------------------------------------------------------------------------------


@contextmanager
def deploying(tmp_path: Path) -> Iterator[tuple["subprocess.Popen[str]", Path]]:
    """Yield a deployment whose processes have started, and its folder of temporary files."""
    home, temporary = tmp_path / "home", tmp_path / "temporary"
    home.mkdir()
    temporary.mkdir()
    (home / "averages.py").write_text(STUDY)
    command = [sys.executable, "-m", "netsim", "deploy", "averages.py", "--processes", "2", "--round-time", "0.3"]
    with subprocess.Popen(
        command, cwd=home, env=os.environ | {"TMPDIR": str(temporary)}, stderr=subprocess.PIPE, text=True
    ) as running:
        deadline = time.monotonic() + 60
        while len(journals := list(temporary.glob("*/parts/run-0/*.journal"))) < 2 and time.monotonic() < deadline:
            time.sleep(0.1)
        assert len(journals) == 2
        yield running, temporary


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_deployment_that_is_ended_leaves_nothing(number: int, status: int, tmp_path: Path) -> None:
    with deploying(tmp_path) as (running, temporary):
        running.send_signal(number)
        _, output = running.communicate(timeout=120)
    assert running.returncode == status
    assert "interrupted; no run folder was written" in output
    assert list(temporary.iterdir()) == []
    assert [path.name for path in (tmp_path / "home").rglob("*") if path.is_file()] == ["averages.py"]
    if sys.platform == "linux":
        assert str(temporary) not in _commands()


@pytest.mark.skipif(sys.platform != "linux", reason="processes are looked up in /proc")
def test_a_deployment_that_is_killed_takes_its_processes_with_it(tmp_path: Path) -> None:
    with deploying(tmp_path) as (running, temporary):
        assert str(temporary) in _commands()
        running.kill()
        running.communicate(timeout=120)
    deadline = time.monotonic() + 60
    while str(temporary) in _commands() and time.monotonic() < deadline:
        time.sleep(0.1)
    assert str(temporary) not in _commands()


ODD = '''
"""Runs a network that it does not name, and ends in one of several ways."""
import sys
import netsim
from netsim import Network, topology
from netsim.testing import Rounder

def odd(study, *, ends: bool = False, seed: int = 0):
    """Be odd.

    Parameters
    ----------
    ends : bool
        Whether it ends Python.
    seed : int
        Seed.
    """
    network = Network(topology.ring(4), round_period=0.1, seed=seed)
    network.run({name: Rounder(3) for name in network.graph})
    study.run("named", network, {name: Rounder(4) for name in network.graph}, [], 4)
    if ends:
        sys.exit(0)
'''


def test_a_study_may_run_networks_that_it_does_not_name(tmp_path: Path) -> None:
    (tmp_path / "odd.py").write_text(ODD)
    command = ("deploy", "odd.py", "--processes", 2, "--round-time", 0.3)
    done = here(*command, "--out", "out", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "trace hash of 2 runs" in done.stdout or "not as in the simulation" in done.stdout
    table = pd.read_csv(tmp_path / "out" / "processes.csv")
    assert table["algorithm"].tolist() == ["run 1", "run 1", "named", "named"]
    done = here(*command, "--ends", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.endswith("odd.py' raised SystemExit (odd.py, line 22): 0\n")


def test_rounds_that_pass_before_anybody_takes_part_are_named(tmp_path: Path) -> None:
    done = here("deploy", "averaging", "--processes", 2, "--round-time", "1e-6", cwd=tmp_path)
    assert done.returncode == 2
    expected = "netsim: round_time = 1e-06: must be longer: all rounds had passed before the processes took part\n"
    assert done.stderr.endswith(expected)


@pytest.mark.skipif(sys.platform != "linux", reason="processes are looked up in /proc")
def test_a_process_that_is_stopped_is_killed_in_the_end(tmp_path: Path) -> None:
    (tmp_path / "averages.py").write_text(STUDY)
    (tmp_path / "temporary").mkdir()
    command = [sys.executable, "-m", "netsim", "deploy", "averages.py", "--processes", "2", "--round-time", "0.1"]
    command += ["--silence", "1", "--patience", "3", "--rounds", "20", "--out", "out"]
    folder = os.environ | {"TMPDIR": str(tmp_path / "temporary")}
    with subprocess.Popen(command, cwd=tmp_path, env=folder, stdout=subprocess.PIPE, text=True) as running:
        deadline = time.monotonic() + 60
        journals: list[Path] = []
        while not journals and time.monotonic() < deadline:
            journals = [path for path in (tmp_path / "temporary").glob("*/parts/run-0/*.journal") if rows_in(path) > 3]
            time.sleep(0.02)
        running_there = [path.parent for path in Path("/proc").glob("[0-9]*/cmdline") if str(tmp_path) in _read(path)]
        # Each part has a second process that runs the agents.
        seconds = [int(path.name) for path in running_there if "p2" in _read(path / "cmdline").split("\0")]
        for second in sorted(seconds):
            os.kill(second, signal.SIGSTOP)
        output, _ = running.communicate(timeout=60)
    assert running.returncode == 1
    assert str(tmp_path) not in _commands()
    assert " was killed, or its part was cut off: what it took with it is missing." in output


def _commands() -> str:
    return "\n".join(_read(path) for path in Path("/proc").glob("[0-9]*/cmdline"))


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:  # the process has ended in the meantime
        return ""
