"""Records of a shared medium: each node's airtime and waiting times and, if a trace is kept, every transmission."""

import math
from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from netsim.core.records import ON_AIR, as_column
from netsim.radio.energy import STATES

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

__all__ = ["AirtimeLog", "Counts", "OnAir"]


@dataclass(slots=True)
class Counts:
    """One node's counts at the MAC layer. Times are in seconds.

    Attributes
    ----------
    frames : int
        The number of fragments sent, including retransmissions; a frame that fits the MTU is one fragment.
    retries : int
        How many of these fragments were retransmissions.
    acks : int
        The number of acknowledgements sent.
    duplicates : int
        The number of fragments that the node received twice, because an acknowledgement was lost, and dropped.
    no_ack : int
        How often no acknowledgement arrived in time.
    busy : int
        How often a clear channel assessment found the channel busy.
    access_failures : int
        How often the node gave up a frame because it never got access to the channel.
    airtime_s : float
        Time spent sending agents' frames.
    ack_airtime_s : float
        Time spent sending acknowledgements.
    queueing_s : float
        Time that frames waited for earlier frames, for budget, or for their node to wake.
    access_s : float
        Time that frames waited for access to the channel: back-off, assessment and turnaround.
    silences : int
        The number of transmissions and retransmissions that had to wait for ``Radio.transmit_share``.
    silence_s : float
        Total duration of these waits, which ``queueing_s`` includes.
    """

    frames: int = 0
    retries: int = 0
    acks: int = 0
    duplicates: int = 0
    no_ack: int = 0
    busy: int = 0
    access_failures: int = 0
    airtime_s: float = 0.0
    ack_airtime_s: float = 0.0
    queueing_s: float = 0.0
    access_s: float = 0.0
    silences: int = 0
    silence_s: float = 0.0


OnAir = tuple[float, float, int, int, int, int, int, int, int, int, float, bytes, bool]
"""One transmission of a fragment or acknowledgement. The elements of the tuple are, in this order:

- the transmission's start and end (s)
- five numbers that identify the sender, the link (−1: a broadcast), the kind of message, the message and the fragment
- how often the fragment was sent before
- the number of bits
- the channel
- the received power (mW) at the receiver (0: unknown, or a broadcast)
- the message's bytes that the fragment carries
- whether the transmission was completed
"""


@dataclass
class AirtimeLog:
    """A radio medium's records of a run, in addition to the ledger.

    Attributes
    ----------
    agents : sequence
        The names of the nodes.
    counts : list of Counts
        The counts of each node.
    log : list of OnAir, or None
        Every transmission of a fragment or acknowledgement, if a trace is kept.
    spent : list
        For each node, the columns of `energy` at the end of the run: the seconds in each state, the joules used and
        left, the time (s) at which the battery ran out, and so on. None for a node without an energy model.
    events : int
        The number of events that the medium processed.
    scenery : collection
        Background nodes, which the tables `airtime` and `energy` omit.
    """

    agents: Sequence[Hashable]
    counts: list[Counts]
    log: list[OnAir] | None = None
    spent: list[tuple[tuple[float, ...], float, float, float, dict[str, float]] | None] = field(default_factory=list)
    events: int = 0
    scenery: Collection[Hashable] = ()

    def airtime(self) -> "pd.DataFrame":
        """Return a table with a row for each node; the columns are agent and the attributes of `Counts`."""
        import pandas as pd

        table = pd.DataFrame(self.counts)
        table.insert(0, "agent", as_column(self.agents).tolist())
        return table[[name not in self.scenery for name in self.agents]].reset_index(drop=True)

    def energy(self) -> "pd.DataFrame":
        """Return a table with a row for each node whose energy was metered.

        The first columns are agent, the seconds in each state (transmit_s, receive_s, listen_s, sleep_s), used_j,
        left_j (infinite on mains) and died_at_s (infinite if the battery lasted). Then follow the seconds in each state
        of other parts of the node, such as mcu_active_s, and the joules: of each state of the radio (transmit_j), of
        bits (bits_j), of each state of other parts (mcu_active_j) and of single expenses (adc_j). Columns of parts that
        a node lacks are 0. The joules add up to used_j.
        """
        import pandas as pd

        columns = ["agent", *(f"{state}_s" for state in STATES), "used_j", "left_j", "died_at_s"]
        rows = [
            dict(zip(columns, (name, *spent[0], *spent[1:4]), strict=True)) | spent[4]
            for name, spent in zip(as_column(self.agents), self.spent, strict=True)
            if spent is not None and name not in self.scenery
        ]
        more = list(dict.fromkeys(column for spent in self.spent if spent is not None for column in spent[4]))
        more.sort(key=lambda column: column.endswith("_j"))
        return pd.DataFrame(rows, columns=[*columns, *more]).fillna(dict.fromkeys(more, 0.0))

    def table(self, kinds: Sequence[str], receivers: Sequence[int]) -> "pd.DataFrame":
        """Return a table with a row for each fragment and acknowledgement on the air, in order of their starts.

        Columns: start_s, end_s, sender, receiver (empty for a broadcast), kind, message (the sender's number of the
        message, from 0), fragment, retry, bits.
        """
        import pandas as pd

        names = as_column([*self.agents, None])
        columns = ["start_s", "end_s", "sender", "receiver", "kind", "message", "fragment", "retry", "bits"]
        rows: list[list[Any]] = [
            [start, end, names[sender], names[receivers[link] if link >= 0 else -1], kinds[kind], *more]
            for start, end, sender, link, kind, *more in (row[:9] for row in sorted(self.log or ()))
        ]
        return pd.DataFrame(rows, columns=columns)

    def records(self) -> "dict[str, NDArray[Any]]":
        """Return the log in the form of a trace: `ON_AIR` records in order of their starts, and their joined bytes.

        The result is empty if no trace is kept.
        """
        if self.log is None:
            return {}
        rows = sorted(self.log)
        fixed = [(*row[:10], 10 * math.log10(row[10]) if row[10] else math.nan, len(row[11]), row[12]) for row in rows]
        contents = np.frombuffer(b"".join(row[11] for row in rows), dtype=np.uint8)
        return {"on_air": np.array(fixed, dtype=ON_AIR), "contents": contents}
