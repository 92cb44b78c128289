"""Collect a run's results in the process that called the run: add up the workers' rows and counts."""

import pickle
from collections import deque
from collections.abc import Iterator
from typing import Any, Protocol

from netsim.agent import Agent
from netsim.engine.build import Settings
from netsim.engine.diagnosis import failure
from netsim.engine.process import limited_blas
from netsim.errors import BadInput, NetsimError
from netsim.parallel.merged import empty_ledger, merge
from netsim.parallel.states import Placed, learn
from netsim.parallel.worker import Ending
from netsim.radio.settings import Radio
from netsim.run import Run
from netsim.util import check

__all__ = ["SILENCE", "Collector", "Crew", "Message", "must_split"]

Message = tuple[int, str, Any]
"""A message from a worker: the worker's number, the message's name, and its content.

The name is "row", "end", "lost" or "silent".
"""

SILENCE = 5.0
"""A `Crew` that receives no message for this many real seconds checks whether its workers still respond."""

# After an interrupt, the workers have this many real seconds to end.
_END_TIMEOUT = 5.0


class Crew(Protocol):
    """Protocol of the handle by which the process that called a run controls the run's workers."""

    def messages(self, timeout: float | None) -> Iterator[Message]:
        """Yield the workers' messages until all workers have ended or ``timeout`` real seconds have passed.

        With None there is no timeout. For a worker that no longer responds, yield one message "silent" that describes
        the worker: the other workers may wait for it forever.
        """
        ...

    def stop(self) -> None:
        """Ask all workers to end soon and to send their counts; kill workers that cannot react."""
        ...

    def kill(self) -> None:
        """End all workers immediately, without their counts."""
        ...


def must_split(settings: Settings, result: Run, workers: int) -> None:
    """Raise BadInput unless the run can be split over ``workers`` workers."""
    workers = check.integer("workers", workers, low=1)
    because = f"workers = {workers}: must be 1"
    if workers > len(settings.graph):
        raise check.refuse("workers", workers, f"from 1 to {len(settings.graph)}, the number of agents")
    for name in ("clock", "pace"):
        if getattr(settings, name) != getattr(Settings, name):
            raise BadInput(f"{because} with {name}, which runs in real time")
    if isinstance(settings.medium, Radio):
        raise BadInput(f"{because} on a netsim.Radio: what agents share on the air is in one process")
    if settings.capacity is not None and settings.capacity.downlink:
        raise BadInput(f"{because} with a downlink, which frames of several workers share")
    if settings.viewer is not None:
        raise BadInput(f"{because} with --live, which shows the runs of one process")
    if all(link.least_latency for link in (settings.link, *settings.links.values())):
        return
    why = "over links without latency: the order of frames within an instant is known in one process only"
    more = "; give all links a latency (latency=1e-6, say)"
    if settings.link.reliability_model.numbers:
        raise BadInput(f"{because} for reliability = {settings.link.reliability_model.way!r} {why}{more}")
    if settings.inbox_limit is not None:
        raise BadInput(f"{because} for inbox_limit {why}{more}")
    if settings.routes is not None:
        raise BadInput(f"{because} with routing {why}{more}")
    for name, agent in result.agents.items():
        if type(agent).answer is not Agent.answer:
            raise BadInput(f"{because} for agent {name!r}, which answers requests, {why}{more}")


class Collector:
    """Collects the results of a run from its workers.

    Parameters
    ----------
    settings : Settings
        The run's settings.
    result : Run
        The run to fill with results; it holds the caller's agents.
    crew : Crew
        The workers, already started.
    count : int
        The number of workers.
    """

    def __init__(self, settings: Settings, result: Run, crew: Crew, count: int) -> None:
        self._settings, self._result, self._crew, self._count = settings, result, crew, count
        self._agents = list(result.agents.values())
        self._rows: list[deque[Any]] = [deque() for _ in range(count)]
        self._endings: dict[int, Ending] = {}
        # For each worker that ended without sending an `Ending`, a text that describes how it ended.
        self._dead: dict[int, str] = {}
        self._error: NetsimError | None = None
        self._is_stopping = False
        result.ledger = empty_ledger(settings, list(result.agents))
        result.sampled = settings.sample is not None

    def collect(self) -> Run:
        """Wait until all workers have ended, and return the run; errors carry the run in their attribute ``run``."""
        Placed.all(self._settings.graph, self._result.agents)
        try:
            with limited_blas(self._settings.blas_threads):
                self._receive(None)
            self._finish()
        except BaseException as error:
            # Attach a partial result to the error, for example after a Ctrl-C: the counts that the workers have so far.
            error.run = self._result  # type: ignore[attr-defined]
            self._stop()
            self._receive(_END_TIMEOUT)
            self._finish()
            raise
        finally:
            self._crew.kill()
        if self._error is not None:
            raise self._error
        return self._result

    def _stop(self) -> None:
        self._is_stopping = True
        self._crew.stop()

    def _receive(self, timeout: float | None) -> None:
        for worker, what, content in self._crew.messages(timeout):
            if what == "row":
                self._rows[worker].append(content)
                self._add_rows()
            elif what == "end":
                self._endings[worker] = content
            elif what == "silent":
                check.doubt(f"worker {worker + 1} of {self._count} {content}")
            else:
                self._dead[worker] = content

    def _add_rows(self) -> None:
        while all(self._rows):
            parts = [rows.popleft() for rows in self._rows]
            if self._error is not None:
                continue
            number, at, _, measured = parts[0]
            summed = tuple(map(sum, zip(*(part[2] for part in parts), strict=True)))
            values: list[Any] = []
            if measured is not None:
                for states, _ in (part[3] for part in parts):
                    if states is not None:
                        learn(self._agents, states)
                values = list(zip(*(local for _, local in (part[3] for part in parts)), strict=True))
            try:
                self._result.add_row(number, at, summed, parts=values)
            except Exception as error:
                self._error = failure("progress", error)
                self._stop()

    def _finish(self) -> None:
        """Combine the workers' results, and determine the error that ended the run, if any."""
        endings = [ending for _, ending in sorted(self._endings.items())]
        for ending in endings:
            if ending.states is not None:
                learn(self._agents, ending.states)
        self._result.costs = [ending.costs for ending in endings]
        seeds = {ending.hash_seed for ending in endings}
        if seeds:
            # The workers of a cluster may have different hash seeds. Then there is no single seed to record.
            self._result.hash_seed = seeds.pop() if len(seeds) == 1 else None
        merge(self._settings, self._result, [ending.counts for ending in endings if ending.counts is not None])
        if self._dead and self._error is None:
            worker, how = min(self._dead.items())
            self._error = NetsimError(f"worker {worker + 1} of {self._count} {how}")
        stopped = [worker for worker, ending in self._endings.items() if ending.has_stopped]
        if stopped and not self._is_stopping and self._error is None:
            # This process did not stop the worker, so another process sent the SIGTERM, and the run is incomplete.
            self._error = NetsimError(f"worker {min(stopped) + 1} of {self._count} was ended by SIGTERM")
        failed = [
            (ending.is_lost, ending.at, worker, ending.error)
            for worker, ending in self._endings.items()
            if ending.error is not None
        ]
        if failed and self._error is None:
            self._error = _error_of(min(failed)[3])
        if self._result.watch is not None and not self._is_stopping and self._error is None:
            try:
                self._result.watch.check_found(self._result.ended_at, whole=True)
            except BadInput as error:
                self._error = error
        if self._error is not None:
            self._error.run = self._result


def _error_of(raw: bytes) -> Any:
    """Unpickle a worker's error, with its cause and notes."""
    error, cause, notes = pickle.loads(raw)
    error.__cause__ = cause
    if cause is not None:
        cause.__notes__ = notes
    return error
