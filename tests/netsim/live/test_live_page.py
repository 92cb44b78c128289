"""The live page of a running simulation in a real browser, and `netsim run --live` (docs/replay.md)."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from netsim import Link, Network, latency, topology
from netsim.engine import observers
from netsim.live import live_view, server
from netsim.replay.frames import frames_of
from tests import chromium
from tests.command import call
from tests.recorded import Average, states_at

AFTER = "new Promise((done) => setTimeout(done, {}))"


def until(page: chromium.Page, what: str, seconds: float = 60.0) -> None:
    """Wait until a JavaScript expression is true in the page."""
    deadline = time.monotonic() + seconds
    while not page.run(what):
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


def averaging() -> Network:
    graph = topology.random_geometric(12, radius=0.5, seed=3)
    network = Network(graph, Link(latency=latency.uniform(0.02, 0.3), loss=0.1), round_period=0.1, seed=7)
    network.watch(["value"])
    return network


def test_the_page_follows_the_run_and_ends_with_all_of_it(  # noqa: PLR0915  one visit: to start a browser takes long
    browser: chromium.Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(observers, "_PAUSE", 0.0)
    monkeypatch.setattr(observers, "_SHARE", 0)
    monkeypatch.setattr(server, "_PAGE_TIMEOUT", 60.0)
    network, go_on, halfway, address = averaging(), threading.Event(), threading.Event(), []
    agents = {node: Average(40) for node in network.graph}
    plain = averaging().run({node: Average(40) for node in network.graph}, trace=True)
    runs: list[Any] = []

    def wait(number: int) -> None:
        if number == 20:
            halfway.set()
            assert go_on.wait(60)

    def work() -> None:
        with live_view(network, browser=False, pace=100.0, title="<b>") as shown:
            address.append(shown.address)
            assert go_on.wait(60)
            go_on.clear()
            runs.append(network.run(agents, progress=wait))

    thread = threading.Thread(target=work)
    thread.start()
    while not address:
        time.sleep(0.01)
    go_on.set()
    assert halfway.wait(60)
    browser.open(address[0] + "1/")
    # Playback stops at the newest known time, and continues when later times become known.
    until(browser, "replay.state().known > 1.8")
    known = browser.run("replay.state().known")
    until(browser, f"replay.state().time === {known!r}")
    browser.run(AFTER.format(300))
    state = browser.run("replay.state()")
    assert state["time"] == state["known"] == pytest.approx(1.9, abs=1e-6)
    assert state["playing"]
    assert state["running"]
    state = "document.querySelector('[data-part=running]').textContent"
    assert browser.run(state) == "running · known to 1.9 s"
    # The total number of rounds is not known yet, so the page shows only the current round.
    clock = "document.querySelector('[data-part=clock]').textContent"
    assert " · round 19 · " in browser.run(clock)
    assert browser.run("document.querySelector('[data-part=title]').textContent") == "<b>"
    # The page stays usable during the run: it can seek back, pause and show an agent.
    browser.run("replay.pause(); replay.seek(1.0); replay.choose({agent: 3})")
    columns = frames_of(plain.trace).columns
    over = columns["end"] <= 1.0
    assert sum(browser.run("replay.state()")["ended"].values()) == int(over.sum())
    go_on.set()
    until(browser, "!replay.state().running")
    thread.join(60)
    assert not thread.is_alive(), "it serves until the page has all of it"
    state = browser.run("replay.state()")
    assert " · round 11 of 40 · " in browser.run(clock)
    assert state["time"] == 1.0, "it stays where it was put"
    assert state["span"] == plain.ended_at
    assert runs[0].trace_hash == plain.trace_hash
    check_counts(browser, plain)
    for at in (0.35, 1.234, 3.0):
        state = browser.run(f"replay.seek({at}), replay.state()")
        here = (columns["depart"] <= at) & (columns["end"] > at)
        found = browser.run(f"{json.dumps(state['flying'])}.map((i) => replay.row(i))")
        assert sorted((row["start"], row["sender"], row["receiver"], row["end"]) for row in found) == sorted(
            zip(*(columns[name][here].tolist() for name in ("start", "sender", "receiver", "end")), strict=True)
        )
        assert len(found) > 0
        assert state["states"]["value"] == states_at(plain.states, columns, at)["value"].tolist()
    assert browser.run("document.images.length") == 0
    assert all(url.startswith((address[0], "data:")) for url in browser.requested)
    assert [line for line in browser.output if "ERR_CONNECTION_REFUSED" not in line] == []


def check_counts(page: chromium.Page, run: Any) -> None:
    """Check that the counts on the page equal the ledger's."""
    cells = "[...document.querySelectorAll('[data-cause]')].map((row) => [row.dataset.cause, "
    shown = dict(page.run(cells + "+row.querySelector('[data-count]').textContent])"))
    ledger = run.ledger.table(by=[]).iloc[0]
    assert shown == {cause: int(ledger[cause]) for cause in (*run.ledger.causes, "in_flight")}


def test_one_run_after_the_other(browser: chromium.Page, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "_PAGE_TIMEOUT", 60.0)
    network, address = averaging(), []

    def work() -> None:
        with live_view(network, browser=False, pace=1000.0) as shown:
            address.append(shown.address)
            for _ in range(2):
                network.run({node: Average(10) for node in network.graph})

    thread = threading.Thread(target=work)
    thread.start()
    while not address:
        time.sleep(0.01)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        with urllib.request.urlopen(address[0]) as answer:
            if answer.url.endswith("/1/"):
                break
        time.sleep(0.05)
    browser.open(address[0] + "1/")
    until(browser, "location.pathname.endsWith('/2/') && Boolean(window.replay && replay.state)")
    until(browser, "!replay.state().running")
    assert browser.run("document.querySelector('[data-part=runs]').value") == "2"
    thread.join(60)
    assert not thread.is_alive()


# --- the command line -------------------------------------------------------------------------------------------------

QUICK = ["run", "averaging", "--loss", "0.1", "--latency", "0.2"]
MAIN = "from netsim.studies.cli import main; main()"


@pytest.mark.slow
def test_with_it_the_folder_is_the_same(tmp_path: Path) -> None:
    plain = call("run", "coke", "--agents", "4", "--rounds", "30", "--loss", "0.1", "--out", "plain", cwd=tmp_path)
    assert plain.returncode == 0, plain.stderr
    command = [
        sys.executable,
        "-c",
        MAIN,
        "run",
        "coke",
        "--agents",
        "4",
        "--rounds",
        "30",
        "--loss",
        "0.1",
        "--out",
        "shown",
    ]
    process = subprocess.Popen(
        [*command, "--live", "--pace", "3"], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    output = process.stdout.readline()
    address = re.fullmatch(r"watch it at (http://127\.0\.0\.1:\d+/[\w-]+/)\n", output)
    assert address, output
    # Follow the addresses of successive runs, as an open page does.
    titles: dict[int, str] = {}
    number = 1
    while process.poll() is None:
        try:
            with urllib.request.urlopen(f"{address[1]}{number}/more?since=0.0.0.0.0") as answer:
                news = json.load(answer)
        except OSError:
            time.sleep(0.05)
            continue
        titles |= dict(news["runs"])
        number += not news["running"]
    _, errors = process.communicate()
    assert process.returncode == 0, errors
    assert titles == {1: "coke: CTA", 2: "coke: DKLA", 3: "coke: COKE"}
    names = {path.name for path in (tmp_path / "plain").iterdir()}
    assert {path.name for path in (tmp_path / "shown").iterdir()} == names
    assert not any("trace" in name or "states" in name for name in names)
    for name in ("rounds.csv", "ledger.csv"):
        assert (tmp_path / "shown" / name).read_bytes() == (tmp_path / "plain" / name).read_bytes(), name
    summaries = [json.loads((tmp_path / folder / "summary.json").read_text()) for folder in ("shown", "plain")]
    for name in ("algorithms", "trace_hash", "notes", "centralised"):
        assert summaries[0][name] == summaries[1][name], name


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--pace", "2"], "pace = 2: must go with --live"),
        (["--no-browser"], "no-browser: must go with --live"),
        (["--live", "--pace", "0"], "pace = 0"),
    ],
)
def test_flags_that_make_no_sense_are_refused(words: list[str], expected: str, tmp_path: Path) -> None:
    done = call(*QUICK[:2], *words, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith("netsim: ")
    assert expected in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="Windows sends no SIGINT to one process")
def test_an_interrupt_ends_it_at_once(tmp_path: Path) -> None:
    command = [sys.executable, "-c", MAIN, "run", "coke", "--live", "--rounds", "100000", "--out", "cut"]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    assert process.stdout is not None
    address = process.stdout.readline().split()[-1]
    while True:
        try:
            with urllib.request.urlopen(f"{address}1/more?since=0.0.0.0.0") as answer:
                if json.load(answer)["total"]:
                    break
        except OSError:
            time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 130
    assert errors.splitlines()[-1].endswith("interrupted; what there is so far is in cut, marked partial")
