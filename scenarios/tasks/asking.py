"""A message said again until it is answered: what several small studies do about lost frames."""

from collections.abc import Hashable
from typing import Any

import netsim

__all__ = ["ask"]


async def ask(agent: netsim.Agent, to: Hashable, kind: str, payload: Any, *, timeout: float, attempts: int) -> bool:
    """Send a request again and again until there is a reply; return whether one came.

    Parameters
    ----------
    agent : Agent
        Who asks.
    to : node
        A neighbour, who replies to every request, also to one that it has had before.
    kind, payload
        As `netsim.Agent.request` has them.
    timeout : float
        Seconds that a reply is waited for.
    attempts : int
        How often it is sent at most.
    """
    for _ in range(attempts):
        try:
            await agent.request(to, kind, payload, timeout=timeout)
        except TimeoutError:
            continue
        return True
    return False
