"""What a process writes of its part of a run: who it is, what happened, agents' states, rows, and how it ended."""

from collections.abc import Hashable, Iterable, Mapping
from pathlib import Path
from typing import Any

from netsim._version import __version__
from netsim.agent import Agent
from netsim.core import Tally
from netsim.distributed.journal import ARRAY, BEGIN, CHANGES, END, KINDS, ROW, STATE, Journal
from netsim.distributed.membership import Session
from netsim.distributed.states import StateWriter
from netsim.watch import Watch

__all__ = ["Scribe"]


class Scribe:
    """Writes a journal.

    Parameters
    ----------
    path : Path
        A new file.
    agents : mapping
        {name: agent}, all of the network's.
    places : mapping
        {name: number of the process}.
    session : Session
        This process among the others.

    Raises
    ------
    BadInput
        If an agent that is here holds what cannot be told.
    NetsimError
        If the file cannot be written; so do the methods.
    """

    def __init__(
        self, path: Path, agents: Mapping[Any, Agent], places: Mapping[Hashable, int], session: Session
    ) -> None:
        self.path = path
        self._agents = agents
        self._here = {name: number for number, name in enumerate(agents) if places[name] == session.me}
        self._told_kinds = self._told_changes = 0
        self._session = session
        self._journal = journal = Journal(path)
        self._writer = StateWriter(agents, lambda digest, data: journal.put(ARRAY, [digest, data]))
        journal.put(
            BEGIN,
            {
                "host": session.hosts[session.me],
                "hosts": session.hosts,
                "incarnation": session.incarnation,
                "run": session.run,
                "mark": session.mark,
                "places": [places[name] for name in agents],
                "netsim": __version__,
            },
        )
        # The first time takes longest, and nobody waits yet.
        self.write_states()

    def joined(self, time: float, sampled: bool) -> None:
        """Write from which simulated time (s) on it takes part, with whom, and whether it samples at an interval."""
        session = self._session
        about = {"joined": max(time, 0.0), "sampled": sampled, "epoch": session.epoch, "met": session.met()}
        self._journal.put(BEGIN, about)

    def write_states(self) -> None:
        """Write the states of the agents that are here, and in which round they are."""
        for name, number in self._here.items():
            place = vars(self._agents[name]).get("_netsim")
            in_round = 0 if place is None else place.round
            self._journal.put(STATE, [number, self._writer.state(name), in_round])

    def write_events(self, tally: Tally, keep: bool) -> None:
        """Write what has happened since the last time; the tally keeps it only if ``keep``."""
        if len(tally.kinds) > self._told_kinds:
            self._journal.put(KINDS, list(tally.kinds)[self._told_kinds :])
            self._told_kinds = len(tally.kinds)
        self._journal.put_records(tally.news(forget=not keep))

    def write_changes(self, watch: Watch) -> None:
        """Write what of the agents' states has changed since the last time."""
        if len(watch) > self._told_changes:
            self._journal.put(CHANGES, [part.tobytes() for part in watch.changes(self._told_changes)])
            self._told_changes = len(watch)

    def write_row(self, number: int, time: float, took_part: bool) -> None:
        """Write that what is written so far is a row: its number, its time (s), whether an agent here took part."""
        self._journal.put(ROW, [number, time, took_part])

    def end(self, end: float, in_flight: Iterable[tuple[int, int]], **more: Any) -> None:
        """Write when (s) the run ended, what was under way, and more."""
        self._journal.put(END, {"end": end, "in_flight": [list(each) for each in in_flight], **more})

    def close(self) -> None:
        """Write no more."""
        self._journal.close()

    def discard(self) -> None:
        """Leave no file: there is nothing to tell."""
        self.close()
        self.path.unlink(missing_ok=True)
