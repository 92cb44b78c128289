"""From what a run recorded since the last look to the frames that ended meanwhile, and those still under way.

What is kept from look to look is what was sent and has not ended: so a look costs what happened since, however long
the run has lasted.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netsim.accounting.ledger import Ledger
from netsim.accounting.scene import Scene
from netsim.accounting.trace import STREAMS
from netsim.core.records import IN_FLIGHT
from netsim.replay.frames import Columns, Frames, frames_of
from netsim.replay.html import COLUMNS

__all__ = ["Excerpt", "Pending", "excerpt"]

Ints = NDArray[np.int64]
Records = Mapping[str, NDArray[np.void]]

_ALL = 2**62

# What is kept from look to look.
_KEPT = ("sent", "details", "left")


@dataclass(frozen=True)
class Excerpt:
    """Some of a run's records, as `netsim.replay.frames.Log` wants them."""

    agents: Sequence[Any]
    kinds: list[str]
    scene: Scene | None
    links: tuple[Ints, Ints]
    records: Records

    def count(self, stream: str) -> int:
        """Return how many records there are of a kind."""
        return len(self.records[stream])

    def chunks(self, stream: str) -> Iterator[NDArray[np.void]]:
        """Yield the records of a kind."""
        yield self.records[stream]


def excerpt(ledger: Ledger, scene: Scene, records: Records | None = None) -> Excerpt:
    """Return some records of a run, or none, with the names that belong to them."""
    found = {name: np.empty(0, dtype) for name, dtype in STREAMS.items()} if records is None else records
    links = ledger.senders, ledger.receivers
    return Excerpt(ledger.agents, list(ledger.tally.kinds), scene, links, found)


class Pending:
    """What was sent and has not ended.

    Parameters
    ----------
    ledger : Ledger
        The run's.
    forget : bool
        Whether nobody else needs what is looked at: it is then kept no longer.
    """

    def __init__(self, ledger: Ledger, forget: bool) -> None:
        self._ledger, self._forget = ledger, forget
        self._mask = (1 << ledger.tally.shift) - 1
        self._kept: dict[str, NDArray[np.void]] = {name: np.empty(0, STREAMS[name]) for name in _KEPT}

    def look(self, scene: Scene, over: bool) -> tuple[Columns, Columns]:
        """Return the frames that have ended since the last look, and all that are under way.

        Parameters
        ----------
        scene : Scene
            Its ``ended_at`` is the present (s).
        over : bool
            Whether the run is over: then all have ended, as `netsim.replay.frames.frames_of` has it.

        Returns
        -------
        ended, under_way : dict of arrays
            Of the columns and types of `netsim.replay.html.COLUMNS`. Of those under way ``end`` is infinite, and so is
            ``depart`` where it is not known yet.
        """
        ledger = self._ledger
        news = ledger.tally.news(self._forget)
        records = news | {name: np.concatenate([kept, news[name]]) for name, kept in self._kept.items()}
        records["in_flight"] = np.array(list(ledger.in_flight()), dtype=IN_FLIGHT)
        found, numbers = self._frames(scene, records)
        columns = found.columns | {"number": numbers}
        columns = {name: columns[name].astype(dtype) for name, dtype in COLUMNS.items()}
        self._keep(records)
        ended = columns["cause"] != len(found.causes) - 1
        if over:
            ended[:] = True
        under_way = {name: column[~ended] for name, column in columns.items()}
        under_way["end"][:] = np.inf
        if scene.medium == "shared":
            # Who has not left waits, nobody knows how long.
            under_way["depart"][under_way["depart"] >= scene.ended_at] = np.inf
        return {name: column[ended] for name, column in columns.items()}, under_way

    def _frames(self, scene: Scene, records: Records) -> tuple[Frames, Ints]:
        """Return the frames of some records, and the numbers of their transmissions."""
        # Each agent's transmissions are numbered anew, from 0: of the early ones hardly any are among these.
        by_key = {name: self._message(records[name]["key"]) for name in ("exits", "left", "in_flight")}
        sent = self._said(records["sent"]["sender"], records["sent"]["number"])
        original = self._said(self._senders(records["left"]["key"]), records["left"]["number"])
        messages = np.unique(np.concatenate([sent, original, *by_key.values()]))
        shift = self._ledger.tally.shift
        firsts = np.searchsorted(messages, np.arange(len(self._ledger.agents), dtype=np.int64) << shift)

        def anew(said: Ints) -> Ints:
            found: Ints = np.searchsorted(messages, said) - firsts[said >> shift]
            return found

        renamed = {name: each.copy() for name, each in records.items()}
        renamed["sent"]["number"], renamed["left"]["number"] = anew(sent), anew(original)
        for name, said in by_key.items():
            renamed[name]["key"] = (records[name]["key"] & ~self._mask) | anew(said)
        found = frames_of(excerpt(self._ledger, scene, renamed), most=_ALL)
        place = firsts[found.columns["sender"]] + found.columns["number"]
        return found, messages[place] & self._mask if len(messages) else found.columns["number"]

    def _keep(self, records: Records) -> None:
        """Keep what belongs to those under way."""
        keys = records["in_flight"]["key"]
        left = records["left"][np.isin(records["left"]["key"], keys)]
        # A second copy has a number of its own, and stands for another message.
        original = self._said(self._senders(left["key"]), left["number"])
        sent = self._said(records["sent"]["sender"], records["sent"]["number"])
        open_ = np.isin(sent, np.concatenate([self._message(keys), original]))
        self._kept = {"sent": records["sent"][open_], "details": records["details"][open_], "left": left}

    def _senders(self, keys: Ints) -> Ints:
        senders: Ints = self._ledger.senders[keys >> self._ledger.tally.shift]
        return senders

    def _said(self, senders: Ints, numbers: Ints) -> Ints:
        """Return one number for an agent's transmission of a number."""
        said: Ints = (senders.astype(np.int64) << self._ledger.tally.shift) | numbers
        return said

    def _message(self, keys: Ints) -> Ints:
        return self._said(self._senders(keys), keys & self._mask)
