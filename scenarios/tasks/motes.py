"""Motes: measured networks with numbered agents, turns on a shared medium, and the energy that radios spent."""

import dataclasses
from typing import Any

import networkx as nx
import numpy as np
import pandas as pd

from netsim import Energy, Link, Radio, Run, presets
from netsim.faults import Straggler
from netsim.links.measured import LinkedGraph
from netsim.radio.energy import STATES
from netsim.util import check

VOLTS = 3.0
"""The voltage of the supply (V), the presets' default."""

_SECONDS = tuple(f"{state}_s" for state in STATES)


def cc2420(power_dbm: int = 0, *, acks: bool = True, **settings: Any) -> tuple[Link, Radio, Energy]:
    """Return the link, the radio with other settings, and the energy of IEEE 802.15.4 (`presets.ieee802154`)."""
    link, radio, energy = presets.ieee802154(power_dbm, acks=acks)
    assert radio is not None
    assert energy is not None
    return link, dataclasses.replace(radio, **settings), energy


def numbered(measured: LinkedGraph) -> LinkedGraph:
    """Return the network with nodes 0, 1, … in the same order; each keeps its name as ``mote``, and its position."""
    number = {node: place for place, node in enumerate(measured.graph)}
    graph = nx.relabel_nodes(measured.graph, number)
    nx.set_node_attributes(graph, {place: node for node, place in number.items()}, "mote")
    links = {(number[sender], number[receiver]): link for (sender, receiver), link in measured.links.items()}
    return LinkedGraph(graph, links)


def milliampere_hours(joules: Any) -> Any:
    """Return energy (J), a number or a column of them, as charge in mAh at the presets' 3 V."""
    return joules / (VOLTS * 3.6)


def reception(measured: LinkedGraph) -> float:
    """Return the mean share of frames that a link delivers, over both directions of all links."""
    return 1.0 - sum(link.loss_model.mean for link in measured.links.values()) / len(measured.links)


def in_turn(graph: "nx.Graph[int]", slot: float) -> list[Straggler]:
    """Return faults that make agents send one after the other in each round, in slots of ``slot`` seconds."""
    return [Straggler(node, delay=place * slot) for place, node in enumerate(graph) if place]


def spent(run: Run, energy: Energy, rate: float) -> pd.DataFrame:
    """Return each mote's radio energy, one row per mote.

    On a `netsim.Radio` the medium counted it. On other networks transmissions are assumed to be scheduled: a mote is
    awake while it sends and while a frame is sent to it, received or lost, and sleeps otherwise.

    Parameters
    ----------
    run : Run
        A run on a medium on which a broadcast is one transmission.
    energy : Energy
        The energy model of every mote; batteries are assumed to last.
    rate : float
        Bits per second on the air.

    Returns
    -------
    DataFrame
        Columns agent, the seconds in each state (``transmit_s`` and so on), the joules in each (``transmit_j`` and so
        on, with what is paid per bit), and ``used_j``, their sum.
    """
    table = _scheduled(run, check.finite("rate", rate, above=0)) if run.air is None else run.energy
    powers = energy.transmit, energy.receive, energy.listen, energy.sleep
    joules = {
        f"{state}_j": power * table[seconds].to_numpy()
        for state, seconds, power in zip(STATES, _SECONDS, powers, strict=True)
    }
    if run.air is None:
        joules["transmit_j"] += energy.to_send(1, 0.0) * table["transmit_s"].to_numpy() * rate
        joules["receive_j"] += energy.to_hear(1, 0.0) * table["receive_s"].to_numpy() * rate
    found = table[["agent", *_SECONDS]].assign(**joules)
    return found.assign(used_j=found[[*joules]].sum(axis=1))


def _scheduled(run: Run, rate: float) -> pd.DataFrame:
    """Return the seconds in each state, assuming that all frames of one kind from one sender have equal length."""
    names = list(run.agents)
    sent = run.ledger.senders_table()
    sent = sent.assign(size=sent["wire_bits"] / np.maximum(sent["transmissions"], 1))
    links = run.ledger.table().merge(sent, left_on=["sender", "kind"], right_on=["agent", "kind"])
    heard = (links["offered"] * links["size"]).groupby(links["receiver"]).sum().reindex(names, fill_value=0.0)
    bits = sent.groupby("agent")["wire_bits"].sum().reindex(names, fill_value=0)
    transmit, receive = bits.to_numpy() / rate, heard.to_numpy() / rate
    sleep = np.maximum(0.0, run.ended_at - transmit - receive)
    return pd.DataFrame(
        {"agent": names, "transmit_s": transmit, "receive_s": receive, "listen_s": 0.0, "sleep_s": sleep}
    )


def by_round(run: Run, spent_by: pd.DataFrame) -> "pd.Series[float]":
    """Return a run's mean energy per mote (J) by round.

    The energy of frames is divided in proportion to wire bits, the other energy in proportion to time.
    """
    rows = run.rounds
    frames = float((spent_by["transmit_j"] + spent_by["receive_j"]).mean())
    idle = float((spent_by["listen_j"] + spent_by["sleep_j"]).mean())
    wire = rows["wire_bits"] / max(1, rows["wire_bits"].iloc[-1])
    energy: pd.Series[float] = frames * wire + idle * rows["time_s"] / rows["time_s"].iloc[-1]
    return energy
