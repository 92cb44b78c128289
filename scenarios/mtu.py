"""Bits per element against frames: fragments, their delivery, the energy, and the final error."""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import networkx as nx
import numpy as np
import pandas as pd

from netsim import Network, Run, presets
from netsim.coders import MOST_BITS, Coder, Exact, Float, Uniform
from netsim.links import Reliability
from netsim.scenarios.tasks.answers import answer, of_one_run
from netsim.scenarios.tasks.batch_task import BatchSteps, BatchTask
from netsim.scenarios.tasks.diagnosis import missed_notes
from netsim.scenarios.tasks.method import played
from netsim.scenarios.tasks.motes import cc2420, in_turn
from netsim.scenarios.tasks.problems import KernelRegression
from netsim.scenarios.tasks.settings import Rows, Setting, names_in
from netsim.studies import Study
from netsim.studies.experiment import Seeds, Setup
from netsim.studies.experiment.study import learned
from netsim.studies.figures import Axes, Figure, drawing
from netsim.studies.outcome import may_diverge
from netsim.util import check

# CSMA-CA with the longest back-off that IEEE 802.15.4 allows, since all receivers acknowledge at the same time.
_MIN_BE, _MAX_BE, _BACKOFFS = 5, 8, 5
# The longest access to a free channel: 2^5 − 1 units of back-off, one channel assessment, one turnaround.
_ACCESS = (2**_MIN_BE - 1) * 320e-6 + 128e-6 + 192e-6
_IDLE = 18.8e-3 * 3.0  # W, of an idle radio: 18.8 mA at 3 V


@dataclass(frozen=True, kw_only=True)
class Air:
    """The radio channel, and how messages are sent over it.

    Parameters
    ----------
    loss : float
        Probability that a frame (a whole message or a fragment) is lost.
    widths : str
        Bits per element, separated by commas: 64 or 32 for states in floating point; 1 to 16 for quantized changes,
        with the range sent in each message.
    remedy : str
        "ack": each receiver acknowledges each message; "nack": a receiver that notices a gap requests the missing
        messages.
    period : float
        Seconds of a round; it must be long enough for all agents to send one after the other, and to repeat lost
        frames.
    """

    loss: float = 0.05
    widths: str = "64,32,8,4,3,2"
    remedy: str = "ack"
    period: float = 10.0

    def coders(self) -> dict[int, Coder]:
        """Return the coders by their bits per element; raises BadInput for bits without a coder."""
        found: dict[int, Coder] = {}
        for each in names_in(self.widths):
            if not each.isdecimal() or not (int(each) in (32, 64) or 1 <= int(each) <= MOST_BITS):
                raise check.refuse("widths", each, f"64, 32, or a whole number from 1 to {MOST_BITS}")
            bits = int(each)
            found[bits] = Exact() if bits == 64 else Float(32) if bits == 32 else Uniform(bits)
        return found


def mtu(
    study: Study,
    *,
    data: str = "synthetic",
    algorithm: str = "DKLA",
    rounds: int = 120,
    rows: Rows = Rows(),
    steps: BatchSteps = BatchSteps(rho=1e-3),  # noqa: B008 (frozen)
    setting: Setting = Setting(agents=10, features=200),
    air: Air = Air(),
    seeds: Seeds = Seeds(),
) -> None:
    """Bits an element against frames: why three bits fit one IEEE 802.15.4 frame and 64 do not.

    Agents send one after the other and sense all others, so that frames are lost only by --loss, not by collisions.
    Each number of bits runs twice: without and with retransmission of lost frames.

    Parameters
    ----------
    data : str
        "synthetic" (the COKE paper's), or the NAME of a table in NETSIM_DATA or the cache, or its path.
    algorithm : str
        "DKLA" or "COKE".
    rounds : int
        Number of rounds.
    """
    check.integer("rounds", rounds, low=1)
    problem = KernelRegression(data=data, rows=rows, **dataclasses.asdict(setting))
    check.integer("agents", problem.whole().agents, low=2)
    check.probability("loss", air.loss)
    check.one_of("algorithm", algorithm, ("DKLA", "COKE"))
    check.one_of("remedy", air.remedy, ("ack", "nack"))
    steps = steps.resolved(data)
    coders, plain = air.coders(), steps.methods()[algorithm]
    task = learned(study, problem, Setup(seeds, rounds, ideal=not air.loss))
    study.record(steps)
    networks = {bits: _networks(task.graph, air, task.size, bits, seeds) for bits in coders}
    for bits, coder in coders.items():
        for way, network in zip(("", air.remedy), networks[bits], strict=True):
            name = _name(algorithm, bits, way)
            with may_diverge() as outcome:
                played(study, name, plain.with_given(coder=coder), task, network, [task.measure], rounds)
            if outcome.how is not None:
                study.lost[name] = outcome.how
                study.note(f"{name} diverged: {outcome.error}")
    study.centralised = task.optimum()
    _report(study, algorithm, list(coders), task, air)


def _networks(graph: "nx.Graph[int]", air: Air, size: int, bits: int, seeds: Seeds) -> tuple[Network, Network]:
    """Return a network without and one with retransmissions; raises BadInput if a round is too short for all turns."""
    access: dict[str, Any] = {"min_be": _MIN_BE, "max_be": _MAX_BE, "max_csma_backoffs": _BACKOFFS}
    link, radio, _ = cc2420(sensing=nx.complete_graph(len(graph)), **access)
    rate, most = link.rate, link.mtu
    assert isinstance(rate, int | float)
    assert most is not None
    # The 32 bytes allow for a message's header and other content beside its elements.
    frames = math.ceil((size * bits / 8 + 32) / most)
    slot = frames * (_ACCESS + (8 * most + link.header_bits) / rate)
    turns = slot * len(graph)
    period = check.finite("period", air.period, above=0.0)
    if 2 * turns > period:
        raise check.refuse("period", period, f"at least {2 * turns:.3g} s, or not all agents can send {bits} bits")
    plain, mended = (
        Network(
            graph,
            dataclasses.replace(link, loss=air.loss, reliability=way),
            medium=radio,
            round_period=period,
            seed=seeds.network,
            faults=in_turn(graph, slot),
        )
        # The acknowledgement timeout is long, so that retransmissions do not delay the other agents' turns.
        for way in ("none", "nack" if air.remedy == "nack" else Reliability("ack", timeout=period / 4))
    )
    return plain, mended


# --- what is shown ----------------------------------------------------------------------------------------------------


def _report(study: Study, algorithm: str, bits: Sequence[int], task: BatchTask, air: Air) -> None:
    table = pd.DataFrame([_row(study, algorithm, each, task.size, air) for each in bits])
    best = study.centralised["train_mse"]
    _answer(study, table.dropna(subset=["arrived_%", "mj"]))
    study.table("by_bits", "Messages, frames, energy of frames by bits an element", table)
    study.note(task.yardsticks(best))
    study.note(*missed_notes(study.runs))
    study.note(
        "The energy is that of frames sent and heard, of an agent in a round. Listening all the time costs "
        f"{1e3 * _IDLE * air.period:.0f} mJ besides, whatever is sent: only an agent that sleeps saves by sending less."
    )
    title = f"{algorithm}, models of {task.size} elements, {len(task.nodes)} agents, frames lost {air.loss:g}"
    study.figure(
        "mtu",
        partial(_draw, table, task.size, air.loss, {"centralised": best, "target's variance": task.variance}, title),
        "What arrives, the error that is reached, and the energy of frames, by bits an element; at each grey line a "
        "message begins to fill another frame.",
        hero=True,
    )


def _answer(study: Study, table: pd.DataFrame) -> None:
    """State delivery and energy for the most bits that need the fewest frames, and for the most bits of all."""
    study.ask("How many bits of each element of a model should a frame carry?")
    if len(table) < 2:
        return
    many = table.iloc[int(table["bits"].argmax())]
    few = table[table["frames"] == table["frames"].min()]
    few = few.iloc[int(few["bits"].argmax())]
    answer(
        study,
        f"With {{bits:g}} bits an element a message takes {{frames:.3g}} frame{'' if few['frames'] == 1 else 's'}, and "
        "{arrived:.0f} % arrive for {mj:.3g} mJ a round; with {more:g} bits it takes {others:.3g}, and {less:.0f} % "
        "arrive for {spent:.3g} mJ.",
        f"Of an agent's messages, none sent again, and the energy of its frames. {of_one_run(study)}",
        **{"bits": few["bits"], "frames": few["frames"], "arrived": few["arrived_%"], "mj": few["mj"]},
        **{"more": many["bits"], "others": many["frames"], "less": many["arrived_%"], "spent": many["mj"]},
    )


def _name(algorithm: str, bits: int, way: str) -> str:
    """Return a run's name in the results; ``way`` is the remedy, or "" for none."""
    return f"{algorithm} {bits}-bit" + (f", {way}" if way else "")


def _row(study: Study, algorithm: str, bits: int, size: int, air: Air) -> dict[str, Any]:
    """Return the table's row for a number of bits; values of a run that diverged are NaN."""
    row: dict[str, Any] = {"bits": bits, "payload_bytes": math.ceil(size * bits / 8)}
    plain, mended = (study.runs.get(_name(algorithm, bits, way)) for way in ("", air.remedy))
    if plain is not None:
        spoken, messages = plain.airtime, plain.ledger.transmissions
        row["frames"] = frames = spoken["frames"].sum() / messages
        header = presets.ieee802154().link.header_bits
        row["message_bytes"] = plain.ledger.wire_bits / messages / 8 - frames * header / 8
        row["airtime_ms"] = 1e3 * spoken["airtime_s"].sum() / messages
        row["expected_%"] = 100 * (1 - air.loss) ** frames
        exits = dict(zip(plain.ledger.causes, plain.ledger.exits, strict=True))
        row["arrived_%"] = 100 * exits["delivered"] / plain.ledger.link_messages
    for label, run in (("", plain), (" mended", mended)):
        row[f"mj{label}"] = math.nan if run is None else _millijoules(run)
        row[f"train_mse{label}"] = math.nan if run is None else float(run.rounds["train_mse"].iloc[-1])
    return row


def _millijoules(run: Run) -> float:
    """Return an agent's energy (mJ) per round for sending and receiving frames."""
    energy = cc2420()[2]
    spent = run.energy[["transmit_s", "receive_s"]].mean()
    joules = energy.transmit * spent["transmit_s"] + energy.receive * spent["receive_s"]
    return float(1e3 * joules / len(run.rounds))


def boundaries(table: pd.DataFrame, size: int) -> list[float]:
    """Return the bits per element at which a message of ``size`` elements fills 1, 2, … frames, up to the last."""
    most = presets.ieee802154().link.mtu
    assert most is not None
    beside = float((table["message_bytes"] - table["payload_bytes"]).max())
    return [8 * (k * most - beside) / size for k in range(1, math.ceil(table["frames"].max()))]


def _draw(table: pd.DataFrame, size: int, loss: float, levels: Mapping[str, float], title: str) -> Figure:
    """Draw delivery, error and energy by bits per element, with a grey line wherever another frame is needed."""
    figure, panels = drawing(13, 4.4, 3, grid="y")
    ends = boundaries(table, size)
    steps = np.repeat(ends, 2)
    shares = 100 * (1 - loss) ** np.repeat(np.arange(1, len(ends) + 2), 2)
    line = np.array([table["bits"].min() / 1.2, *steps, table["bits"].max() * 1.2])
    panels[0].plot(line, shares, color="0.3", linewidth=1, label="(1 − p)^frames")
    panels[0].plot(table["bits"], table["arrived_%"], "o", color="C0", label="measured")
    panels[0].set(ylabel="messages that arrive whole (%)", ylim=(0, 104))
    for column, what in (("train_mse", "training MSE"), ("mj", "energy of frames, agent and round (mJ)")):
        panel = panels[1 if column == "train_mse" else 2]
        panel.plot(table["bits"], table[column], "o--", color="C3", label="as it is")
        panel.plot(table["bits"], table[f"{column} mended"], "s-", color="C2", label="what is lost is sent again")
        panel.set(yscale="log", ylabel=what)
    for style, (name, level) in zip((":", "-"), levels.items(), strict=True):
        panels[1].axhline(level, color="0.4", linestyle=style, linewidth=1, label=name)
    for panel in panels:
        _mark(panel, ends, list(table["bits"]))
        panel.legend(fontsize=8)
    figure.suptitle(f"{title}; grey: where another frame begins", fontsize=11)
    return figure


def _mark(panel: Axes, ends: list[float], bits: list[int]) -> None:
    from matplotlib.ticker import NullLocator

    for end in ends:
        panel.axvline(end, color="0.85", linewidth=0.8, zorder=0)
    panel.set_xscale("log", base=2)
    panel.set_xticks(bits, [str(each) for each in bits])
    panel.xaxis.set_minor_locator(NullLocator())
    panel.set(xlabel="bits an element", xlim=(min(bits) / 1.2, max(bits) * 1.2))
