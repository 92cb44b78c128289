"""One run of a network: build the links, run the agents until they end, write the results and report errors."""

import asyncio
import inspect
import math
from collections import Counter
from collections.abc import Callable, Coroutine, Hashable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from contextvars import copy_context
from functools import partial
from typing import TYPE_CHECKING, Any

from netsim.accounting.captions import LONGEST_NOTE
from netsim.accounting.ledger import Ledger
from netsim.accounting.run_metadata import RunMetadata, positions_of
from netsim.agent import Agent
from netsim.clock.clock import Loop
from netsim.clock.rounds import RoundClock
from netsim.clock.task import OWNER
from netsim.context import Context
from netsim.core import Frame
from netsim.core.framing import for_receiver
from netsim.engine.build import Settings, build
from netsim.engine.diagnosis import agent_error, endless, failure, standstill, uncancellable_error
from netsim.engine.link_changes import LinkChanges
from netsim.engine.observers import Inspection, Sampler, View, Watcher
from netsim.engine.places import Place, Places, flat
from netsim.engine.process import limited_blas, unhurried_collector
from netsim.engine.round_scheduler import scheduled
from netsim.engine.tasks import UNAWAITED, AgentTasks, Patience, detach, owner_of, ready_handles, stop
from netsim.errors import AgentError, BadInput, NetsimError, Stalled
from netsim.faults.injector import FaultInjector
from netsim.radio.medium import Medium
from netsim.radio.settings import Radio
from netsim.run import Run
from netsim.topology import links_of
from netsim.transport.inbox import Inbox
from netsim.transport.outbox import Outbox
from netsim.transport.shared import Shared
from netsim.util.draws import Keys

if TYPE_CHECKING:
    from netsim.clock.order import Order
    from netsim.distributed.node import Node
    from netsim.parallel.part import Part

__all__ = ["Action", "Runtime"]

Action = tuple[float, Callable[[], None]]
"""A simulated time (s) and the function to call at that time."""

# For each agent, the limit of event-loop iterations without an advance of time is raised by this number.
_PASSES_PER_AGENT = 100
# A deadlock check scans every inbox, so it counts as this many event-loop iterations.
_PASSES_PER_STANDSTILL = 100
# Number of event-loop iterations that are sampled to identify the agent that keeps time from advancing.
_LIVELOCK_SAMPLES = 8


class Runtime:
    """One run of a network: builds the links on a loop, runs the agents to completion and writes rows of results.

    Parameters
    ----------
    settings : Settings
        The settings of the network and of the run.
    result : Run
        The object that holds the agents and receives the results.
    scheduled : sequence of (float, callable)
        (time in s, function to call at that time).
    node : Node or Part, optional
        None if this process runs all agents. Otherwise the `Node` of this process in a distributed run, or the `Part`
        of this worker.

    Attributes
    ----------
    shared, own : Shared, dict
        ``shared`` is the state shared by all agents without a skewed clock; ``own`` maps each agent with a skewed clock
        to its state.
    horizon : float
        The time (s) from which arrivals are no longer counted.
    """

    # Set by `netsim.engine.build.build` when the run starts.
    loop: Loop
    ledger: Ledger
    rounds: RoundClock
    shared: Shared
    own: dict[Hashable, Shared]
    inboxes: dict[Hashable, Inbox]
    outboxes: dict[Hashable, Outbox]
    contexts: dict[Hashable, Context]
    name_keys: Keys
    medium: Medium | None
    # This attribute and the following ones are set by `_build` when the run starts.
    ended: asyncio.Future[None]
    tasks: AgentTasks
    local: dict[Hashable, Agent]
    changes: LinkChanges
    injector: FaultInjector
    sampler: Sampler | None
    watcher: Watcher | None
    view: View | None
    inspection: Inspection | None

    def __init__(
        self,
        settings: Settings,
        result: Run,
        scheduled: Sequence[Action] = (),
        node: "Node | Part | None" = None,
    ) -> None:
        self.settings, self.result, self.node = settings, result, node
        self.agents = result.agents
        self.scheduled = list(scheduled)
        self.places: Places | None = None
        self._link_numbers: dict[tuple[Hashable, Hashable], int] | None = None
        self.built = self.started = self.closed = self.interrupted = False
        self.horizon = math.inf
        self.error: NetsimError | None = None
        self.timers: list[asyncio.TimerHandle] = []
        self.ready_counts: Counter[tuple[Hashable, asyncio.Task[Any] | None]] = Counter()
        self.iterations_sampled = 0

    @property
    def all_shared(self) -> list[Shared]:
        """The shared states of all agents, one for each clock."""
        return [self.shared, *self.own.values()]

    def is_local(self, agent: Hashable) -> bool:
        """Return whether an agent runs in this process."""
        return self.node is None or self.node.is_local(agent)

    async def run(self, loop: Loop) -> Run:
        """Run all agents on a loop; an error that ends the run gets the partial result as its attribute ``run``."""
        try:
            async with nullcontext() if self.node is None else self.node.taking_part(loop):
                with unhurried_collector(len(self.agents)) as keep_all:
                    self._build(loop)
                    keep_all()
                    if self.interrupted:
                        raise asyncio.CancelledError
                    return await self._run()
        except BaseException as error:
            self.attach_result_to(error)
            raise

    def attach_result_to(self, error: BaseException) -> None:
        """If the counts are complete (``closed``), attach the partial result to the error that ended the run."""
        if self.closed:
            error.run = self.result  # type: ignore[attr-defined]

    def _build(self, loop: Loop) -> None:
        if self.node is not None and any(type(agent).background for agent in self.agents.values()):
            raise BadInput("agents: must not be in the background in a run over several processes")
        if self.node is None and loop.now():
            raise NetsimError("run_async must start at time 0 of its loop: create a new loop for it")
        settings, result = self.settings, self.result
        build(self, loop)
        if settings.deployment is not None and self.medium is not None:
            self.places = Places(settings.deployment, self.medium, loop)
        self.ended = loop.create_future()
        scenery = frozenset(name for name, agent in self.agents.items() if type(agent).background)
        self.tasks = AgentTasks(loop, self.contexts, self.name_keys, self.fail, self._finish, scenery)
        if settings.order is not None:
            self._follow(settings.order)
        self.changes = LinkChanges(self)
        self.injector = FaultInjector(settings.faults, settings.graph, self)
        self.scheduled[:0] = self.injector.actions
        # Actions run in the caller's context, so that tasks created by an action belong to no agent.
        self.caller_context = copy_context()
        self.sampler = self.watcher = self.view = self.inspection = None
        if settings.sample is not None:
            self.sampler = Sampler(loop, self.rounds, settings.sample, self._write_row, self.fail)
        if result.watch is not None:
            self.watcher = Watcher(result.watch, loop, self.contexts, self.tasks, self.all_shared, self.fail)
        if settings.viewer is not None:
            self.view = View(settings.viewer, result, loop, self._scene, self._last_round)
        if settings.inspect is not None:
            self.inspection = Inspection(settings.inspect, loop, self.end, self.fail)
        result.sampled = self.sampler is not None
        self.ledger.in_flight = self._in_flight
        for name, inbox in self.inboxes.items():
            if type(self.agents[name]).answer is not Agent.answer:
                inbox.set_request_handler(self._request_handler(name))
        # The result contains only the agents of this process: the others do not run here, so their states do not
        # change.
        local = {name: agent for name, agent in self.agents.items() if self.is_local(name)}
        result.agents = {name: agent for name, agent in local.items() if not type(agent).background}
        self.local = local
        if self.node is not None:
            self.node.joined()
        self.built = True

    def _follow(self, order: "Order") -> None:
        """Let ``order`` permute agents' steps and arriving frames; events of no agent keep their position."""
        # Imported here, because most runs have no `Order`.
        from netsim.clock.order import Chooser, Kind, install

        order.choices.clear()
        order.deferrals.clear()

        # All choosers share this map, so that an agent has the same priority in each of them.
        priorities: dict[str, float] = {}

        def chooser(name: Hashable, kind: Kind) -> Chooser:
            def note(text: str) -> None:
                if not self.closed:
                    self.contexts[name].note(text[:LONGEST_NOTE])

            return Chooser(order, name, kind, note, priorities if kind == "agent" else None)

        members, among_agents = self.tasks.members, self._agents_meet()
        install(
            self.loop,
            {
                member: (chooser(name, "step"), chooser(name, "agent") if among_agents else None)
                for name, member in members.items()
            },
        )
        for name, inbox in self.inboxes.items():
            context = copy_context()
            context.run(OWNER.set, members[name])
            inbox.follow(chooser(name, "frame"), context)
        for shared in self.all_shared:
            shared.rounds.resume_by_steps(copy_context())

    def _agents_meet(self) -> bool:
        """Return whether an agent's step may affect another agent at the same instant.

        Returns False with several processes, because settings that allow such effects are refused there.
        """
        settings = self.settings
        if self.node is not None:
            return False
        links = (settings.links.get(pair, settings.link) for pair in links_of(settings.graph))
        return isinstance(settings.medium, Radio) or any(not link.least_latency for link in links)

    async def _run(self) -> Run:
        with limited_blas(self.settings.blas_threads), self._error_hooks():
            try:
                self._start()
                await self.ended
                if self.sampler and self.error is None:
                    self.sampler.run_ended()
            finally:
                self._close()
                try:
                    await self._stop()
                finally:
                    if self.view:
                        self.view.end(self.error)
                    # Free the tasks: asyncio scans all tasks at the end of each run, including those left over from
                    # earlier runs.
                    self.tasks.main_tasks.clear()
        if self.error is not None:
            raise self.error
        return self.result

    def release(self) -> None:
        """Drop the references that lead back to this finished run, so that it is freed without a collection."""
        if self.built:
            self.tasks.members.clear()
            self.injector.actions.clear()
            self.scheduled.clear()
            self.rounds.on_round_end = lambda number: None
            del self.tasks, self.injector, self.changes

    def interrupt(self) -> None:
        """End the run from another thread, even before the run has started."""
        self.interrupted = True
        if not self.built:
            return
        with suppress(RuntimeError):  # Raised if the run is over and its loop is closed.
            self.loop.call_soon_threadsafe(self.ended.cancel)

    def at(self, time: float, action: Callable[[], None]) -> None:
        """Schedule ``action`` at a simulated time (s) of this run, which must not be in the past."""
        if not self.started:
            self.scheduled.append((time, action))
            return
        self.must_be_shared("Network.at")
        if time < self.loop.now():
            raise BadInput(f"time = {time:g}: must be >= {self.loop.now():g}, the current time of the run")
        self.schedule(time, action)

    def schedule(self, time: float, action: Callable[[], None]) -> None:
        """Schedule ``action`` at ``time`` (s), or immediately if that time has already passed in real time."""
        if self.node is not None:
            self.node.expect(time)
        call = partial(self._act, time, action)
        self.timers.append(self.loop.call_first_at(time, call, context=self.caller_context))

    def set_link(self, sender: Hashable, receiver: Hashable, up: bool) -> None:
        """Take down or restore one direction of a link."""
        self.must_be_shared("Network.set_link")
        if sender in self.outboxes:
            self.outboxes[sender].set_link(receiver, up)

    def link_number(self, sender: Hashable, receiver: Hashable) -> int:
        """Return a link's index among all links of the network."""
        if self._link_numbers is None:
            links = ((name, other) for name in self.settings.graph for other in self.settings.graph[name])
            self._link_numbers = {link: number for number, link in enumerate(links)}
        return self._link_numbers[sender, receiver]

    def set_receiver(self, agent: Hashable, up: bool) -> None:
        """Switch an agent's receiver off or on."""
        self.must_be_shared("Network.set_receiver")
        if agent in self.inboxes:
            inbox = self.inboxes[agent]
            inbox.settle_now()
            inbox.arrivals.up = up

    def whereabouts(self, what: str) -> Places:
        """Return the nodes' places; raises BadInput if the network was not built from a Deployment."""
        if self.places is None:
            raise BadInput(f"{what}: must go with a network of a netsim.Deployment, which knows what is heard where")
        return self.places

    def move(self, agent: Hashable, position: Place) -> None:
        """Move a node to a place (m) instantly, and end its current `netsim.faults.Move`, if any."""
        self.whereabouts("Network.move").jump(agent, position)
        self.injector.stand(agent)

    def must_be_shared(self, what: str) -> None:
        """Raise BadInput if an agent calls ``what`` in a run over several workers: the others would miss the action."""
        if self.node is not None:
            self.node.refuse_of_agent(what)

    def slow(self, agent: Hashable, delay: float) -> None:
        """Delay each message of an agent by ``delay`` seconds."""
        if agent in self.contexts:
            self.contexts[agent].delay = delay

    def halt(self, agent: Hashable) -> None:
        """Cancel an agent's tasks, switch off its radio and discard its unread frames."""
        if agent not in self.contexts:
            return
        self.contexts[agent].down = True
        self.inboxes[agent].clear_unread()
        if self.medium:
            self.medium.switch(agent, on=False)
        self.tasks.halt(agent)

    def restart(self, agent: Hashable) -> None:
        """Start or restart an agent's code unless the agent has finished."""
        if agent not in self.contexts:
            return
        self.contexts[agent].down = False
        if self.medium:
            self.medium.switch(agent, on=True)
        left = self.tasks.running(agent)
        if left is not None:
            self.fail(uncancellable_error(agent, left, self.contexts[agent]))
        if left is not None or self.tasks.is_finished(agent):
            return
        self.contexts[agent].note_restart()
        self.tasks.start(agent, self._coroutine_of(agent, self.agents[agent]))

    # --- start and stop --------------------------------------------------------------------------------------------

    @contextmanager
    def _error_hooks(self) -> Iterator[None]:
        """Handle errors that asyncio would only log, and detect that time has stopped advancing."""
        clock = self.loop.clock
        more = _PASSES_PER_AGENT * len(self.agents)
        clock.limit += more
        clock.on_endless.append(self._on_livelock)
        self.loop.on_error.append(self._handle)
        try:
            yield
        finally:
            clock.limit -= more
            clock.on_endless.remove(self._on_livelock)
            self.loop.on_error.remove(self._handle)

    def _start(self) -> None:
        if self.node is not None:
            self.node.starting()
        for shared in self.all_shared:
            shared.begun = True
        self.loop.clock.on_standstill.append(self._on_deadlock)
        if self.watcher:
            self.watcher.start(self.result.agents)
        if self.sampler:
            self.sampler.start()
        if self.medium:
            self.medium.start()
        if self.view:
            self.view.start()
        if self.inspection:
            self.inspection.start(self.result.agents)
        if self.tasks.scenery:
            self.loop.clock.onlookers.append(Patience(self.loop, self.tasks.only_scenery_acts, self._on_deadlock))
        # Before the agents start, run the actions that are due at the start, and the actions that these schedule.
        for time, action in self.scheduled:
            if time <= self.loop.now():
                self._act(time, action)
        self.started = True
        for time, action in self.scheduled:
            if time > self.loop.now():
                self.at(time, action)
        if self.settings.until is not None:
            # End the run after all other events at that time, so that a round that closes at that time is complete.
            until = self.rounds.snap(self.settings.until)
            self.timers.append(self.loop.call_at_simulated(until, self.loop.clock.at_instant_end, self._on_finished))
        if not self.ended.done():
            coroutines = scheduled(self)
            for name, agent in self.local.items():
                if name in coroutines:
                    self.tasks.start(name, coroutines[name]())
                elif not self.injector.is_down(name):
                    self.tasks.start(name, self._coroutine_of(name, agent))

    def _coroutine_of(self, name: Hashable, agent: Agent) -> Coroutine[Any, Any, None]:
        try:
            coroutine = agent.run()
        except Exception as error:
            raise agent_error(name, error, self.contexts[name]) from error
        if not inspect.iscoroutine(coroutine):
            run = f"{type(agent).__qualname__}.run"
            raise AgentError(f"agent {name!r}: {run} must be `async def run(self)`, without yield")
        return coroutine

    def _close(self) -> None:
        """Stop counting: later events are not recorded."""
        if self.node is not None:
            self.node.closing()
        for timer in self.timers:
            timer.cancel()
        if self.inspection:
            self.inspection.stop(whole=self.error is None and self.ended.done() and not self.ended.cancelled())
        own = self.sampler, self.view, self.watcher, self.inspection, self.medium and self.medium.watch
        # Keep the onlookers of other runs on the same loop.
        left = [each for each in self.loop.clock.onlookers if each not in own]
        self.loop.clock.onlookers[:] = [each for each in left if not isinstance(each, Patience)]
        for shared in self.all_shared:
            shared.rounds.stop()
        if self.medium:
            self.medium.stop()
            self.result.air = self.medium.airtime
            self.result.air.scenery = self.tasks.scenery
        if self.shared.sharing:
            self.shared.sharing.stop()
        for inbox in self.inboxes.values():
            inbox.stop()
        self._settle(math.nextafter(self.loop.now(), math.inf))
        under_way = list(self._in_flight())
        self.ledger.in_flight = partial(iter, under_way)
        for inbox in self.inboxes.values():
            inbox.arrivals.clear()
        self.result.ended_at = self.loop.now()
        if self.ledger.keeps_trace:
            self.ledger.scene = self._scene()
        if self.watcher:
            self.watcher.stop(whole=self.error is None)
        for shared in self.all_shared:
            shared.end()
        self.tasks.over = self.closed = True
        if self.node is not None:
            self.node.closed()

    def _scene(self) -> RunMetadata:
        settings = self.settings
        medium = "shared" if isinstance(settings.medium, Radio) else settings.medium
        places = positions_of(settings.graph, self.agents)
        paths = {} if self.places is None else flat(self.places.paths)
        walked = {number: paths[name] for number, name in enumerate(self.agents) if name in paths}
        # Pass the list itself, not a copy, so that the metadata will contain the faults of the rest of the run.
        faults = self.injector.record.spans
        stack = {} if self.shared.stack is None else self.shared.stack.as_dict()
        drawn = {} if self.result.watch is None else self.result.watch.drawn_as
        times = settings.round_period, self.loop.now()
        return RunMetadata(*times, medium, places, self._last_round(), walked, faults, stack, drawn)

    def _last_round(self) -> int:
        """Return the number of the last round that opened; 0 if none opened or compute times are set."""
        if self.settings.compute is not None:
            return 0
        return self.rounds.open_round if self.node is None else self.node.last_round()

    async def _stop(self) -> None:
        """End all tasks of the agents."""
        self.loop.clock.on_standstill.remove(self._on_deadlock)
        left = await stop(self.loop, self.tasks, self.end_iterations)
        for task in left:
            name = self.tasks.name_of(task)
            self.fail(uncancellable_error(name, task, self.contexts[name]))
            detach(task)
        error = self.tasks.first_background_error()
        if error is not None:
            self.fail(error)
        self.tasks.forget_raised()

    def _finish(self) -> None:
        # End the run after all other events at this time, so that the last round's row is written.
        self.loop.clock.at_instant_end(self._on_finished)

    def _on_finished(self) -> None:
        """End the run or, in a run over several processes, let ``self.node`` agree with the other processes on the end.

        Called when all agents of this process are finished or ``until`` is reached.
        """
        if self.node is None:
            self.end()
        else:
            self.node.agents_ended()

    def end(self) -> None:
        """End the run."""
        if not self.ended.done():
            self.ended.set_result(None)

    def fail(self, error: NetsimError) -> None:
        """End the run with an error; if there are several errors, the first is raised."""
        if self.error is None:
            self.error = error
        self.end()

    # --- error handling ----------------------------------------------------------------------------------------------

    def _handle(self, context: dict[str, Any]) -> bool:
        """Fail on an exception that asyncio would only log; return False if it comes from no code of this run."""
        error, owner = context.get("exception"), owner_of(context)
        how = UNAWAITED if "future" in context else " in a callback"
        if error is not None and self.tasks.owns(owner):
            self.tasks.failed(owner.name, error, how)
        elif owner is None and isinstance(error, Exception):
            self.fail(failure(how.removeprefix(" in "), error))
        else:
            return False
        return True

    def _on_deadlock(self) -> None:
        """At a deadlock, end the agents' iterations over inboxes; if no agent iterates, end the run with an error."""
        if self.end_iterations():
            self.count_ready_agents()
            return
        unfinished = {task: name for task, name in self.tasks.main_tasks.items() if not task.done()}
        self.fail(self.tasks.first_background_error() or standstill(unfinished, self.contexts))

    def end_iterations(self) -> bool:
        """End the agents' iterations over inboxes; return whether there were any."""
        self.loop.clock.passes += _PASSES_PER_STANDSTILL
        return bool([inbox for inbox in self.inboxes.values() if inbox.end_iteration()])

    def count_ready_agents(self) -> None:
        """If the limit of event-loop iterations at one instant is exceeded, count which agents are ready to run."""
        if self.loop.clock.passes <= self.loop.clock.limit:
            return
        for handle in ready_handles(self.loop):
            owner = handle._context.get(OWNER)
            if self.tasks.owns(owner):
                task = getattr(handle._callback, "__self__", None)
                self.ready_counts[owner.name, task if isinstance(task, asyncio.Task) else None] += 1

    def _on_livelock(self) -> None:
        """After a few more loop iterations, end the run with an error that names the agent most often ready."""
        self.count_ready_agents()
        self.iterations_sampled += 1
        # If no agent of this run was ready, another run on this loop may be the cause: wait longer, so that it fails
        # first.
        if self.iterations_sampled < (_LIVELOCK_SAMPLES if self.ready_counts else 2 * _LIVELOCK_SAMPLES):
            return
        passes = self.loop.clock.passes
        if self.ready_counts:
            [((name, task), _)] = self.ready_counts.most_common(1)
            self.fail(endless(name, task, self.contexts[name], passes))
        else:
            where = f"at {self.loop.now():g} s after {passes:,} passes of the event loop"
            self.fail(
                Stalled(f"{where} time has not advanced: callbacks or tasks that belong to no agent keep running")
            )
        self.iterations_sampled = self.loop.clock.passes = 0

    # --- callbacks during the run -------------------------------------------------------------------------------------

    def _request_handler(self, name: Hashable) -> Callable[[Frame], None]:
        agent, outbox, context = self.agents[name], self.outboxes[name], self.contexts[name]
        member = self.tasks.members[name]

        def answer(frame: Frame) -> None:
            # This function may be called in the task of another agent, but tasks that `answer` creates must belong to
            # this agent.
            token = OWNER.set(member)
            if self.watcher:
                self.watcher.call((name,))
            try:
                reply = agent.answer(for_receiver(frame))
                number = outbox.sent
                carrier = context.carrier(frame.sender)
                carrier.send(frame.sender, frame.kind, reply, context.round, False, frame.request, is_reply=True)
                context.caption(number, None, reply)
            except Exception as error:
                self.tasks.failed(name, error)
            finally:
                OWNER.reset(token)

        return answer

    def battery_died(self, name: Hashable) -> None:
        """Stop an agent for good because the battery of its node is empty; other agents continue."""
        self.injector.record.empty(name, self.loop.now())
        self.injector.down(name, for_good=True)

    def _act(self, time: float, action: Callable[[], None]) -> None:
        if self.watcher:
            # An action may change any agent, so let the watcher record the states of all agents.
            self.watcher.call(self.result.agents)
        try:
            action()
        except (Exception, asyncio.CancelledError) as error:
            self.fail(failure(f"the action of Network.at({time:g}, …)", error))

    def _settle(self, until: float) -> None:
        """Process, in every inbox, the frames that arrived before ``until`` (s)."""
        until = min(until, self.horizon)
        for inbox in self.inboxes.values():
            if inbox.arrivals:
                inbox.settle(until)

    def round_ended(self, number: int) -> None:
        """Write the row of a round that has closed.

        In a run with rows at a fixed interval, rounds have no rows. Then the sampler writes the row due at this time,
        if any.
        """
        if self.shared.over:
            # The run is over, and its results are complete: write no row. Rounds may still close now, because agents
            # may take part in rounds while they clean up after their cancellation.
            return
        if self.sampler:
            self.sampler.round_ended(number)
        else:
            self._write_row(number, self.rounds.close_time(number), self.rounds.deadline(number))

    def _write_row(self, number: int, time: float, until: float) -> None:
        """Write the row for a time (s), counting the arrivals before ``until`` (s)."""
        self._settle(until)
        try:
            # In a distributed run with journals, probes are called later, when the journals are merged.
            measure = self.node is None or not self.node.journals
            self.result.add_row(number, time, self.ledger.totals(), measure)
        except Exception as error:
            self.fail(failure("progress", error))
        if self.watcher:
            self.watcher.row_written()
        if self.view:
            self.view.row_written()
        if self.node is not None and self.error is None:
            self.node.row_written(number, time)

    def _in_flight(self) -> Iterator[tuple[int, int]]:
        for inbox in self.inboxes.values():
            yield from inbox.under_way()
        for each in (self.medium, self.shared.sharing):
            if each:
                yield from each.under_way()
