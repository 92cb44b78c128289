"""Run the agents of one worker, and send rows, states and counts to the caller of the run."""

import pickle
import traceback
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any

from netsim.agent import Agent
from netsim.clock.clock import Loop
from netsim.engine.build import Settings
from netsim.engine.launch import simulate
from netsim.engine.runtime import Action, Runtime
from netsim.errors import NetsimError, one_line
from netsim.parallel.merged import counts_of
from netsim.parallel.mesh import Lost, Mesh
from netsim.parallel.part import Part
from netsim.parallel.states import StateSender
from netsim.run import Probe, Run
from netsim.util.hashing import hash_seed
from netsim.watch import Watch

__all__ = ["Assignment", "Ending", "work"]

Send = Callable[[str, Any], None]


@dataclass(frozen=True)
class Assignment:
    """The data with which every worker of a run starts.

    Attributes
    ----------
    settings : Settings
        The run's settings.
    agents : mapping
        The agents of the network, or only the agents that the worker runs.
    place : mapping
        The worker of each agent.
    probes : sequence of callables or None
        The probes. An item is None if the probe's value cannot be combined from values computed by the workers.
    watch : Watch or None
        The object that records watched states; None if none are watched.
    scheduled : sequence of (float, callable)
        Times (s), and the functions that every worker calls at these times.
    active : callable
        Called with a runtime; returns a context manager within which `Network.at` and `Network.set_link` act on this
        runtime.
    """

    settings: Settings
    agents: Mapping[Hashable, Agent]
    place: Mapping[Hashable, int]
    probes: Sequence[Probe | None]
    watch: Watch | None
    scheduled: Sequence[Action]
    active: Callable[[Runtime], AbstractContextManager[None]]


@dataclass(frozen=True)
class Ending:
    """The results that a worker sends when it ends.

    Attributes
    ----------
    at : float
        Time of the end, in simulated seconds.
    error : bytes or None
        The pickled error, with its cause, that ended the worker's part of the run.
    is_lost : bool
        Whether the error only reports the loss of another worker.
    has_stopped : bool
        Whether the worker was asked to end early, and did.
    counts : dict or None
        The result of `counts_of`; None if the run did not begin.
    states : bytes or None
        The changes of the worker's agents since its last message, from `StateSender.changes`.
    costs : dict
        The worker's entry in ``costs`` of `netsim.Run`.
    hash_seed : int or None
        The hash seed of the worker's process.
    """

    at: float
    error: bytes | None
    is_lost: bool
    has_stopped: bool
    counts: Any
    states: bytes | None
    costs: dict[str, float]
    hash_seed: int | None


def work(assignment: Assignment, mesh: Mesh, send: Send, started: Callable[[Part], None]) -> None:
    """Run one worker's agents; send a message for each row and, at the end, an `Ending`.

    ``started`` is called with the worker's `Part` before the run begins. Setting ``stop`` of the `Part` ends it early.
    """
    place, agents = assignment.place, assignment.agents
    numbers = {name: number for number, name in enumerate(place)}
    own = [name for name, worker in place.items() if worker == mesh.rank]
    states = StateSender(agents, numbers, own)
    mine = {name: agents[name] for name in own}

    def measure(number: int) -> Any:
        parts = [None if probe is None else _local(probe, mine, result, number) for probe in assignment.probes]
        return states.changes() if None in assignment.probes else None, parts

    settings, result = replace(assignment.settings, viewer=None), Run(dict(agents), [], None, assignment.watch)
    part = Part(mesh, place, settings, send, measure if assignment.probes else None)
    runtime = part.runtime = Runtime(settings, result, assignment.scheduled, part)
    started(part)
    error: BaseException | None = None
    try:
        with assignment.active(runtime):
            simulate(runtime, Loop(part.selector))
    except BaseException as raised:
        # Every error, even an interrupt, is sent to the caller's process, which raises it.
        error = raised
    counts = changes = None
    if runtime.closed:
        counts, changes = counts_of(runtime, part.kinds), states.changes()
    raw = None if error is None else _pickled(error)
    at = runtime.loop.now() if runtime.built else 0.0
    send("end", Ending(at, raw, isinstance(error, Lost), part.has_stopped, counts, changes, part.costs, hash_seed()))


def _local(probe: Any, agents: Mapping[Hashable, Agent], result: Run, number: int) -> Any:
    """Return the contribution of this worker's agents to a probe's value after a round."""
    try:
        return probe.local(agents)
    except Exception as error:
        raise result.probe_error(probe, number, error) from error


def _pickled(error: BaseException) -> bytes:
    """Pickle an error and its cause; replace whichever of them cannot be pickled by a NetsimError with its text."""
    cause = error.__cause__
    if cause is not None:
        cause.add_note("".join(traceback.format_exception(cause)).rstrip())
    for raised, why in ((error, cause), (error, _as_text(cause)), (_as_text(error), _as_text(cause))):
        try:
            raw = pickle.dumps((raised, why, getattr(why, "__notes__", [])))
            pickle.loads(raw)
        except Exception:
            continue
        return raw
    raise AssertionError("text can be pickled")


def _as_text(error: BaseException | None) -> BaseException | None:
    return None if error is None else NetsimError(f"{type(error).__name__}: {one_line(error)}")
