"""The parts of a run in threads of this process, over UDP on this machine."""

import socket
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from netsim import UDP, Agent, Network, Run, gather

Made = tuple[Network, dict[Any, Agent]]


class Average(Agent):
    """Averages with whom it hears; the order of what it hears matters to the last bit."""

    def __init__(self, value: float, rounds: int = 12) -> None:
        self.value = np.linspace(value, value**2 / 7 + 0.1, 20)
        self.count = rounds

    async def run(self) -> None:
        async for _ in self.rounds(self.count):
            await self.broadcast("state", self.value)
            heard = [frame.payload for frame in await self.collect()]
            self.value = sum(heard, self.value) / (1 + len(heard))


def spread(agents: Mapping[Any, Any]) -> dict[str, float]:
    """Return how far the agents' values are apart."""
    values = np.stack([agent.value for agent in agents.values()])
    return {"spread": float(np.ptp(values[:, 0])), "sum": float(values.sum())}


def addresses(count: int) -> list[str]:
    """Return addresses on this machine whose ports are free."""
    held = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(count)]
    for each in held:
        each.bind(("127.0.0.1", 0))
    found = sorted(f"127.0.0.1:{each.getsockname()[1]}" for each in held)
    for each in held:
        each.close()
    return found


def dealt(agents: Sequence[Any], places: Sequence[str]) -> dict[str, list[Any]]:
    """Return which agents run where: one after the other."""
    return {place: list(agents[i :: len(places)]) for i, place in enumerate(places)}


def in_parts(
    make: Callable[[], Made], folder: Path | None, *, parts: int = 4, probes: Any = (), **settings: Any
) -> dict[str, Run | BaseException]:
    """Run each part in a thread; return by address what came of it, or what it raised."""
    places = addresses(parts)
    network, _ = make()
    shares = dealt(list(network.graph), places)
    outcome: dict[str, Run | BaseException] = {}

    def run(here: str) -> None:
        network, agents = make()
        peers = {place: names for place, names in shares.items() if place != here}
        transport = UDP(here, peers, folder=folder, **settings)
        try:
            outcome[here] = network.run(agents, probes, transport=transport)
        except BaseException as error:
            outcome[here] = error

    threads = [threading.Thread(target=run, args=(place,), daemon=True) for place in places]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert len(outcome) == parts, "a part hangs"
    return outcome


def deployed(make: Callable[[], Made], folder: Path, probes: Any = (), **settings: Any) -> tuple[Run, dict[Any, Any]]:
    """Run in parts, and return the run put together, and its agents."""
    for place, outcome in in_parts(make, folder, probes=probes, **settings).items():
        if isinstance(outcome, BaseException):
            raise AssertionError(place) from outcome
    network, agents = make()
    return gather(network, agents, folder, probes, trace=True), agents
