"""The settings of the kernel: the commands that install them, and the equivalent `netsim.Link`.

docs/links.md describes how far the two agree. The kernel counts waiting frames at the sender's end with all headers,
and dropped frames at the receiver's end without Ethernet's header. In netsim ``header_bits`` stands for these headers,
and a frame is as long as the datagram.
"""

import contextlib
import json
from dataclasses import dataclass

import numpy as np

from benchmarks.kernel.namespaces import RECEIVER, SENDER, Ends, Unavailable
from netsim import Link, loss
from netsim.links import Budget
from netsim.util.typing import Vector

ON_WIRE, IN_IP = 14 + 20 + 8, 20 + 8
"""The bytes of the headers of Ethernet, IP and UDP, and of IP and UDP alone."""

_STOP = {SENDER: f"tc qdisc del dev {SENDER} root", RECEIVER: "nft delete table ip netsim"}


@dataclass(frozen=True)
class Books:
    """The kernel's counts: the offered frames, the passed frames, and the bytes of the passed frames."""

    given: int
    passed: int
    passed_bytes: int


@dataclass(frozen=True)
class Setting:
    """One kernel setting at one end, and the equivalent link.

    ``pace`` is the rate (bit/s) to which the load refers, and ``size`` the bytes that every datagram must have (None:
    any). If ``service_rate`` (bit/s) is finite, netsim forwards a frame when its last bit has left, but the kernel when
    its first bit leaves.
    """

    end: str
    commands: tuple[str, ...]
    link: Link
    pace: float = np.inf
    size: int | None = None
    service_rate: float = np.inf

    @property
    def header_bytes(self) -> int:
        """Bytes that the kernel counts in addition to the datagram's."""
        return self.link.header_bits // 8

    def service(self, sizes: Vector) -> Vector:
        """Return the additional delay (s) in netsim of frames with these sizes (bytes); shapes (frames,)."""
        return 8 * (sizes + self.header_bytes) / self.service_rate

    def begin(self, ends: Ends) -> None:
        """Install the setting in the kernel, with counts of zero; raises Unavailable if the kernel lacks it."""
        try:
            for command in self.commands:
                ends.run(self.end, command)
        except Unavailable:
            # Commands that succeeded before the failure must not affect the next setting.
            with contextlib.suppress(Unavailable):
                ends.run(self.end, _STOP[self.end])
            raise

    def end_it(self, ends: Ends) -> Books:
        """Remove the setting from the kernel and return its counts."""
        if self.end == SENDER:
            books = queue_books(ends.run(SENDER, f"tc -s -j qdisc show dev {SENDER}"))
        else:
            books = rule_books(ends.run(RECEIVER, "nft -j list table ip netsim"))
        ends.run(self.end, _STOP[self.end])
        return books


def queue_books(listed: str) -> Books:
    """Read the outermost queue of ``tc -s -j qdisc show``; a waiting frame counts as offered, not as passed."""
    (queue,) = [each for each in json.loads(listed) if each.get("root")]
    return Books(queue["packets"] + queue["drops"] + queue["qlen"], queue["packets"], queue["bytes"])


def rule_books(listed: str) -> Books:
    """Read ``nft -j list table``: its first counter has all frames, its second the dropped ones."""
    parts = [part for each in json.loads(listed)["nftables"] for part in each.get("rule", {}).get("expr", [])]
    given, dropped = [part["counter"] for part in parts if "counter" in part]
    return Books(given["packets"], given["packets"] - dropped["packets"], given["bytes"] - dropped["bytes"])


def _class(rate: int, burst: int, waiting: int) -> tuple[str, ...]:
    return (
        f"tc qdisc add dev {SENDER} root handle 1: htb default 1",
        f"tc class add dev {SENDER} parent 1: classid 1:1 htb "
        f"rate {rate}bit burst {burst}b cburst {burst}b quantum 1514",
        f"tc qdisc add dev {SENDER} parent 1:1 handle 10: pfifo limit {waiting}",
    )


def _rule(drops: str) -> tuple[str, ...]:
    return (
        "nft add table ip netsim",
        "nft add chain ip netsim input { type filter hook input priority 0 ; }",
        "nft add rule ip netsim input counter",
        f"nft add rule ip netsim input {drops} counter drop",
    )


def token_bucket(rate: int, burst: int, limit: int) -> Setting:
    """Return tc's TBF: ``rate`` bit/s, ``burst`` bytes in the bucket, ``limit`` bytes that may wait."""
    budget = Budget(rate, per="second", over="wait", burst=8 * burst)
    link = Link(budget=budget, queue_bits=8 * limit, header_bits=8 * ON_WIRE)
    return Setting(
        SENDER, (f"tc qdisc add dev {SENDER} root tbf rate {rate}bit burst {burst}b limit {limit}b",), link, rate
    )


def rate(rate: int, waiting: int) -> Setting:
    """Return tc's HTB with one class of ``rate`` bit/s without a burst, and a pfifo of ``waiting`` frames in it."""
    link = Link(rate=rate, queue=waiting + 1, header_bits=8 * ON_WIRE)
    # For a burst of 0 tc would choose a default, which is larger than a frame.
    return Setting(SENDER, _class(rate, 1, waiting), link, rate, service_rate=rate)


def shaper(rate: int, burst: int, waiting: int, size: int) -> Setting:
    """Return tc's HTB with one class of ``rate`` bit/s and ``burst`` bytes, for datagrams of one ``size``."""
    budget = Budget(rate, per="second", over="wait", burst=8 * (burst + size + ON_WIRE))
    link = Link(budget=budget, queue=waiting, header_bits=8 * ON_WIRE)
    return Setting(SENDER, _class(rate, burst, waiting), link, rate, size)


def police(rate: int, burst: int, pace: float) -> Setting:
    """Return nftables' limit of ``rate`` bytes a second and ``burst`` bytes, which drops the excess."""
    budget = Budget(8 * rate, per="second", over="refuse", burst=8 * (rate + burst))
    drops = f"limit rate over {rate} bytes/second burst {burst} bytes"
    return Setting(RECEIVER, _rule(drops), Link(budget=budget, header_bits=8 * IN_IP), pace)


def random_drop(per_thousand: int) -> Setting:
    """Return nftables' random drop of ``per_thousand`` of 1000 frames."""
    link = Link(loss=loss.bernoulli(per_thousand / 1000), header_bits=8 * IN_IP)
    return Setting(RECEIVER, _rule(f"numgen random mod 1000 < {per_thousand}"), link)
