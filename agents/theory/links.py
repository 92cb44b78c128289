"""The theorems assume links over which every frame arrives in its round."""

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from netsim import Link, Network


def not_ideal(network: "Network") -> str:
    """Return why no theorem applies to a network, as "not for …", or "" if all frames arrive in time.

    Frames that are acknowledged and sent again may arrive a round late, and a limited rate or capacity may delay them:
    these count as not ideal, too.
    """
    if not isinstance(network.medium, str):
        return "not for a radio"
    if len(network.faults):
        return "not for faults"
    if network.inbox_limit is not None:
        return "not for a limited inbox"
    if network.capacity is not None:
        return "not for nodes of limited capacity"
    reasons = (_not_ideal(link, network.round_period) for link in (network.link, *network.links.values()))
    return next((reason for reason in reasons if reason), "")


def _not_ideal(link: "Link", period: float) -> str:
    if link.loss_model.mean > 0.0 or link.corrupt > 0.0 or link.loss_bits:
        return "not for links that lose frames"
    if link.duplicate > 0.0:
        return "not for links that duplicate frames"
    if link.rate is not None or link.budget is not None:
        return "not for links of limited rate or budget"
    latency = link.latency_model
    # Only constant and uniform latencies have a known upper bound.
    longest = getattr(latency, "high", math.inf) if latency.fixed is None else latency.fixed
    return "not for latencies that may reach a round" if longest >= period else ""
