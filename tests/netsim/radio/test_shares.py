"""Limits on the share of time that each node may send in each band; excess frames wait or are refused."""

import asyncio
from typing import Any

import networkx as nx
import pytest

from netsim import Agent, BadInput, Link, Network, Radio, Run
from netsim.testing import sized

# At this rate, a frame of 100 bytes takes 0.1 s.
LINK, FRAME = Link(rate=8000.0), 0.1


class Sends(Agent):
    """Sends one frame on each given channel, without waiting in between, and records the outcomes."""

    def __init__(self, *channels: int, pause: float = 0.0) -> None:
        self.channels, self.pause = channels, pause

    async def run(self) -> None:
        self.sent = []
        for channel in self.channels:
            if channel != self.radio.channel:
                self.radio.channel = channel
            self.sent.append(await self.radio.transmit("m", sized(100)))
            await asyncio.sleep(self.pause)


def play(agents: dict[int, Sends], **more: Any) -> Run:
    graph: nx.Graph[int] = nx.Graph([(0, 1)])
    return Network(graph, LINK, medium=Radio(access="aloha", **more)).run(agents, trace=True)


def begins(run: Run, node: int) -> list[float]:
    log = run.on_air
    return log["start_s"][log["sender"] == node].tolist()


def test_each_node_has_its_share_and_the_wait_is_counted() -> None:
    """With a share of 1/10, node 0 is silent for 0.9 s after each frame of 0.1 s; node 1 has no limit."""
    run = play({0: Sends(0, 0, 0), 1: Sends(0, 0, 0)}, transmit_share={0: 0.1})
    assert begins(run, 0) == pytest.approx([0.0, 1.0, 2.0])
    assert begins(run, 1) == pytest.approx([0.0, 0.1, 0.2])
    air = run.airtime.set_index("agent")
    assert air["silences"].tolist() == [2, 0]
    assert air["silence_s"].tolist() == pytest.approx([1.8, 0.0])
    assert air["queueing_s"][0] == pytest.approx(1.8)


def test_each_band_has_a_share_of_its_own() -> None:
    channels = 0, 5, 0, 1, 5, 7
    alone = play({0: Sends(*channels), 1: Sends()}, transmit_share=0.1)
    assert begins(alone, 0) == pytest.approx([0.0, 1.0, 2.0, 3.0, 4.0, 5.0])
    # Channels 0 and 1 form a band. Channels 5 and 7 are in no band given, so they share the rest.
    bands = play({0: Sends(*channels), 1: Sends()}, transmit_share=0.1, transmit_bands=[{0, 1}, {2}])
    assert begins(bands, 0) == pytest.approx([0.0, 0.1, 1.0, 2.0, 2.1, 3.1])


def test_a_frame_that_would_wait_is_refused_and_counted() -> None:
    run = play({0: Sends(0, 0, 0, 0, pause=0.45), 1: Sends()}, transmit_share=0.1, refuses_silent=True)
    # Frames are offered at 0, 0.55 (refused), 1.0 (the silence has just ended) and 1.55 s (refused).
    assert begins(run, 0) == pytest.approx([0.0, 1.0])
    assert [sent.on_air for sent in run.agents[0].sent] == [True, False, True, False]
    assert [sent.reason for sent in run.agents[0].sent] == ["", "refused", "", "refused"]
    assert run.ledger.table()[["offered", "refused"]].iloc[0].tolist() == [4, 2]
    assert run.airtime["silences"].sum() == 0


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"transmit_share": {7: 0.1}}, "transmit_share: node = 7: must be a node of the network's graph"),
        ({"transmit_share": {0: 0.0}}, r"transmit_share\[0\] = 0.0"),
        ({"transmit_share": 0.1, "transmit_bands": [{0}, {0, 1}]}, "transmit_bands: channel = 0: must be in one group"),
        ({"transmit_share": 0.1, "transmit_bands": [0]}, "transmit_bands = 0: must be a list of groups"),
        ({"transmit_bands": [{0}]}, "transmit_share = None: must be given with transmit_bands"),
        ({"refuses_silent": True}, "transmit_share = None: must be given with"),
        ({"transmit_share": 0.1, "refuses_silent": 1}, "refuses_silent = 1: must be True or False"),
    ],
)
def test_shares_that_cannot_be_are_refused(more: dict[str, Any], says: str) -> None:
    with pytest.raises(BadInput, match=says):
        play({0: Sends(), 1: Sends()}, **more)
