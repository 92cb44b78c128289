"""Laws of messages: the agents' records agree with the network's counts."""

import math
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Hashable
from operator import itemgetter
from typing import Any

from netsim import Link
from netsim.wire.codec import encode, payload_bits
from tests.fuzzers.agents import Call
from tests.fuzzers.laws import NEVER_SENT, TINY, Played, Row
from tests.fuzzers.wire import same

# A frame that arrives at its round's end, within rounding errors, counts as late.
BOUNDARY = -1e-13


def check_messages(played: Played) -> None:
    """Check the messages sent and received in one run with a trace."""
    wrong = [text for agent in played.agents.values() for text in agent.notes.wrong]
    assert not wrong, wrong
    received_is_what_was_sent(played)
    received_is_what_was_delivered(played)
    if not played.damages:
        # A damaged request may be answered with the damaged kind, so the kind sent may differ from the one intended.
        calls_are_what_was_offered(played)
        events = sent_events(played)
        bits_are_those_of_what_was_sent(played, events)
        frames_arrive_when_they_can(played, events)


def calls_of(played: Played) -> dict[tuple[Hashable, str], list[Call]]:
    """Return the messages, in order, keyed by sender and kind."""
    calls = defaultdict(list)
    for agent in played.agents.values():
        for call in agent.notes.calls:
            calls[call.sender, call.kind].append(call)
    return calls


# --- sent -------------------------------------------------------------------------------------------------------------


def calls_are_what_was_offered(played: Played) -> None:
    """Check that each call was offered to its links, and returned the number of links that accepted it."""
    calls = calls_of(played)
    crossed: Counter[tuple[Hashable, str]] = Counter()
    for row in played.links:
        mine = [c for c in calls[row["sender"], row["kind"]] if c.to in (None, row["receiver"])]
        # A call during which the run ended may or may not have offered its message.
        assert sum(c.finished for c in mine) <= row["offered"] <= len(mine), row
        crossed[row["sender"], row["kind"]] += row["offered"] - sum(row[cause] for cause in NEVER_SENT)
    for row in played.senders:
        mine = calls[row["agent"], row["kind"]]
        if all(c.finished and c.took is not None for c in mine):
            taken = [c for c in mine if c.took]
            assert sum(c.took or 0 for c in taken) == crossed[row["agent"], row["kind"]], row
            assert row["transmissions"] == len(taken), row
            assert row["payload_bits"] == sum(payload_bits(c.payload) for c in taken), row
            assert row["raw_data_bits"] == sum(payload_bits(c.payload) for c in taken if c.raw), row


def sent_events(played: Played) -> list[tuple[Row, Call]]:
    """Return the sending events, each with its call."""
    calls = calls_of(played)
    seen: Counter[tuple[Hashable, str]] = Counter()
    events = []
    for event in played.sent:
        key = event["sender"], event["kind"]
        assert seen[key] < len(calls[key]), f"sent by no agent: {event}"
        call = calls[key][seen[key]]
        seen[key] += 1
        assert event["time_s"] == call.at, (event, call)
        events.append((event, call))
    return events


def frame_bits(call: Call, link: Link) -> tuple[int, int]:
    """Return the least and the largest size (bits) of a message on a link; a request's number adds an unknown size."""
    fields = [call.kind, 0, call.round, call.payload]
    shortest = len(encode([*fields, 1, True] if call.is_special else fields))

    def bits(length: int) -> int:
        return 8 * length + link.header_bits * (1 if link.mtu is None else math.ceil(length / link.mtu))

    return bits(shortest), bits(shortest + (8 if call.is_special else 0))


def bits_are_those_of_what_was_sent(played: Played, events: list[tuple[Row, Call]]) -> None:
    """Law 4: check that the wire bits of each link are those of the frames that it accepted."""
    # A frame that is never sent has no duplicates, so its number equals that of its sending event.
    kept_out = {(row["sender"], row["message"], row["receiver"]) for row in played.ended if row["event"] in NEVER_SENT}
    least: Counter[tuple[Hashable, Hashable, str]] = Counter()
    most: Counter[tuple[Hashable, Hashable, str]] = Counter()
    for event, call in events:
        receivers = list(played.network.graph[call.sender]) if call.to is None else [call.to]
        took = [receiver for receiver in receivers if (call.sender, event["message"], receiver) not in kept_out]
        assert call.took is None or call.took == len(took), (event, call)
        if played.network.medium == "radio":
            took = took[:1]
        bounds = [frame_bits(call, played.link(call.sender, receiver)) for receiver in took]
        assert sum(low for low, _ in bounds) <= event["wire_bits"] <= sum(high for _, high in bounds), (event, call)
        for receiver, (low, high) in zip(took, bounds, strict=True):
            least[call.sender, receiver, call.kind] += low
            most[call.sender, receiver, call.kind] += high
    for row in played.links:
        link = row["sender"], row["receiver"], row["kind"]
        if played.network.medium == "wires":
            assert least[link] <= row["wire_bits"] <= most[link], row
        else:
            assert "wire_bits" not in row


# --- received ---------------------------------------------------------------------------------------------------------


def round_of(call: Call, period: float) -> int:
    """Return a message's round; 0 if it is sent just as its sender's round closes."""
    return 0 if abs(call.at - call.round * period) < 1e-9 * period + TINY * call.at else call.round


def received_is_what_was_sent(played: Played) -> None:
    """Check that every received frame was sent by its sender to this receiver, at its stated time, with its payload."""
    sent: dict[Any, list[Call]] = defaultdict(list)
    for (sender, kind), calls in calls_of(played).items():
        for call in calls:
            sent[sender, kind, round_of(call, played.network.round_period), call.at].append(call)
    for node, agent in played.agents.items():
        copies: Counter[int] = Counter()
        for got in agent.notes.got:
            assert got.sent_at <= got.now, got
            links = played.link_ever(got.sender, node)
            if any(link.corrupt for link in links) and not all(link.crc for link in links):
                continue
            found = sent[got.sender, got.kind, got.round, got.sent_at]
            match = [call for call in found if call.to in (None, node) and same(call.payload, got.payload)]
            assert match, f"{node!r} received {got}, which no agent sent; at that time were sent: {found}"
            first = min(map(id, match))
            copies[first] += 1
            each = 2 if any(link.duplicate for link in links) else 1
            assert copies[first] <= len(match) * each, f"too many copies of {got}"


def received_is_what_was_delivered(played: Played) -> None:
    """Check that agents received all delivered frames, except unread ones, and none before its arrival."""
    by_kind = not played.damages
    arrived: dict[Any, dict[Any, list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in played.ended:
        if row["event"] == "delivered":
            arrived[row["receiver"]][row["sender"], row["kind"] if by_kind else ""].append(row["time_s"])
    for node, agent in played.agents.items():
        got, times = agent.notes.got, arrived[node]
        delivered = sum(map(len, times.values()))
        left = agent.notes.left_at
        # Frames that arrive after an agent has ended count as delivered, but are not stored.
        unread = sum(then >= left for when in times.values() for then in when)
        assert delivered - unread <= len(got) + len(agent.inbox) + agent.notes.unread, (
            f"{node!r}: {delivered} delivered"
        )
        assert len(got) + len(agent.inbox) <= delivered, f"{node!r}: {delivered} delivered, {len(got)} received"
        read: dict[Any, list[float]] = defaultdict(list)
        for frame in got:
            read[frame.sender, frame.kind if by_kind else ""].append(frame.now)
        for key, when in read.items():
            assert len(when) <= len(times[key]), f"{node!r}, {key}: more received than delivered"
            early = [(now, then) for now, then in zip(sorted(when), sorted(times[key]), strict=False) if now < then]
            assert not early, f"{node!r}, {key}: read, arrived: {early}"


def frames_arrive_when_they_can(played: Played, events: list[tuple[Row, Call]]) -> None:
    """Check that frames arrive after their latency, and in open rounds unless late frames are kept."""
    made: dict[Hashable, list[tuple[int, Call]]] = defaultdict(list)
    for event, call in events:
        made[call.sender].append((event["message"], call))
    for row in played.ended:
        if row["event"] not in ("delivered", "late"):
            continue
        links, capacity = played.link_ever(row["sender"], row["receiver"]), played.network.capacity
        if capacity is not None and any(link.duplicate for link in links):
            continue  # The copy is made when the frame leaves, maybe after the sender's next message.
        # A duplicate has a new number, between those of its original and of the sender's next message.
        mine = made[row["sender"]]
        call = mine[bisect_right(mine, row["message"], key=itemgetter(0)) - 1][1]
        assert (call.sender, call.kind) == (row["sender"], row["kind"]), (row, call)
        rates = [max(link.rate or math.inf for link in links)]
        if capacity is not None:
            rates += [capacity.uplink.get(row["sender"], math.inf), capacity.downlink.get(row["receiver"], math.inf)]
        latency = min(link.latency_model.fixed or 0.0 for link in links)
        least = latency + frame_bits(call, links[0])[0] / min(rates)
        assert row["time_s"] - call.at >= least - TINY * row["time_s"], (row, call)
        receiver = played.agents[row["receiver"]]
        # Rounds in which the receiver no longer takes part are not checked.
        last = max((own.round for own in receiver.notes.calls), default=0)
        habits = receiver.habits
        period = played.network.round_period
        in_round = 0 < round_of(call, period) <= last and habits.name == "in_rounds" and not habits.keep_late
        if in_round and not call.is_special:
            close = call.round * period
            if row["event"] == "late":
                assert row["time_s"] >= close * (1 - TINY), (row, call)
            else:
                assert row["time_s"] < close * (1 + BOUNDARY), (row, call)
