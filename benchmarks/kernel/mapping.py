"""Which setting of a `netsim.Link` is which setting of the kernel's: the commands, and the link that is to do the same.

What waits at the sender's end is counted by the kernel with all its headers, what is dropped at the receiver's without
Ethernet's: ``header_bits`` are those, and a frame of netsim's is as long as the datagram.
"""

import contextlib
import json
from dataclasses import dataclass, field

import numpy as np

from benchmarks.kernel.namespaces import RECEIVER, SENDER, Ends, Unavailable
from netsim import Link, loss
from netsim.links import Budget
from netsim.util.typing import Vector

__all__ = [
    "IN_IP",
    "ON_WIRE",
    "Books",
    "Setting",
    "police",
    "queue_books",
    "random_drop",
    "rate",
    "rule_books",
    "shaper",
    "token_bucket",
]

ON_WIRE, IN_IP = 14 + 20 + 8, 20 + 8
"""Bytes of the headers of Ethernet, IP and UDP; and without Ethernet's."""


@dataclass(frozen=True)
class Books:
    """What the kernel itself counted: frames that it was given, that it let through, and the bytes of these."""

    given: int
    passed: int
    passed_bytes: int


@dataclass(frozen=True)
class Setting:
    """One thing in the kernel, and in netsim.

    Attributes
    ----------
    end : str
        The end at which the kernel has it.
    commands : tuple of str
        What sets it up.
    stop : str
        What removes it.
    link : Link
        What is to do the same.
    pace : float
        Bits a second for the traffic to have its load of.
    size : int, optional
        Bytes that every datagram has to have; None: any.
    service_rate : float
        Where it is finite, netsim hands a frame on when its last bit has left at this rate (bit/s), and the kernel as
        the first one would.
    """

    end: str
    commands: tuple[str, ...]
    stop: str
    link: Link
    pace: float
    size: int | None = None
    service_rate: float = field(default=np.inf)

    @property
    def header_bytes(self) -> int:
        """Bytes that the kernel counts beside those of the datagram."""
        return self.link.header_bits // 8

    def service(self, sizes: Vector) -> Vector:
        """Return how much later (s) netsim hands on a frame of so many bytes; shapes (frames,)."""
        return 8 * (sizes + self.header_bytes) / self.service_rate

    def begin(self, ends: Ends) -> None:
        """Set it up in the kernel, as new; raises Unavailable if the kernel does not have it."""
        try:
            for command in self.commands:
                ends.run(self.end, command)
        except Unavailable:
            # What was there before the command that failed is not to be in the way of the next setting.
            with contextlib.suppress(Unavailable):
                ends.run(self.end, self.stop)
            raise

    def end_it(self, ends: Ends) -> Books:
        """Remove it from the kernel and return what it had counted."""
        if self.end == SENDER:
            books = queue_books(ends.run(SENDER, f"tc -s -j qdisc show dev {SENDER}"))
        else:
            books = rule_books(ends.run(RECEIVER, "nft -j list table ip netsim"))
        ends.run(self.end, self.stop)
        return books


def queue_books(listed: str) -> Books:
    """Read what ``tc -s -j qdisc show`` says of the outermost queue; what still waits has been given, not passed."""
    (queue,) = [each for each in json.loads(listed) if each.get("root")]
    return Books(queue["packets"] + queue["drops"] + queue["qlen"], queue["packets"], queue["bytes"])


def rule_books(listed: str) -> Books:
    """Read ``nft -j list table``: of its two counters the first is for all frames, the second for those dropped."""
    parts = [part for each in json.loads(listed)["nftables"] for part in each.get("rule", {}).get("expr", [])]
    given, dropped = [part["counter"] for part in parts if "counter" in part]
    return Books(given["packets"], given["packets"] - dropped["packets"], given["bytes"] - dropped["bytes"])


def _queue(*commands: str) -> tuple[str, ...]:
    return tuple(f"tc {what} add dev {SENDER} {how}" for what, how in (each.split(" ", 1) for each in commands))


def _rule(drops: str) -> tuple[str, ...]:
    chain = "ip netsim input"
    return (
        "nft add table ip netsim",
        f"nft add chain {chain} {{ type filter hook input priority 0 ; }}",
        f"nft add rule {chain} counter",
        f"nft add rule {chain} {drops} counter drop",
    )


def token_bucket(rate: int, burst: int, limit: int) -> Setting:
    """Return tc's TBF of ``rate`` bit/s, ``burst`` bytes in the bucket and ``limit`` bytes that may wait.

    A frame leaves once there are as many tokens as it has bits.
    """
    return Setting(
        SENDER,
        _queue(f"qdisc root tbf rate {rate}bit burst {burst}b limit {limit}b"),
        f"tc qdisc del dev {SENDER} root",
        Link(
            budget=Budget(rate, per="second", over="wait", burst=8 * burst),
            queue_bits=8 * limit,
            header_bits=8 * ON_WIRE,
        ),
        pace=rate,
    )


def _class(rate: int, burst: int, waiting: int) -> tuple[str, ...]:
    return _queue(
        "qdisc root handle 1: htb default 1",
        f"class parent 1: classid 1:1 htb rate {rate}bit burst {burst}b cburst {burst}b quantum 1514",
        f"qdisc parent 1:1 handle 10: pfifo limit {waiting}",
    )


def rate(rate: int, waiting: int) -> Setting:
    """Return tc's HTB with one class of ``rate`` bit/s without a burst, and a pfifo of ``waiting`` frames in it.

    The class hands a frame on at once if it owes nothing, and then owes the frame's bits. The queue holds those that
    wait, without the one that is being paid off; in netsim's that one counts, too, and it arrives when it is paid.
    """
    return Setting(
        SENDER,
        # 0 would be tc's own choice, which is larger than a frame.
        _class(rate, 1, waiting),
        f"tc qdisc del dev {SENDER} root",
        Link(rate=rate, queue=waiting + 1, header_bits=8 * ON_WIRE),
        pace=rate,
        service_rate=rate,
    )


def shaper(rate: int, burst: int, waiting: int, size: int) -> Setting:
    """Return tc's HTB with one class of ``rate`` bit/s and ``burst`` bytes, and a pfifo of ``waiting`` frames in it.

    The class hands a frame on if it owes nothing. For datagrams of one ``size`` that is a bucket that holds a frame
    more and hands it on if it has as many tokens as the frame has bits.
    """
    frame = size + ON_WIRE
    return Setting(
        SENDER,
        _class(rate, burst, waiting),
        f"tc qdisc del dev {SENDER} root",
        Link(
            budget=Budget(rate, per="second", over="wait", burst=8 * (burst + frame)),
            queue=waiting,
            header_bits=8 * ON_WIRE,
        ),
        pace=rate,
        size=size,
    )


def police(rate: int, burst: int, pace: float) -> Setting:
    """Return nftables' limit of ``rate`` bytes a second and ``burst`` bytes, which drops what exceeds it.

    Its bucket holds what one second fills, and the burst.
    """
    return Setting(
        RECEIVER,
        _rule(f"limit rate over {rate} bytes/second burst {burst} bytes"),
        "nft delete table ip netsim",
        Link(
            budget=Budget(8 * rate, per="second", over="refuse", burst=8 * (rate + burst)),
            header_bits=8 * IN_IP,
        ),
        pace=pace,
    )


def random_drop(per_thousand: int) -> Setting:
    """Return nftables' random drop of so many of 1000 frames."""
    return Setting(
        RECEIVER,
        _rule(f"numgen random mod 1000 < {per_thousand}"),
        "nft delete table ip netsim",
        Link(loss=loss.bernoulli(per_thousand / 1000), header_bits=8 * IN_IP),
        pace=np.inf,
    )
