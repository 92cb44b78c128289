"""What the radios of a run spent: as the medium counted it, or by the ledger where transmissions were scheduled."""

from typing import TYPE_CHECKING

import numpy as np

from netsim import Run
from netsim.radio import Energy
from netsim.radio.energy import STATES
from netsim.util import check

if TYPE_CHECKING:
    import pandas as pd

_SECONDS = tuple(f"{state}_s" for state in STATES)


def spent(run: Run, energy: Energy, rate: float) -> "pd.DataFrame":
    """Return what each mote's radio spent, a row a mote.

    On a `netsim.Radio` it is what the medium counted. Elsewhere transmissions are taken to be scheduled: all know who
    sends when, a mote is awake while it sends or while something is sent to it, heard or lost, and sleeps otherwise.

    Parameters
    ----------
    run : Run
        On a radio, so that a broadcast is one transmission.
    energy : Energy
        Of every mote; batteries are taken to last.
    rate : float
        Bits per second on the air.

    Returns
    -------
    DataFrame
        Columns agent, the seconds in each state (``transmit_s`` and so on), the joules in each (``transmit_j`` and so
        on; what is paid by the bit counts with sending and receiving), and ``used_j``, their sum.
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


def _scheduled(run: Run, rate: float) -> "pd.DataFrame":
    """Return seconds in each state; of the frames of one kind from one sender all are taken to be as long."""
    import pandas as pd

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


def by_round(run: Run, spent_by: "pd.DataFrame") -> "pd.Series[float]":
    """Return a run's energy by round, in joules a mote on the average.

    What is spent on frames grows with the bits on the wire, what is spent between them with the time.
    """
    rows = run.rounds
    frames = float((spent_by["transmit_j"] + spent_by["receive_j"]).mean())
    idle = float((spent_by["listen_j"] + spent_by["sleep_j"]).mean())
    wire = rows["wire_bits"] / max(1, rows["wire_bits"].iloc[-1])
    energy: pd.Series[float] = frames * wire + idle * rows["time_s"] / rows["time_s"].iloc[-1]
    return energy
