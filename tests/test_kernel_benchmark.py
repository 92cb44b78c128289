"""The benchmark that compares links with a real kernel: its mapping and arithmetic; and it leaves nothing behind.

Tests that need network namespaces are skipped if these cannot be created.
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
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import numpy as np
import pytest

from benchmarks.kernel import __main__ as benchmark
from benchmarks.kernel import mapping, namespaces
from benchmarks.kernel.mapping import Books, Setting
from benchmarks.kernel.namespaces import RECEIVER, SENDER, Ends, Unavailable
from benchmarks.kernel.shared import uplink
from benchmarks.kernel.trial import (
    bursts,
    check_books,
    difference,
    evenly,
    medians,
    poisson,
    simulate,
    through_kernel,
)
from benchmarks.kernel.wire import Crossing, Disagreement, received, sent
from tests.command import ROOT

RATE = 1_000_000


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
    report = struct.pack("=IBBBBII", 42, 4, 0, 0, 0, 1, 77)
    control = [(socket.SOL_SOCKET, 65, stamp + bytes(32)), (0, 11, report + bytes(16))]
    assert sent(b"", control) == (77, 1_700_000_000_123_456_789)
    report = struct.pack("=IBBBBII", 111, 2, 3, 3, 0, 0, 0)
    with pytest.raises(Disagreement, match="origin 2"):
        sent(b"", [control[0], (0, 11, report)])


# Tests without the right to create a namespace.


def test_without_privileges_one_line_gives_the_reason(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    why = "only root, or who may make user namespaces, may make a network namespace"
    if sys.platform != "linux":
        why = f"network namespaces are Linux's, and this is {sys.platform}"
    monkeypatch.setattr(namespaces, "_call", refuse)
    monkeypatch.setattr(namespaces, "tool", lambda name: name)
    monkeypatch.setattr(benchmark, "become_root", lambda: None)
    for words, out in ([], f"kernel: skipped: {why}"), (["--json"], json.dumps({"skipped": {"all": why}})):
        monkeypatch.setattr(sys, "argv", ["kernel", *words])
        benchmark.main()
        assert capsys.readouterr().out == f"{out}\n"


def test_a_part_that_is_left_out_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    rows, left_out = {"tbf: netsim": {"frames": 5, "p95_us": math.nan}}, {"random": "there is no command nft"}
    benchmark.show([rows], left_out, argparse.Namespace(json=False, repeats=2))
    assert capsys.readouterr().out.splitlines()[-1] == "random: skipped: there is no command nft"
    benchmark.show([rows], left_out, argparse.Namespace(json=True))
    found = json.loads(capsys.readouterr().out)
    assert (found["tbf: netsim"], found["skipped"]) == ({"frames": 5, "p95_us": None}, left_out)


def test_a_tool_that_is_missing_is_named() -> None:
    with pytest.raises(Unavailable, match=r"^there is no command tc-of-nowhere$"):
        namespaces.tool("tc-of-nowhere")


def test_bad_flags_are_refused(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["kernel", "--frames", "3"])
    with pytest.raises(SystemExit, match="2"):
        benchmark.main()
    assert "frames = 3: must be a whole number from 20 to 5000" in capsys.readouterr().err


# Tests with the right to create a namespace.


@pytest.fixture
def ends() -> Iterator[Ends]:
    with ExitStack() as stack:
        try:
            opened = stack.enter_context(namespaces.open_ends())
        except Unavailable as why:
            pytest.skip(str(why))
        yield opened


def begun(setting: Setting, ends: Ends) -> None:
    """Skip the test if this kernel lacks what the setting needs."""
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
        # A busy machine may be late once, for the queue's timer or within a burst, so the comparison is tried three
        # times.
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
    # The tolerance is six standard deviations.
    assert abs(came - 1600) < 6 * math.sqrt(2000 * 0.2 * 0.8)


@pytest.mark.slow
def test_flows_share_an_uplink_as_htbs_classes_do(ends: Ends) -> None:
    for _ in range(3):
        # Again, a busy machine may be late once.
        try:
            rows = uplink(ends, repeats=1)
        except Unavailable as why:
            pytest.skip(str(why))
        if max(abs(row["percent"]) for row in rows.values()) < 1:
            break
    assert all(abs(row["percent"]) < 1 for row in rows.values()), rows


def test_what_the_kernel_lacks_is_named_and_not_in_the_way(ends: Ends) -> None:
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


def begin(*words: str) -> "subprocess.Popen[str]":
    command = (sys.executable, "-m", "benchmarks.kernel", *words)
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.slow
def test_the_command_prints_one_object_or_why_not() -> None:
    process = begin("--frames", "20", "--repeats", "2", "--parts", "tbf", "random", "--json")
    out, err = process.communicate()
    assert (process.returncode, err) == (0, "")
    found = json.loads(out)
    if found["skipped"]:
        pytest.skip(str(found["skipped"]))
    assert found["tbf, bursts: netsim"]["frames"] == 20
    assert all(0 < found["tbf, bursts: netsim"][name] <= 20 for name in ("survived", "other"))
    assert found["tbf, poisson 0.8: netsim"]["p95_ratio"] > 0
    assert found["random 10%: kernel"]["frames"] == 2 * 20 * 20


def opened(process: "int | str") -> set[str]:
    """Return the network namespaces that a process has open; "[0-9]*" stands for any process."""
    found = set()
    for file in Path("/proc").glob(f"{process}/fd/*"):
        with suppress(OSError):
            found.add(os.readlink(file))
    return {each for each in found if each.startswith("net:")}


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="network namespaces are Linux's")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, getattr(signal, "SIGKILL", 9)])
def test_nothing_is_left_of_a_command_that_ends_amid_the_traffic(number: int) -> None:
    names = socket.if_nameindex()
    process = begin("--frames", "5000", "--parts", "tbf")
    made: set[str] = set()
    while len(made) < 2 and process.poll() is None:
        made = opened(process.pid) - {os.readlink("/proc/self/ns/net")}
        time.sleep(0.005)
    if process.poll() is not None:
        pytest.skip(process.communicate()[0].strip())
    # By then the network devices exist, and frames are being sent.
    time.sleep(0.5)
    process.send_signal(number)
    _, err = process.communicate()
    if number == signal.SIGINT:
        assert (process.returncode, err) == (130, "kernel: interrupted; the namespaces are gone\n")
    # A command that the benchmark has just started may still be running; it ends by itself.
    until = time.monotonic() + 60
    while made & opened("[0-9]*") and time.monotonic() < until:
        time.sleep(0.02)
    assert not made & opened("[0-9]*")
    assert socket.if_nameindex() == names
