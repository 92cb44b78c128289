"""The benchmark that holds links against a real kernel: its mapping, its arithmetic, and that nothing of it stays.

What needs network namespaces is skipped where they may not be made. The kernel's queues are written down here once
more, frame by frame, as their manual pages say what they do.
"""

import argparse
import json
import math
import os
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from benchmarks.kernel import __main__ as benchmark
from benchmarks.kernel import mapping, namespaces
from benchmarks.kernel.mapping import Books, Setting
from benchmarks.kernel.namespaces import RECEIVER, SENDER, Ends, Unavailable
from benchmarks.kernel.trial import (
    SIZES,
    Plan,
    bursts,
    check_books,
    difference,
    evenly,
    loss_rate,
    medians,
    poisson,
    simulate,
    through_kernel,
)
from benchmarks.kernel.wire import Crossing, Disagreement, received, sent
from netsim.util.typing import Vector

ROOT = Path(__file__).parents[2]
RATE = 1_000_000


# What the kernel's queues do, one frame after the other.


def tbf(times: Vector, bytes_: Vector, rate: float, burst: float, limit: float) -> list[float]:
    """A bucket of ``burst`` bytes, full at first; a frame waits for as many tokens as it has bytes; NaN: dropped."""
    tokens, then, left = burst, 0.0, []
    waiting: list[tuple[float, float]] = []
    for now, size in zip(times, bytes_, strict=True):
        waiting = [(end, each) for end, each in waiting if end > now]
        if sum(each for _, each in waiting) + size > limit:
            left.append(math.nan)
            continue
        start = max(now, then)
        held = min(burst, tokens + (start - then) * rate / 8)
        then = start + max(0.0, 8 * (size - held) / rate)
        tokens = max(held, size) - size
        left.append(then)
        waiting.append((then, size))
    return left


def htb(times: Vector, bytes_: Vector, rate: float, burst: float, waiting: int) -> list[float]:
    """A frame is handed on once nothing beyond ``burst`` bytes is owed, and then owed; so many may wait."""
    paid, left, queue = 0.0, [], []
    for now, size in zip(times, bytes_, strict=True):
        queue = [end for end in queue if end > now]
        if len(queue) >= waiting:
            left.append(math.nan)
            continue
        leaves = max(now, paid - 8 * burst / rate)
        paid = max(leaves, paid) + 8 * size / rate
        left.append(leaves)
        queue.append(leaves)
    return left


def limit(times: Vector, bytes_: Vector, rate: float, burst: float) -> list[float]:
    """A bucket of a second's worth and ``burst`` bytes, full at first; a frame that exceeds it is dropped."""
    tokens, then, left = rate + burst, 0.0, []
    for now, size in zip(times, bytes_, strict=True):
        tokens, then = min(rate + burst, tokens + (now - then) * rate), now
        fits = size <= tokens
        tokens -= size if fits else 0
        left.append(now if fits else math.nan)
    return left


Traffic = Callable[..., Plan]


@pytest.mark.parametrize("traffic", [bursts, poisson])
@pytest.mark.parametrize("load", [0.8, 1.4])
@pytest.mark.parametrize(
    ("setting", "oracle"),
    [
        (mapping.token_bucket(RATE, 4000, 8000), lambda t, b: tbf(t, b, RATE, 4000, 8000)),
        (mapping.shaper(RATE, 3000, 10, 700), lambda t, b: htb(t, b, RATE, 3000, 10)),
        (mapping.rate(RATE, 1), lambda t, b: htb(t, b, RATE, 0, 1)),
        (mapping.police(20_000, 2000, pace=RATE), lambda t, b: limit(t, b, 20_000, 2000)),
    ],
)
def test_the_links_do_what_the_queues_are_said_to_do(
    setting: Setting, oracle: Callable[[Vector, Vector], list[float]], load: float, traffic: Traffic
) -> None:
    plan = traffic(400, setting.pace, load=load, size=setting.size, rng=np.random.default_rng(3))
    # A burst's frames are offered one after the other.
    times = plan.times + 1e-5 * np.arange(400)
    crossing, run = simulate(setting, times, plan.sizes, seed=1)
    expected = np.array(oracle(times, plan.sizes + setting.header_bytes))
    np.testing.assert_allclose(crossing.departed, expected, rtol=0, atol=1e-9)
    came = ~np.isnan(expected)
    assert crossing.order == tuple(np.flatnonzero(came))
    assert 0 < came.sum() < 400 or load < 1
    assert run.ledger.wire_bits == 8 * (plan.sizes + setting.header_bytes)[came].sum()


def test_random_drop_is_a_bernoulli_loss_of_frames_that_crossed() -> None:
    setting = mapping.random_drop(100)
    plan = evenly(4000, 1e-4, 100)
    crossing, run = simulate(setting, plan.times, plan.sizes, seed=1)
    row = loss_rate(4000 - len(crossing.order), 4000)
    assert row["low"] < 10 < row["high"]
    assert run.ledger.wire_bits == 4000 * 8 * (100 + mapping.IN_IP)
    np.testing.assert_array_equal(crossing.departed[list(crossing.order)], plan.times[list(crossing.order)])


def test_the_commands_name_what_the_link_has() -> None:
    bucket = mapping.token_bucket(2_000_000, 4000, 8000)
    assert bucket.commands == ("tc qdisc add dev sender root tbf rate 2000000bit burst 4000b limit 8000b",)
    assert (bucket.link.queue_bits, bucket.link.header_bits) == (64_000, 8 * 42)
    assert mapping.rate(RATE, 10).link.queue == 11
    assert "pfifo limit 10" in mapping.rate(RATE, 10).commands[-1]
    assert "numgen random mod 1000 < 25" in mapping.random_drop(25).commands[-1]
    assert mapping.random_drop(25).link.loss_model.mean == 0.025


def test_bursts_and_poisson_offer_the_load() -> None:
    rng = np.random.default_rng(1)
    plan = poisson(20_000, 1e6, 1.3, None, rng)
    assert 8 * plan.sizes.sum() / plan.times[-1] == pytest.approx(1.3e6, rel=0.03)
    assert set(plan.sizes) == set(SIZES)
    plan = bursts(60, 1e6, 0.5, 700, rng)
    assert sorted(set(plan.times - plan.times[0])) == pytest.approx([0, 20 * 8 * 700 / 5e5, 40 * 8 * 700 / 5e5])


def crossing(departed: list[float], order: tuple[int, ...]) -> Crossing:
    return Crossing(np.arange(float(len(departed))), np.array(departed), order)


def test_a_difference_counts_fates_order_and_time() -> None:
    one = crossing([1.0, 2.0, math.nan, 4.0, 5.0], (0, 1, 3, 4))
    other = crossing([1.0, math.nan, math.nan, 4.002, 4.001], (0, 4, 3))
    row = difference(one, other)
    assert (row["survived"], row["other"], row["differ"], row["swapped"]) == (4, 3, 1, 1)
    assert row["p50_us"] == pytest.approx(2000)
    assert row["max_us"] == pytest.approx(999_000)
    same = difference(one, one)
    assert (same["differ"], same["swapped"], same["max_us"]) == (0, 0, 0)
    none = difference(one, crossing([math.nan] * 5, ()))
    assert (none["other"], none["differ"]) == (0, 4)
    assert math.isnan(none["p95_us"])
    assert medians([same, row])["differ"] == 0
    assert medians([same, row, row])["differ"] == 1


def test_an_interval_of_a_rate_of_which_none_were_lost() -> None:
    """Clopper's and Pearson's interval then ends at 1 - 0.025^(1/n)."""
    row = loss_rate(0, 10)
    assert (row["low"], row["high"], row["percent"]) == pytest.approx((0, 100 - 100 * 0.025**0.1, 0))


def test_the_books_of_queue_and_rule_are_read() -> None:
    queue = {"kind": "tbf", "handle": "1:", "root": True, "bytes": 900, "packets": 3, "drops": 2, "qlen": 1}
    leaf = {"kind": "pfifo", "parent": "1:1", "bytes": 1, "packets": 1, "drops": 1, "qlen": 1}
    assert mapping.queue_books(json.dumps([queue, leaf])) == Books(given=6, passed=3, passed_bytes=900)
    all_, dropped = ({"counter": {"packets": each, "bytes": 100 * each}} for each in (7, 3))
    rules = [{"rule": {"expr": [all_]}}, {"rule": {"expr": [{"match": {}}, dropped, {"drop": None}]}}]
    listed = json.dumps({"nftables": [{"metainfo": {}}, *rules]})
    assert mapping.rule_books(listed) == Books(given=7, passed=4, passed_bytes=400)


def test_books_that_differ_are_refused() -> None:
    setting, plan = mapping.random_drop(10), evenly(3, 0.1, 100)
    came = crossing([1.0, math.nan, 3.0], (0, 2))
    check_books(Books(3, 2, 2 * 128), setting, plan, came)
    for wrong in (Books(4, 2, 2 * 128), Books(3, 3, 2 * 128), Books(3, 2, 2 * 142)):
        with pytest.raises(Disagreement, match="the kernel counted"):
            check_books(wrong, setting, plan, came)


def test_stamps_are_read_to_the_nanosecond() -> None:
    stamp = struct.pack("=qq", 1_700_000_000, 123_456_789)
    assert received(b"\0\0\1\2", [(socket.SOL_SOCKET, 64, stamp)]) == (258, 1_700_000_000_123_456_789)
    told = struct.pack("=IBBBBII", 42, 4, 0, 0, 0, 1, 77)
    control = [(socket.SOL_SOCKET, 65, stamp + bytes(32)), (0, 11, told + bytes(16))]
    assert sent(b"", control) == (77, 1_700_000_000_123_456_789)
    told = struct.pack("=IBBBBII", 111, 2, 3, 3, 0, 0, 0)
    with pytest.raises(Disagreement, match="origin 2"):
        sent(b"", [control[0], (0, 11, told)])


# Without the right to make a namespace.


@pytest.mark.parametrize("as_json", [False, True])
def test_without_privileges_one_line_says_why(
    as_json: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    why = "only root, or who may make user namespaces, may make a network namespace"
    if sys.platform != "linux":
        why = f"network namespaces are Linux's, and this is {sys.platform}"
    monkeypatch.setattr(namespaces, "_call", refuse)
    monkeypatch.setattr(namespaces, "tool", lambda name: name)
    monkeypatch.setattr(benchmark, "become_root", lambda: None)
    monkeypatch.setattr(sys, "argv", ["kernel", *(["--json"] if as_json else [])])
    benchmark.main()
    out = capsys.readouterr().out
    assert out == (json.dumps({"skipped": {"all": why}}) if as_json else f"kernel: skipped: {why}") + "\n"


def test_a_part_that_is_left_out_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    chosen = argparse.Namespace(json=False, repeats=2)
    row = {"frames": 5, "p95_us": math.nan}
    benchmark.show({"tbf: netsim": row}, {}, {"random": "there is no command nft"}, chosen)
    assert capsys.readouterr().out.splitlines()[-1] == "random: skipped: there is no command nft"
    chosen.json = True
    benchmark.show({"tbf: netsim": row}, {}, {"random": "there is no command nft"}, chosen)
    found = json.loads(capsys.readouterr().out)
    assert found["tbf: netsim"] == {"frames": 5, "p95_us": None}
    assert found["skipped"] == {"random": "there is no command nft"}


def test_a_tool_that_is_missing_is_named() -> None:
    with pytest.raises(Unavailable, match=r"^there is no command tc-of-nowhere$"):
        namespaces.tool("tc-of-nowhere")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--frames", "3"], "frames = 3: must be a whole number from 20 to 5000"),
        (["--parts", "netem"], "invalid choice: 'netem'"),
    ],
)
def test_bad_flags_are_refused(
    words: list[str], says: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["kernel", *words])
    with pytest.raises(SystemExit) as refused:
        benchmark.main()
    assert refused.value.code == 2
    assert says in capsys.readouterr().err


# With it.


@pytest.fixture
def ends() -> Iterator[Ends]:
    try:
        stack = namespaces.open_ends()
        opened = stack.__enter__()
    except Unavailable as why:
        pytest.skip(str(why))
    yield opened
    stack.__exit__(None, None, None)


def begun(setting: Setting, ends: Ends) -> None:
    """Skip the test if this kernel does not have it."""
    try:
        setting.begin(ends)
        setting.end_it(ends)
    except Unavailable as why:
        pytest.skip(str(why))


@pytest.mark.parametrize("part", ["tbf", "htb", "limit"])
def test_frames_through_the_kernel_have_netsims_fates(part: str, ends: Ends) -> None:
    setting = benchmark.SETTINGS[part]
    begun(setting, ends)
    plan = bursts(120, setting.pace, 1.4, setting.size, np.random.default_rng(1))
    for _ in range(3):
        # A machine that is busy elsewhere may be late once, with the queue's timer or amid a burst.
        kernel = through_kernel(ends, setting, plan)
        found = difference(kernel, simulate(setting, kernel.offered, plan.sizes, 1)[0])
        if found["differ"] == 0:
            break
    assert found["differ"] == found["swapped"] == 0
    assert found["p50_us"] < 2000
    assert (kernel.offered >= plan.times - 1e-9).all()
    assert len(kernel.order) < 120 or part == "limit"


def test_a_random_drop_of_the_kernel_has_its_rate(ends: Ends) -> None:
    setting = mapping.random_drop(200)
    begun(setting, ends)
    came = len(through_kernel(ends, setting, evenly(2000, 2e-5, 60)).order)
    # Six standard deviations.
    assert abs(came - 1600) < 6 * math.sqrt(2000 * 0.2 * 0.8)


def test_what_the_kernel_lacks_is_said_and_not_in_the_way(ends: Ends) -> None:
    setting = benchmark.SETTINGS["tbf"]
    begun(setting, ends)
    lacking = Setting(SENDER, (*setting.commands, "tc qdisc add dev sender parent 1: nosuchqueue"), setting.link)
    with pytest.raises(Unavailable, match=r"^'tc qdisc add dev sender parent 1: nosuchqueue': "):
        lacking.begin(ends)
    begun(setting, ends)


def test_this_process_stays_where_it_was(ends: Ends) -> None:
    there = os.readlink("/proc/thread-self/ns/net")
    names = socket.if_nameindex()
    assert {name for _, name in names}.isdisjoint({SENDER, RECEIVER})
    for end in (SENDER, RECEIVER):
        with ends.inside(end):
            assert os.readlink("/proc/thread-self/ns/net") != there
            assert {name for _, name in socket.if_nameindex()} == {"lo", end}
    assert os.readlink("/proc/thread-self/ns/net") == there
    assert socket.if_nameindex() == names


def begin(code: str, *words: str) -> "subprocess.Popen[str]":
    words = (sys.executable, "-c", code, *words)
    return subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


COMMAND = "import runpy; runpy.run_module('benchmarks.kernel', run_name='__main__')"
# Most of the time one of its commands is under way.
MAKING = """
from benchmarks.kernel.namespaces import become_root, open_ends
become_root()
with open_ends() as ends:
    while True:
        ends.run("sender", "ip link show")
"""


@pytest.mark.slow
def test_the_command_prints_one_object_or_why_not() -> None:
    process = begin(COMMAND, "--frames", "20", "--repeats", "2", "--parts", "tbf", "random", "--json")
    out, err = process.communicate()
    assert (process.returncode, err) == (0, "")
    (line,) = out.splitlines()
    found = json.loads(line)
    if found["skipped"]:
        pytest.skip(str(found["skipped"]))
    assert found["tbf, bursts: netsim"]["frames"] == 20
    assert all(0 < found["tbf, bursts: netsim"][name] <= 20 for name in ("survived", "other"))
    assert found["tbf, poisson 0.8: netsim"]["p95_ratio"] > 0
    assert found["random 10%: kernel"]["frames"] == 2 * 20 * 20


def references(to: set[str]) -> list[str]:
    """Return what of any process refers to one of these namespaces."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            files = [process / "ns" / "net", *(process / "fd").iterdir()]
        except OSError:
            continue
        for file in files:
            try:
                if os.readlink(file) in to:
                    found.append(str(file))
            except OSError:
                continue
    return found


def opened(process: "subprocess.Popen[str]", sockets: int) -> set[str]:
    """Return the namespaces that a process has made, once it has both and so many sockets in them."""
    here = os.readlink("/proc/self/ns/net")
    while process.poll() is None:
        try:
            files = [os.readlink(file) for file in Path(f"/proc/{process.pid}/fd").iterdir()]
        except OSError:
            files = []
        made = {file for file in files if file.startswith("net:")} - {here}
        if len(made) >= 2 and sum(file.startswith("socket:") for file in files) >= sockets:
            return made
        time.sleep(0.005)
    out, err = process.communicate()
    pytest.skip((out.strip() or err.strip()).splitlines()[-1])


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="network namespaces are Linux's")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, getattr(signal, "SIGKILL", 9)])
def test_nothing_is_left_of_what_was_being_made(number: int) -> None:
    process = begin(MAKING)
    end(process, number, opened(process, sockets=0))


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="network namespaces are Linux's")
def test_an_interrupt_amid_the_traffic_ends_in_one_line() -> None:
    process = begin(COMMAND, "--frames", "5000", "--parts", "tbf")
    err = end(process, signal.SIGINT, opened(process, sockets=2))
    assert process.returncode == 130
    assert err == "kernel: interrupted; the namespaces are gone\n"


def end(process: "subprocess.Popen[str]", number: int, made: set[str]) -> str:
    """End a process, see that nothing refers to what it has made, and return what it wrote as errors."""
    names = socket.if_nameindex()
    process.send_signal(number)
    _, err = process.communicate()
    until = time.monotonic() + 5
    # A command that had just begun ends by itself.
    while references(made) and time.monotonic() < until:
        time.sleep(0.02)
    assert references(made) == []
    assert socket.if_nameindex() == names
    return err
