"""Two generals: the effect of acknowledging acknowledgements, and of more messengers."""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import Any, ClassVar

import numpy as np
import pandas as pd

import netsim
from netsim import Link, Network, topology
from netsim.draw import Role, Star
from netsim.studies import Study
from netsim.studies.figures import Figure, drawing, legend_below
from netsim.studies.intervals import proportion
from netsim.util import check

LATENCY = 0.01
"""Travel time of a messenger in seconds."""


class General(netsim.Agent):
    """Answers each message with the next one, up to the last, and attacks if it received all messages due to it."""

    draw: ClassVar = {"attacks": Role(usual="False"), "first": Star()}

    def __init__(self, first: bool, messages: int, messengers: int, wars: int) -> None:
        self.first, self.messages, self.messengers, self.wars = first, messages, messengers, wars
        self.attacks = False

    async def run(self) -> None:
        """Exchange the messages of one war per round, and decide whether to attack."""
        async for _ in self.rounds(self.wars):
            self.attacks = False
            awaited = 2 if self.first else 1
            if self.first:
                await self.say(1)
            with suppress(TimeoutError):
                async with asyncio.timeout(LATENCY * (self.messages + 1)):
                    while awaited <= self.messages:
                        if (await self.inbox.get()).payload == awaited:
                            awaited += 2
                            await self.say(awaited - 1)
            self.attacks = awaited > self.messages
            await self.collect()

    async def say(self, number: int) -> None:
        """Send message ``number`` by every messenger; nothing after the last message."""
        for _ in range(self.messengers if number <= self.messages else 0):
            await self.send(self.neighbors[0], "attack", number)


def generals(
    study: Study, *, messages: int = 6, messengers: int = 1, loss: float = 0.2, wars: int = 400, seed: int = 1
) -> None:
    """Two generals who attack together or not at all: how often one attacks alone, by the number of messages.

    The first general proposes an attack, the second acknowledges, the first acknowledges the acknowledgement, and so
    on.

    Parameters
    ----------
    messages : int
        Maximum number of messages in a war, up to 50. The study runs every number from 1 to this one.
    messengers : int
        Number of copies of each message.
    loss : float
        Probability that a copy is lost.
    wars : int
        Number of wars; each takes one round.
    seed : int
        Seed of everything random.
    """
    messages = check.integer("messages", messages, low=1, high=50)
    wars = check.integer("wars", wars, low=1)
    lost = check.probability("loss", loss) ** check.integer("messengers", messengers, low=1)
    rows = []
    for last in range(1, messages + 1):
        outcomes = [0, 0, 0]

        def shares(team: Mapping[Any, General], outcomes: list[int] = outcomes) -> dict[str, float]:
            outcomes[sum(agent.attacks for agent in team.values())] += 1
            neither, alone, both = (count / sum(outcomes) for count in outcomes)
            return {"both": both, "alone": alone, "neither": neither}

        team = {node: General(node == 0, last, messengers, wars) for node in range(2)}
        network = Network(topology.path(2), Link(loss=loss, latency=LATENCY), seed=seed)
        run = study.run(f"{last}-message", network, team, [shares], rounds=wars)
        expected = ((1 - lost) ** last, lost * (1 - lost) ** (last - 1))
        rows.append((last, *run.rounds.iloc[-1][["both", "alone"]], *expected, run.ledger.transmissions / wars))
    columns = ["messages", "both", "alone", "both expected", "alone expected", "sent a war"]
    table = pd.DataFrame(rows, columns=columns)
    one, most = (table.iloc[place] for place in (0, -1))
    study.ask("How often does one of two generals attack alone, however many messages they exchange?")
    study.answer(
        "With one message one attacks alone in {first:.1%} of the wars, with up to {messages} in {alone:.1%}; both "
        "attack in {both:.1%} and in {least:.1%}.",
        f"Of {wars:,} wars each with seed {seed}; the 95 % intervals of the shares alone (Clopper and Pearson) are "
        f"{{first_ends:.1%}} and {{ends:.1%}}. A message is lost with probability {lost:.3g}.",
        **{"messages": messages, "first": one["alone"], "alone": most["alone"]},
        **{"both": one["both"], "least": most["both"]},
        first_ends=proportion(round(one["alone"] * wars), wars),
        ends=proportion(round(most["alone"] * wars), wars),
    )
    study.table("by_messages", f"Shares of {wars} wars", table)
    study.figure(
        "shares",
        partial(
            _draw, table, wars, f"Two generals, a message lost with probability {lost:.3g}\nbars: two standard errors"
        ),
        "In which share of the wars both generals attack, and in which one alone, beside what theory expects.",
        hero=True,
    )


def _draw(table: pd.DataFrame, wars: int, title: str) -> Figure:
    """Draw the shares of wars by number of messages, with two standard errors, beside the expected shares."""
    figure, panel = drawing(6.5, 4.4, title=title)
    count = table["messages"]
    for colour, mark, outcome, label in (("C0", "o", "both", "both attack"), ("C3", "s", "alone", "one attacks alone")):
        share, expected = table[outcome], table[f"{outcome} expected"]
        error = 2 * np.sqrt(expected * (1 - expected) / wars)
        panel.plot(count, expected, "--", color=colour, linewidth=1.2, label=f"{label}, expected")
        panel.errorbar(count, share, error, fmt=mark, color=colour, capsize=3, label=f"{label}, measured")
    panel.set_xlabel("messages in a war at most")
    panel.set_ylabel(f"share of {wars} wars")
    panel.set_xticks(count if len(count) <= 12 else count[::5])
    panel.set_ylim(bottom=0)
    legend_below(figure)
    return figure
