"""Failures are reported immediately, in one line; nothing hangs, and no task is left behind."""

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable, Mapping
from typing import Any

import networkx as nx
import pytest

import netsim
from netsim import Agent, AgentError, BadInput, Frame, Link, NetsimError, Network, Stalled, topology
from netsim.testing import Actor, Rounder
from tests.command import ROOT
from tests.parts import every, message_of, on_loop


def beside(agent: Agent) -> dict[int, Agent]:
    return {0: Rounder(5), 1: agent, 2: Rounder(5)}


def line_of(function: Any, text: str) -> int:
    """Return the line number at which a function's source contains ``text``."""
    code = function.__code__
    with open(code.co_filename) as file:
        lines = file.readlines()
    return next(i for i, line in enumerate(lines[code.co_firstlineno - 1 :], code.co_firstlineno) if text in line)


# --- agents that raise ------------------------------------------------------------------------------------------------


def test_an_agent_that_raises() -> None:
    class Broken(Agent):
        async def run(self) -> None:
            async for k in self.rounds(5):
                await self.collect()
                if k == 3:
                    raise ZeroDivisionError("in\nthree lines\nof text")

    network = Network(topology.path(3))
    with pytest.raises(AgentError) as caught:
        network.run(beside(Broken()))
    line = line_of(Broken.run, "raise ZeroDivisionError")
    assert str(caught.value) == (
        f"agent 1 raised ZeroDivisionError in round 3 (test_failures.py, line {line}): in three lines of text"
    )
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


@pytest.mark.parametrize("in_task", [False, True])
def test_what_there_was_before_an_agent_exits_is_kept(in_task: bool) -> None:
    class Exits(Agent):
        async def leave(self) -> None:
            sys.exit(4)

        async def run(self) -> None:
            async for k in self.rounds(5):
                await self.broadcast("number", k)
                await self.collect()
                if k == 3:
                    await (asyncio.create_task(self.leave()) if in_task else self.leave())

    with pytest.raises(SystemExit) as caught:
        Network(topology.path(3)).run(beside(Exits()))
    run = vars(caught.value)["run"]
    assert list(run.rounds["round"]) == [1, 2]
    totals = run.ledger.table([]).iloc[0]
    assert totals["offered"] == totals["delivered"] + totals["in_flight"] == 12


@pytest.mark.parametrize(("failing", "more"), [(1, ""), (2, " (and 1 more)")])
def test_an_agent_that_raises_in_a_task_group(failing: int, more: str) -> None:
    class Broken(Agent):
        async def run(self) -> None:
            async with asyncio.TaskGroup() as group:
                group.create_task(asyncio.sleep(9.0))
                for _ in range(failing):
                    group.create_task(self.part())

        async def part(self) -> None:
            await asyncio.sleep(1.5)
            raise KeyError("missing")

    message = message_of(lambda: Network(topology.path(3)).run(beside(Broken())))
    line = line_of(Broken.part, "raise KeyError")
    assert message == f"agent 1 raised KeyError at 1.5 s (test_failures.py, line {line}): 'missing'{more}"


def test_the_line_is_the_agents_own_where_a_compiled_library_refuses_what_it_sends() -> None:
    class Sends(Agent):
        async def run(self) -> None:
            await self.broadcast("x", {1, 2})

    line = line_of(Sends.run, "self.broadcast")
    message = message_of(lambda: Network(topology.path(3)).run(beside(Sends())))
    assert message.startswith(
        f"agent 1 raised WireError at 0 s (test_failures.py, line {line}): cannot encode a builtins.set"
    )


def test_the_line_is_the_agents_own() -> None:
    class Broken(Agent):
        async def run(self) -> None:
            async with asyncio.timeout(1.0):
                await self.send("no neighbour", "x", 1)

    line = line_of(Broken.run, "self.send")
    assert f"(test_failures.py, line {line})" in message_of(lambda: Network(topology.path(3)).run(beside(Broken())))


def test_a_callback_that_raises() -> None:
    class Broken(Agent):
        async def run(self) -> None:
            asyncio.get_running_loop().call_later(1.0, int, "x")
            await asyncio.sleep(5.0)

    message = message_of(lambda: Network(topology.path(3)).run(beside(Broken())))
    assert message.startswith("agent 1 raised ValueError in a callback at 1 s: invalid literal")


def test_a_run_that_raises_before_it_is_a_coroutine() -> None:
    forgot = type("Forgot", (Agent,), {"run": lambda self: 1 / 0})
    message = message_of(lambda: Network(topology.path(3)).run(beside(forgot())))
    assert message.startswith("agent 1 raised ZeroDivisionError at 0 s (test_failures.py, line ")


@pytest.mark.parametrize("answer", [lambda self, frame: 1 / 0, lambda self, frame: object()])
def test_an_answer_that_raises_or_cannot_travel(answer: Callable[[Agent, Frame], Any]) -> None:
    class Asker(Agent):
        async def run(self) -> None:
            await asyncio.sleep(2.0)
            await self.request(1, "x", 1)

    replier = type("Replier", (Actor,), {"answer": answer})
    message = message_of(lambda: Network(topology.path(2)).run({0: Asker(), 1: replier()}))
    assert message.startswith(("agent 1 raised ZeroDivisionError at 2 s", "agent 1 raised WireError at 2 s"))


@pytest.mark.parametrize("run", [lambda self: None, lambda self: 3], ids=["returns None", "returns a number"])
def test_a_run_that_is_no_coroutine(run: Callable[[Agent], Any]) -> None:
    forgot = type("Forgot", (Agent,), {"run": run})
    message = message_of(lambda: Network(topology.path(3)).run(beside(forgot())))
    assert message == "agent 1: Forgot.run must be `async def run(self)`, without yield"


def test_an_agent_without_run() -> None:
    message = message_of(lambda: Network(topology.path(3)).run(beside(Agent())))
    assert message.endswith("Agent must define: async def run(self)")


# --- probes, actions, progress ----------------------------------------------------------------------------------------


def broken_probe(agents: Mapping[Any, Agent]) -> float:
    if agents[0].now > 1.5:
        raise RuntimeError("no\nmeasure")
    return 0.0


@pytest.mark.parametrize(
    ("probes", "kind", "message"),
    [
        ([broken_probe], NetsimError, "probe broken_probe raised RuntimeError after round 2: no measure"),
        ([lambda agents: None], BadInput, "probe <lambda> = None: must be a function that returns a number or a"),
        (
            [lambda agents: {"delivered": 1.0}],
            BadInput,
            "probe column 'delivered': must not duplicate an existing column",
        ),
        (
            [lambda agents: 1, lambda agents: 2],
            BadInput,
            "probe column '<lambda>': must not duplicate an existing column",
        ),
        (["mse"], BadInput, "probes = 'mse': must be functions of the agents"),
    ],
)
def test_a_probe_that_fails(probes: list[Any], kind: type[NetsimError], message: str) -> None:
    network = Network(topology.path(3))
    assert message_of(lambda: network.run(beside(Rounder(5)), probes), kind).startswith(message)


def test_an_action_that_fails() -> None:
    network = Network(topology.path(3))
    network.at(2.5, lambda: 1 / 0)  # type: ignore[arg-type, return-value]
    message = message_of(lambda: network.run(beside(Rounder(5))), NetsimError)
    assert message == "the action of Network.at(2.5, …) raised ZeroDivisionError: division by zero"


@pytest.mark.parametrize(
    ("action", "message"),
    [
        (lambda network: network.set_link(0, 2, up=False), "link = (0, 2): must be an edge of the graph"),
        (lambda network: network.set_link([0], 1, up=False), "link = ([0], 1): must be an edge of the graph"),
        (lambda network: network.set_receiver(7, up=False), "agent = 7: must be a node of the graph"),
    ],
)
def test_an_action_on_what_is_not_there(action: Callable[[Network], None], message: str) -> None:
    network = Network(topology.path(3))
    network.at(1.0, lambda: action(network))
    assert message_of(lambda: network.run(beside(Rounder(5))), BadInput) == message


def test_progress_that_fails() -> None:
    message = message_of(
        lambda: Network(topology.path(3)).run(beside(Rounder(5)), progress=lambda k: [][k]), NetsimError
    )
    assert message == "progress raised IndexError: list index out of range"


# --- waiting for what can never come ----------------------------------------------------------------------------------


class Waiter(Agent):
    def __init__(self, how: str) -> None:
        self.how = how

    async def run(self) -> None:
        await asyncio.sleep(1.0)
        match self.how:
            case "inbox":
                await self.inbox.get()
            case "request":
                await self.request(self.neighbors[0], "x", 1)
            case "queue":
                await asyncio.Queue[int]().get()
            case "event":
                await self.inner()
            case "future":
                await asyncio.get_running_loop().create_future()
            case "group":
                async with asyncio.TaskGroup() as group:
                    group.create_task(asyncio.Event().wait())
            case "limit":
                await asyncio.wait_for(self.inner(), None)
            case "within":
                await asyncio.wait_for(asyncio.Event().wait(), None)
            case "forever":
                await asyncio.sleep(float("inf"))

    async def inner(self) -> None:
        await asyncio.Event().wait()


@pytest.mark.parametrize(
    ("how", "what", "where"),
    [
        ("inbox", "a frame in its inbox", "self.inbox.get"),
        ("request", "the reply to a request", "self.request"),
        ("queue", "Queue.get()", "asyncio.Queue"),
        ("event", "Event.wait()", "asyncio.Event().wait()"),
        ("future", "a future", "create_future"),
        ("group", "TaskGroup.__aexit__()", "async with asyncio.TaskGroup"),
        # Here a coroutine of the agent is awaited inside a coroutine of asyncio.
        ("limit", "Event.wait()", "asyncio.Event().wait()"),
        # The report does not name the innermost coroutine of asyncio, because it differs between Python versions.
        ("within", "wait_for()", "asyncio.wait_for(asyncio.Event"),
        ("forever", "sleep()", "asyncio.sleep(float"),
    ],
)
def test_a_standstill_names_the_agent_and_what_it_waits_for(how: str, what: str, where: str) -> None:
    line = line_of(Waiter.inner if how in ("event", "limit") else Waiter.run, where)
    message = message_of(lambda: Network(topology.path(2)).run({0: Waiter(how), 1: Actor()}), Stalled)
    assert message == (
        f"at 1 s every task waits for what can never come: agent 0 waits for {what} (test_failures.py, line {line})"
    )


def test_a_standstill_of_many_names_five() -> None:
    message = message_of(lambda: Network(topology.ring(9)).run({i: Waiter("inbox") for i in range(9)}), Stalled)
    assert message.count("waits for a frame in its inbox") == 5
    assert message.endswith("; and 4 more")


def test_an_agent_that_waits_in_rounds_does_not_stall() -> None:
    """The other agents continue their rounds, so the run stalls only after them, because of the waiting agent."""
    with pytest.raises(Stalled, match=r"^at 5 s .*: agent 1 waits for a frame in its inbox"):
        Network(topology.star(3)).run({0: Rounder(5), 1: Hungry(), 2: Rounder(5)})


class Hungry(Agent):
    async def run(self) -> None:
        for _ in range(6):  # one frame more than will arrive
            await self.inbox.get()


# --- being interrupted, and what is left behind -----------------------------------------------------------------------


class Endless(Agent):
    def __init__(self, started: Callable[[], None] = lambda: None) -> None:
        self.started = started
        self.cleaned_up = False

    async def run(self) -> None:
        try:
            async for k in self.rounds(10**5):
                await self.broadcast("x", k)
                await self.collect()
                if k == 5:
                    self.started()
        except asyncio.CancelledError:
            self.cleaned_up = True
            raise


def test_after_any_failure_the_network_is_usable_again() -> None:
    class Broken(Agent):
        async def run(self) -> None:
            await asyncio.sleep(2.5)
            raise ValueError

    network = Network(topology.path(3))
    fresh = network.run(beside(Rounder(5))).trace_hash
    others = Endless()
    message_of(lambda: network.run({0: others, 1: Broken(), 2: Waiter("inbox")}))
    assert others.cleaned_up
    message_of(lambda: network.run(beside(Rounder(5)), [broken_probe]), NetsimError)
    message_of(lambda: network.run({i: Waiter("inbox") for i in range(3)}), Stalled)
    message_of(lambda: network.run(beside(Rounder(5)), until=-1), BadInput)
    message_of(lambda: network.run(beside(Rounder(5)), clock="wall", pace=-1), BadInput)
    assert network.run(beside(Rounder(5))).trace_hash == fresh


def test_a_failure_leaves_no_task_on_a_shared_loop() -> None:
    async def main() -> None:
        before = asyncio.all_tasks()
        with pytest.raises(Stalled):
            await Network(topology.path(2)).run_async({i: Waiter("group") for i in range(2)})
        assert asyncio.all_tasks() == before
        await asyncio.sleep(1.0)  # the event loop still works
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(3.0):
                await asyncio.Event().wait()

    on_loop(main)


def test_after_a_failure_no_round_ends() -> None:
    class Broken(Agent):
        async def run(self) -> None:
            async for k in self.rounds(5):
                await self.collect()
                if k == 3:
                    raise ValueError

    async def main() -> list[int]:
        ended: list[int] = []
        with pytest.raises(AgentError):
            await Network(topology.path(3)).run_async(beside(Broken()), progress=ended.append)
        await asyncio.sleep(10.0)
        return ended

    assert on_loop(main) == [1, 2]


def test_control_c_ends_a_run() -> None:
    script = """
        import os, signal
        from tests.netsim.engine.test_failures import Endless, Network, topology
        agents = {i: Endless() for i in range(3)}
        agents[0].started = lambda: os.kill(os.getpid(), signal.SIGINT)
        try:
            Network(topology.ring(3)).run(agents)
        except KeyboardInterrupt:
            print("interrupted", all(agent.cleaned_up for agent in agents.values()))
    """
    done = subprocess.run(
        [sys.executable, "-W", "error", "-X", "dev", "-c", textwrap.dedent(script)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.stdout, done.stderr) == ("interrupted True\n", "")


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
def test_control_c_is_tried_also_where_a_shell_in_the_background_ignores_it() -> None:
    again = [sys.executable, "-m", "pytest", "-q", "-p", "no:xdist", f"{__file__}::test_control_c_ends_a_run"]
    words = ["sh", "-c", 'trap "" INT; exec "$@"', "sh", *again]
    done = subprocess.run(words, cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_an_interrupt_in_a_notebook_ends_the_run() -> None:
    agents = {i: Endless() for i in range(3)}
    agents[0].started = lambda: os.kill(os.getpid(), signal.SIGINT)

    async def cell() -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)  # Notebooks also use this handler.
        network = Network(topology.ring(3))
        with pytest.raises(KeyboardInterrupt):
            network.run(agents)
        assert all(agent.cleaned_up for agent in agents.values())
        network.run({i: Actor() for i in range(3)})

    asyncio.run(cell())


def test_cancelling_run_async_ends_the_run_in_its_thread() -> None:
    async def main() -> None:
        started = threading.Event()
        agents = {i: Endless(started.set) for i in range(3)}
        task = asyncio.create_task(Network(topology.ring(3)).run_async(agents))
        await asyncio.to_thread(started.wait)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        async with asyncio.timeout(20):
            while not all(agent.cleaned_up for agent in agents.values()):
                await asyncio.sleep(0.01)

    asyncio.run(main())


def test_an_agent_that_ignores_its_cancellation_for_a_while() -> None:
    class Stubborn(Agent):
        async def run(self) -> None:
            try:
                await asyncio.sleep(100.0)
            except asyncio.CancelledError:
                await asyncio.sleep(1.0)
                self.said_goodbye = True

    stubborn = Stubborn()
    run = Network(topology.path(3)).run(beside(stubborn), until=2.0)
    assert stubborn.said_goodbye
    assert run.ended_at == 2.0


# --- bad input --------------------------------------------------------------------------------------------------------


def two_parts() -> "nx.Graph[Any]":
    return nx.Graph([(0, 1), (1, 2), ("lonely", "pair")])


def with_loop() -> "nx.Graph[int]":
    return nx.Graph([(0, 1), (1, 1)])


def two(agents: Any = None, **settings: Any) -> Any:
    return Network(topology.path(2)).run(agents or {0: Actor(), 1: Actor()}, **settings)


RATED = Link(rate=1e3)


@every(
    ("make", "message"),
    [
        (lambda: Network(two_parts()), "graph: must be connected; it has 2 parts, the smallest of 2 with node 'lonely"),
        (
            lambda: Network(nx.DiGraph([(0, 1), (1, 2), (2, 1)])),
            "graph: must be strongly connected, or connected=False; node 0 cannot be reached from node 1",
        ),
        (lambda: Network(nx.MultiGraph([(0, 1)])), "must be a networkx.Graph or a networkx.DiGraph"),
        (lambda: Network([(0, 1)]), "graph = [(0, 1)]: must be a networkx.Graph or a networkx.DiGraph"),
        (lambda: Network(nx.Graph()), "graph: must have at least one node; it is empty"),
        (lambda: Network(with_loop()), "graph: must have no edge from a node to itself; node 1 has one"),
        (lambda: Network(nx.Graph([("a", frozenset())])), "node = frozenset(): must be text, bytes, a number"),
        (lambda: Network(topology.path(2), link=0.5), "link = 0.5: must be a netsim.Link"),
        (lambda: Network(topology.path(2), Link), "link = Link: must be called: Link(...)"),
        (lambda: Network(topology.path(2), RATED, medium=netsim.Radio), "medium = Radio: must be called: Radio(...)"),
        (lambda: Network(topology.path(2), links={(0, 1): Link}), "links[(0, 1)] = Link: must be called: Link(...)"),
        (lambda: Network(topology.path(2), seed=-1), "seed = -1: must be a whole number >= 0"),
        (lambda: Network(topology.path(2), seed=1.5), "seed = 1.5: must be a whole number >= 0"),
        (lambda: Network(topology.path(2), seed=True), "seed = True: must be a whole number >= 0"),
        (lambda: Network(topology.path(2), round_period=0), "round_period = 0: must be a number >= 1e-09"),
        (lambda: Network(topology.path(2), round_period=float("inf")), "round_period = inf: must be finite"),
        (lambda: Network(topology.path(2), round_period="1"), "round_period = '1': must be a number >= 1e-09"),
        (lambda: Network(topology.path(2), medium="radios"), "one of wires, radio (did you mean 'radio'?)"),
        (lambda: Network(topology.path(2), inbox_limit=0), "inbox_limit = 0: must be a whole number >= 1"),
        (lambda: Network(topology.path(3), links={(0, 2): Link()}), "links = (0, 2): must be keyed by (sender, rec"),
        (lambda: Network(topology.path(3), links={0: Link()}), "links = 0: must be keyed by (sender, receiver)"),
        (lambda: Network(topology.path(3), links={(0, 1): 0.1}), "links[(0, 1)] = 0.1: must be a netsim.Link"),
        (
            lambda: Network(topology.path(2), RATED, medium="radio", links={(0, 1): Link(rate=5.0)}),
            "links[(0, 1)].rate = 5.0: must be 1000.0, the value of `link`, because a radio "
            "has one transmitter for all links",
        ),
        (lambda: Network(topology.path(2)).at(-1, print), "time = -1: must be a number >= 0"),
        (lambda: Network(topology.path(2)).at(1, None), "action = None: must be a function without parameters"),
        (lambda: Network(topology.path(2)).at(1, Actor.run), "must be a function without parameters that is not async"),
        (
            lambda: two({0: Actor()}),
            "agents: must be one for each node of the graph; no agent for node 1 (1 missing, 0 too many)",
        ),
        (lambda: two({i: Actor() for i in range(3)}), "agent 2 is not a node of the graph (0 missing, 1 too many)"),
        (lambda: two({0: Actor(), "1": Actor()}), "no agent for node 1 (1 missing, 1 too many)"),
        (lambda: two({0: Actor(), 1: Actor}), "agents[1] = "),
        (
            lambda: two(dict.fromkeys(range(2), Actor())),
            "agents[1]: must be a distinct object; it is the same object as agents[0]",
        ),
        (lambda: two([Actor(), Actor()]), "must be a mapping {node: Agent}"),
        (
            lambda: two({0: Actor(), 1: type("A", (Actor,), {"answer": Actor.run})()}),
            "agents[1].answer: must be a plain function",
        ),
        (lambda: two(until=-1.0), "until = -1.0: must be a number > 0"),
        (lambda: two(until=float("nan")), "until = nan: must be a number > 0"),
        (lambda: two(clock="real"), "clock = 'real': must be one of virtual, wall"),
        (lambda: two(clock="wall", pace=0), "pace = 0: must be a number > 0"),
        (lambda: two(pace=2), "pace = 2: must be left out unless clock = 'wall'"),
    ],
)
def test_a_network_or_a_run_that_cannot_be(make: Callable[[], Any], message: str) -> None:
    assert message in message_of(make, BadInput)


def test_a_ledger_by_what_is_not_there() -> None:
    run = two()
    expected = "by = 'senders': must be one of sender, receiver, kind (did you mean 'sender'?)"
    assert message_of(lambda: run.ledger.table(by="senders"), BadInput) == expected


@pytest.mark.parametrize(
    ("count", "message"), [(-1, "rounds = -1: must be a whole number >= 0"), (1.5, "rounds = 1.5: must be")]
)
def test_a_number_of_rounds_that_cannot_be(count: Any, message: str) -> None:
    class Counts(Agent):
        async def run(self) -> None:
            async for _ in self.rounds(count):
                pass

    assert message in message_of(lambda: Network(topology.path(3)).run(beside(Counts())))


def test_a_name_that_depends_on_the_process_is_refused() -> None:
    class Place:
        """An object whose repr contains its memory address."""

    graph: nx.Graph[Any] = nx.Graph([(Place(), 1)])
    with pytest.raises(BadInput, match=r"^node = [^\n]*: must be text, bytes, a number, None, or a tuple of these"):
        Network(graph)
