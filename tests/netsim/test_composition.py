"""Which features can be combined: the table of docs/design.md as data, with a small network for each cell."""

import asyncio
import hashlib
import json
import re
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

import netsim
from netsim import (
    BadInput,
    Deployment,
    Experiment,
    Link,
    Mote,
    Network,
    Part,
    Radio,
    Run,
    SixLowpan,
    StateAgent,
    presets,
    topology,
)
from netsim.agents import LPL
from netsim.clock.order import ordering
from netsim.distributed import UDP
from netsim.faults import Hold, LinkChange, Move
from netsim.live import live_view, server
from netsim.network import spread
from netsim.studies.laboratory.notebook import LabSession
from netsim.studies.laboratory.worker import simulate
from netsim.testing import Order
from tests.command import ROOT, call
from tests.parts import deployed, forked_workers, message_of, relaxed

Made = tuple[Network, dict[Any, Any]]

COLUMNS = ["workers", "deploy", "order", "wall clock", "live page", "lab", "notebook", "experiment", "`Radio`"]

SAME, RUNS, REAL, REFUSED, SELF = "=", "✓", "≈", "×", "-"
NEED_RADIO = ("MAC layers", "6LoWPAN", "nodes that move")

TABLE = {
    "rounds in batches": "= = = ≈ = = = = ✓",
    "motes of parts": "= = = ≈ = = = = ✓",
    "MAC layers": "× × = ≈ = = = = ✓",
    "6LoWPAN": "× × = ≈ = = = = ✓",
    "`uplink`": "= × = ≈ = = = = ×",
    "`downlink`": "× × = ≈ = = = = ×",
    "`routing`": "= × = ≈ = = = = ×",
    "links that change": "= × = ≈ = = = = ×",
    "`compute`": "= × = ≈ = = = = ✓",
    "nodes that move": "× × = ≈ = = = = ✓",
    "trace, replay": "= = = ≈ = = = = ✓",
    "`deliveries`": "= × = ≈ = × = × ✓",
    "workers": "- × = × × × = = ×",
    "deploy": "× - × × × × = = ×",
    "order": "= × - × = = = = =",
    "wall clock": "× × × - ≈ × ≈ × ≈",
    "live page": "× × = ≈ - = = = =",
    "lab": "× × = × = - = = =",
    "notebook": "= = = ≈ = = - = =",
    "experiment": "= = = × = = = - =",
}
"""The marks of each row of the table; the columns are in the order of `COLUMNS`."""

# --- small networks ---------------------------------------------------------------------------------------------------

GRAPH = topology.path(4)
LATE, AIR = Link(latency=0.01), Link(rate=250e3, header_bits=136)


class Sums(netsim.Agent):
    """Adds up the values that it receives in three rounds."""

    def __init__(self) -> None:
        self.value = 0

    async def run(self) -> None:
        async for _ in self.rounds(3):
            await self.broadcast("v", self.name + self.value)
            self.value += sum(frame.payload for frame in await self.collect())


class Steps(StateAgent):
    """Adds up received values in steps, which may be batched."""

    count = 3

    def __init__(self, value: float) -> None:
        self.state = np.full(2, value)

    def step(self, state: Any, heard: Any) -> Any:
        return sum((frame.payload for frame in heard), state)


class Says(Part):
    """Sends a number three times, and stores what it receives."""

    kinds: ClassVar[Any] = ("a",)

    def __init__(self) -> None:
        self.heard: list[Any] = []

    async def run(self) -> None:
        for k in range(3):
            await asyncio.sleep(0.1 + 0.01 * self.name)
            await self.broadcast("a", k)
        # In real time an agent cannot know that no more frames will arrive.
        with suppress(TimeoutError):
            async with asyncio.timeout(0.1):
                async for frame in self.inbox:
                    self.heard.append((frame.sender, frame.payload))


class Far(netsim.Agent):
    """Agent 0 sends to agent 2, which is two links away."""

    def __init__(self) -> None:
        self.value = 0

    async def run(self) -> None:
        await asyncio.sleep(0.05)
        if self.name == 0:
            await self.send(2, "far", 7)
        elif self.name == 2:
            self.value = (await self.inbox.get()).payload


def sums(link: Link = LATE, **settings: Any) -> Made:
    return Network(GRAPH, link, round_period=0.1, seed=1, **settings), {node: Sums() for node in GRAPH}


def on_air(**settings: Any) -> Made:
    return sums(AIR, medium=Radio(), **settings)


def batched(link: Link = LATE, **settings: Any) -> Made:
    return sums(link, **settings)[0], {node: Steps(float(node)) for node in GRAPH}


def motes(link: Link = LATE, **settings: Any) -> Made:
    return sums(link, **settings)[0], {node: Mote(app=Says()) for node in GRAPH}


def layered(**settings: Any) -> Made:
    agents: dict[Any, Any] = {node: Mote(mac=LPL(0.02), app=Says()) for node in GRAPH}
    return sums(AIR, medium=Radio(access="aloha"), **settings)[0], agents


def packets(**settings: Any) -> Made:
    return sums(presets.ieee802154().link, **({"medium": Radio(), "stack": SixLowpan()} | settings))


def routed(link: Link = LATE, **settings: Any) -> Made:
    return sums(link, routing="shortest", **settings)[0], {node: Far() for node in GRAPH}


CHANGES = [LinkChange(0, 1, at=0.15, loss=0.5), Hold(2, 3, at=0.15, until=0.25)]


def changing(link: Link = LATE, **settings: Any) -> Made:
    return sums(link, faults=CHANGES, **settings)


def moving(**settings: Any) -> Made:
    way = [Move(3, (25.0, 1.0), at=0.1, until=0.3, step=0.1)]
    site = Deployment({node: (10.0 * node, 0.0) for node in GRAPH}, moves=way)
    return site.network(seed=1, round_period=0.1, **settings), sums()[1]


MADE: dict[str, tuple[Callable[..., Made], dict[str, Any]]] = {
    "rounds in batches": (batched, {}),
    "motes of parts": (motes, {}),
    "MAC layers": (layered, {"until": 1.0}),
    "6LoWPAN": (packets, {}),
    "`uplink`": (partial(sums, uplink=1e5), {}),
    "`downlink`": (partial(sums, downlink=1e5), {}),
    "`routing`": (routed, {}),
    "links that change": (changing, {}),
    "`compute`": (partial(sums, compute=0.02), {}),
    "nodes that move": (moving, {}),
    "trace, replay": (sums, {"trace": True}),
    "`deliveries`": (sums, {"deliveries": True}),
    "`Radio`": (on_air, {}),
}
"""For each feature of a network: how the network is made, and the options of its run."""

HERE, PACE = "127.0.0.1:9000", 10.0


def given(way: str) -> dict[str, Any]:
    """Return a way of running, such as "workers", as an option of `Network.run`."""
    if way == "deploy":
        return {"transport": UDP(HERE, {"127.0.0.1:9001": [0, 1]}, patience=0.1)}
    return {"workers": {"workers": 2}, "order": {"order": 5}, "wall clock": {"clock": "wall", "pace": PACE}}[way]


# --- ways to run ------------------------------------------------------------------------------------------------------


def plainly(make: Callable[[], Made], options: Mapping[str, Any]) -> Run:
    network, agents = make()
    return network.run(agents, **options)


def shown_live(make: Callable[[], Made], options: Mapping[str, Any], run: Any = plainly) -> Run:
    made = make()
    with live_view(made[0], browser=False):
        found: Run = run(lambda: made, options)
    return found


def in_lab(make: Callable[[], Made], options: Mapping[str, Any]) -> Run:
    network, _ = make()
    # The lab always records a trace.
    options = {name: value for name, value in options.items() if name != "trace"}
    if options.keys() - {"until"}:
        netsim.lab(network, make()[1], **options)
    return LabSession(network, lambda: make()[1], [], options).runs[0]


def in_notebook(make: Callable[[], Made], options: Mapping[str, Any], run: Any = plainly) -> Run:
    async def cell() -> Run:
        found: Run = run(make, options)
        return found

    return asyncio.run(cell())


def experiment(make: Callable[[], Made], until: float | None = None) -> Experiment:
    made: list[Made] = []

    def network(setup: Any) -> Network:
        made.append(make())
        return made[-1][0]

    return Experiment(methods=lambda setup: made[-1][1], networks=network, rounds=3, seeds=[0], until=until)


def in_experiment(make: Callable[[], Made], options: Mapping[str, Any]) -> Run:
    options = dict(options)
    with ExitStack() as flags:
        # The command sets these contexts for --workers and --order.
        flags.enter_context(spread(options.pop("workers", 1)))
        flags.enter_context(ordering(Order.parse(str(options.pop("order"))) if "order" in options else None))
        return experiment(make, options.pop("until", None)).play(**options)


OPTIONS = ["workers", "deploy", "order", "wall clock"]
WAYS: dict[str, Any] = {
    "lab": in_lab,
    "experiment": in_experiment,
    "live page": shown_live,
    "notebook": in_notebook,
}
"""The callers that can surround a run. If two are combined, the later one surrounds the earlier one."""


class InLoop(Network):
    """A network that runs inside an event loop, as in a notebook cell."""

    def run(self, *values: Any, **options: Any) -> Run:
        async def cell() -> Run:
            return super(InLoop, self).run(*values, **options)

        return asyncio.run(cell())


def in_cell() -> Made:
    return InLoop(GRAPH, LATE, round_period=0.1, seed=1), sums()[1]


CELLS = {
    (row, column): mark
    for row, marks in TABLE.items()
    for column, mark in zip(COLUMNS, marks.split(), strict=True)
    if mark != SELF
}


def attempt(row: str, column: str) -> tuple[Run, Run]:
    """Return the run of a combination, and a run in virtual time and in one process, to which it may be equal."""
    found = {row, column}
    if column in MADE and row in MADE:
        make, options = MADE[row]
        make = partial(make, **({} if row in NEED_RADIO else {"link": AIR, "medium": Radio()}))
        return plainly(make, options), plainly(make, options)
    make, options = next((each for name, each in MADE.items() if name in found), (sums, {}))
    flags = options.copy()
    for name in found.intersection(OPTIONS):
        flags |= given(name)
    run: Any = plainly
    for name in [way for way in WAYS if way in found]:
        run = WAYS[name] if run is plainly and name in ("lab", "experiment") else partial(WAYS[name], run=run)
    kept = options | (given("order") if "order" in found else {})
    return run(make, flags), plainly(make, kept)


def states(run: Run) -> list[Any]:
    """Return the final values of the agents."""
    found = [agent.app if isinstance(agent, Mote) else agent for agent in run.agents.values()]
    return [str({name: vars(each).get(name) for name in ("value", "state", "heard")}) for each in found]


def assert_same(run: Run, other: Run) -> None:
    assert run.trace_hash == other.trace_hash
    assert run.rounds.equals(other.rounds)
    assert run.ledger.table().equals(other.ledger.table())
    assert states(run) == states(other)


def sent(run: Run) -> int:
    return int(run.ledger.table()["offered"].sum())


# --- the cells --------------------------------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten the server's wait for page requests, because nobody opens the page."""
    monkeypatch.setattr(server, "_PAGE_TIMEOUT", 0.0)
    monkeypatch.setattr(server, "_ABRUPT", 0.0)


STUDIES = {frozenset(pair) for pair in (("order", "lab"), ("lab", "experiment"), ("live page", "experiment"))}
"""Cells about studies in files and their commands, which have separate tests."""
PAIRS = {frozenset(cell): (cell, mark) for cell, mark in CELLS.items()}


def marked(*marks: str, column: str = "") -> list[tuple[str, str]]:
    """Return the cells with one of these marks, each pair once: of one column, or those that need no processes."""
    found = [cell for cell, mark in PAIRS.values() if mark in marks and frozenset(cell) not in STUDIES]
    others = {"deploy", "workers", "wall clock"} - {column}
    return [cell for cell in found if not others & {*cell} and (not column or column in cell)]


def assert_cells(cells: list[tuple[str, str]]) -> None:
    assert cells
    for row, column in cells:
        try:
            assert_same(*attempt(row, column))
        except Exception as error:
            error.add_note(f"{row} with {column}")
            raise


def test_the_table_is_the_pages() -> None:
    lines = (ROOT / "docs" / "design.md").read_text(encoding="utf-8").splitlines()
    head = next(place for place, line in enumerate(lines) if line.startswith("| | workers"))
    shown = [
        [re.sub(r"<sup>.*?</sup>", "", cell).strip() for cell in line.strip("|").split("|")]
        for line in lines[head : head + 2 + len(TABLE)]
    ]
    assert shown[0] == ["", *COLUMNS]
    assert shown[2:] == [[row, *marks.replace(SELF, "").split(" ")] for row, marks in TABLE.items()]
    for row, column in CELLS:
        if row in COLUMNS:
            assert CELLS.get((column, row), CELLS[row, column]) == CELLS[row, column]


def test_what_composes_is_the_same_run() -> None:
    assert_cells(marked(SAME))


def test_networks_of_a_radio_run() -> None:
    for row, column in marked(RUNS):
        run, again = attempt(row, column)
        assert_same(run, again)
        assert run.ledger.table()["delivered"].sum() > 0, row


@pytest.mark.slow
def test_workers_leave_the_same_run() -> None:
    assert_cells(marked(SAME, column="workers"))


def test_real_time_passes_on_the_wall_clock() -> None:
    cells = marked(REAL, column="wall clock")
    assert len(cells) > len(MADE)
    for row, column in cells:
        begun = time.monotonic()
        run, _ = attempt(row, column)
        assert sent(run) > 0, (row, column)
        assert time.monotonic() - begun > 0.9 * run.ended_at / PACE, (row, column)


def test_a_mote_goes_on_where_an_agent_holds_up_real_time() -> None:
    class Computes(Sums):
        async def run(self) -> None:
            await asyncio.sleep(0.15)
            time.sleep(0.3 / PACE)
            await super().run()

    network, _ = moving()
    run = network.run({node: Computes() for node in GRAPH}, trace=True, **given("wall clock"))
    assert [span["what"] for span in run.trace.scene.faults] == ["Move"]
    assert run.ended_at > 0.3
    assert sent(run) > 0


REFUSALS = {
    **{(row, "workers"): "workers = 2: must be 1 on a netsim.Radio" for row in (*NEED_RADIO, "`Radio`")},
    **{(row, "deploy"): "medium: must be wires, or a radio without collisions" for row in (*NEED_RADIO, "`Radio`")},
    ("`downlink`", "workers"): "workers = 2: must be 1 with a downlink",
    ("`uplink`", "deploy"): "uplink, downlink: must be left out for agents in several processes",
    ("`downlink`", "deploy"): "uplink, downlink: must be left out for agents in several processes",
    ("`routing`", "deploy"): "routing: must be left out for agents in several processes",
    ("links that change", "deploy"): "LinkChange: must be left out for agents in several processes",
    ("`compute`", "deploy"): "compute: must be left out for agents in several processes",
    ("`deliveries`", "deploy"): "deliveries = True: must be left out for agents in several processes",
    ("`uplink`", "`Radio`"): "uplink: must be left out unless medium = 'wires'",
    ("`downlink`", "`Radio`"): "downlink: must be left out unless medium = 'wires'",
    ("`routing`", "`Radio`"): "routing = 'shortest': must be left out on a netsim.Radio",
    ("links that change", "`Radio`"): "LinkChange: must be left out on a netsim.Radio",
    ("`deliveries`", "lab"): "argument of lab = 'deliveries': must be one of",
    ("`deliveries`", "experiment"): "argument of Experiment.play = 'deliveries': must be one of",
    ("workers", "deploy"): "workers = 2: must be 1 with transport, which runs in real time",
    ("workers", "wall clock"): "workers = 2: must be 1 with clock, which runs in real time",
    ("workers", "live page"): "workers = 2: must be 1 with --live",
    ("workers", "lab"): "argument of lab = 'workers': must be one of",
    ("deploy", "order"): "order: must be left out with transport",
    ("deploy", "wall clock"): "clock: cannot be combined with a transport",
    ("deploy", "live page"): "transport: must go without --live",
    ("deploy", "lab"): "argument of lab = 'transport': must be one of",
    ("order", "wall clock"): "order: must be left out with clock",
    ("wall clock", "lab"): "argument of lab = 'clock': must be one of",
    ("wall clock", "experiment"): "argument of Experiment.play = 'clock': must be one of",
}
"""The start of the error message for each refused cell: the argument and, if it is short, its value."""


def test_what_does_not_compose_is_refused_in_one_line() -> None:
    lines = {frozenset(cell): line for cell, line in REFUSALS.items()}
    assert lines.keys() == {pair for pair, (_, mark) in PAIRS.items() if mark == REFUSED}
    for pair, line in lines.items():
        cell, _ = PAIRS[pair]
        assert message_of(lambda cell=cell: attempt(*cell), BadInput).startswith(line), cell


def test_what_needs_a_radio_is_refused_on_wires() -> None:
    stack = message_of(lambda: packets(medium="wires"), BadInput)
    assert re.match(r"stack = SixLowpan\(.*\): must be left out unless medium is a netsim.Radio", stack)
    agents: Any = {node: Mote(mac=LPL(0.02), app=Says()) for node in GRAPH}
    assert message_of(lambda: sums()[0].run(agents)).endswith("the medium must be a netsim.Radio")
    move = message_of(lambda: plainly(partial(sums, faults=[Move(0, (1.0, 2.0), at=0.1)]), {}), BadInput)
    assert move.startswith("Move: must go with a network of a netsim.Deployment")


# --- studies in a file ------------------------------------------------------------------------------------------------

SCRIPT = """
from tests.netsim.test_composition import sums
network, agents = sums()
network.run(agents{})
"""
STUDY = """
from netsim import Experiment, Links
from netsim.studies.experiment.study import study_of
from tests.netsim.test_composition import GRAPH, LATE, Sums

def experiment() -> Experiment:
    \"\"\"Add.\"\"\"
    return Experiment(methods=Sums, networks=Links(graph=GRAPH, link=LATE, round_period=0.1), rounds=3, seeds=[0])
"""
MAKES_A_STUDY = "mine = study_of(experiment)"


def hash_of_one(trace_hash: str) -> str:
    """Return the trace hash of a study with a single run."""
    return hashlib.sha256(trace_hash.encode()).hexdigest()[:32]


def in_folder(*words: str, cwd: Path) -> str:
    """Run a study by the command, and return its trace hash."""
    done = call(*words, "--out", "out", cwd=cwd)
    assert done.returncode == 0, done.stderr
    found: str = json.loads((cwd / "out" / "summary.json").read_text())["trace_hash"]
    return found


@pytest.fixture
def study(tmp_path: Path) -> Path:
    path = tmp_path / "mine.py"
    path.write_text(STUDY + MAKES_A_STUDY)
    return path


@pytest.mark.usefixtures("undrawn")
def test_experiments_are_watched_and_run_in_a_lab(study: Path, tmp_path: Path) -> None:
    plain = in_folder("run", "mine.py", cwd=tmp_path)
    assert simulate(str(study), {}, "", "", "", lambda _: None)["hash"] == plain
    (tmp_path / "out").rename(tmp_path / "plain")
    assert in_folder("run", "mine.py", "--live", "--no-browser", cwd=tmp_path) == plain


def test_an_experiment_that_is_no_study_is_refused_where_one_is_needed(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(STUDY)
    for words in (("deploy", "mine.py", "--processes", "2"), ("lab", "mine.py", "--no-browser")):
        done = call(*words, cwd=tmp_path)
        line = "netsim: study = 'mine.py': must be a study here; `mine = study_of(experiment)` in the file makes one"
        assert (done.returncode, done.stderr.count("\n")) == (2, 1)
        assert done.stderr.startswith(line)


def test_a_lab_follows_an_order(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(SCRIPT.format(""))
    done = simulate(str(tmp_path / "mine.py"), {}, "", "5", "", lambda _: None)
    assert (done["hash"], done["error"]) == (hash_of_one(plainly(sums, given("order")).trace_hash), "")


@pytest.mark.usefixtures("undrawn")
def test_a_script_on_the_wall_clock_keeps_it(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(SCRIPT.format(", clock='wall'"))
    begun = time.monotonic()
    in_folder("run", "mine.py", cwd=tmp_path)
    assert time.monotonic() - begun > 0.27
    for words, line in (
        (("run", "mine.py", "--workers", "2"), "workers = 2: must be 1 with clock, which runs in real time"),
        (("deploy", "mine.py", "--processes", "2"), "clock: must be left out for agents in several processes"),
    ):
        done = call(*words, cwd=tmp_path)
        assert done.returncode == 2
        assert done.stderr.startswith("netsim: ")
        assert line in done.stderr
        assert done.stderr.count("\n") == 1


# --- several processes ------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("row", ["rounds in batches", "motes of parts", "trace, replay", "notebook"])
def test_what_is_deployed_is_the_simulation(row: str, tmp_path: Path) -> None:
    make = MADE[row][0] if row in MADE else in_cell
    run, _ = deployed(make, tmp_path, parts=2)
    plain = plainly(make, {})
    assert run.trace_hash == plain.trace_hash
    assert states(run) == states(plain)


@pytest.mark.slow
@pytest.mark.usefixtures("undrawn")
def test_a_deployed_experiment_is_the_simulation(study: Path, tmp_path: Path) -> None:
    done = ""

    def deploy(seconds: float, out: Path) -> None:
        nonlocal done
        words = ("--processes", "2", "--round-time", str(seconds), "--out", str(out))
        done = call("deploy", study.name, *words, cwd=tmp_path).stdout

    relaxed(deploy, tmp_path)
    assert "The same as in the simulation, to the last bit" in done


@pytest.mark.slow
def test_workers_of_a_cluster_leave_the_same_run() -> None:
    distributed = pytest.importorskip("distributed")
    settings = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None}
    with forked_workers(), distributed.LocalCluster(**settings) as cluster:
        for row, _ in marked(SAME, column="workers"):
            if row in MADE:
                make, options = MADE[row]
                several = plainly(make, {**options, "workers": 2, "dask": cluster.scheduler_address})
                assert_same(several, plainly(make, options))
