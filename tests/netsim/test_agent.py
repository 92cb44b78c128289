"""What an agent can do: send, request, reply and read its inbox; and the limits of each."""

import asyncio
import contextlib
import copy
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import netsim
from netsim import Agent, AgentError, BadInput, Frame, Link, Network, Run, latency, loss, testing, topology
from netsim.faults import Crash
from netsim.testing import Actor, Replier
from tests.parts import on_loop

play = partial(testing.play, shape=topology.complete)


def doubler() -> Replier:
    return Replier(reply=lambda number: 2 * number)


async def listen(me: Actor) -> None:
    """Record every frame until the run ends."""
    async for frame in me.inbox:
        me.log.append((frame.kind, frame.sender, frame.payload))


def one_line(error: pytest.ExceptionInfo[BaseException]) -> str:
    assert "\n" not in str(error.value)
    return str(error.value)


# --- sending ----------------------------------------------------------------------------------------------------------


def test_send_reaches_one_and_broadcast_all() -> None:
    async def talk(me: Actor) -> None:
        me.log.append(await me.send(2, "hello", {"n": 1}))
        me.log.append(await me.broadcast("news", "to all"))

    talker, first, second = Actor(talk), Actor(listen), Actor(listen)
    run = play(talker, first, second)
    assert talker.log == [True, 2]
    assert first.log == [("news", 0, "to all")]
    assert second.log == [("hello", 0, {"n": 1}), ("news", 0, "to all")]
    table = run.ledger.table(by="kind")[["kind", "offered", "delivered"]]
    assert table.values.tolist() == [["hello", 1, 1], ["news", 2, 2]]


def test_what_an_agent_knows() -> None:
    async def look(me: Actor) -> None:
        await asyncio.sleep(1.5)
        me.log += [me.name, me.neighbors, me.now, me.round, len(me.inbox)]

    agents = [Actor(look) for _ in range(3)]
    Network(topology.path(3)).run(dict(enumerate(agents)))
    assert agents[1].log == [1, (0, 2), 1.5, 0, 0]


def test_receivers_do_not_share_what_can_be_changed() -> None:
    sent = {"list": [1, 2], "array": np.zeros(2)}

    async def talk(me: Actor) -> None:
        await me.broadcast("x", sent)
        sent["list"].append("changed by the sender")  # type: ignore[attr-defined]

    async def change(me: Actor) -> None:
        frame = await me.inbox.get()
        frame.payload["list"].append(me.name)
        me.log = frame.payload["list"]
        with pytest.raises(ValueError, match="read-only"):
            frame.payload["array"][0] = 1

    first, second = Actor(change), Actor(change)
    play(Actor(talk), first, second)
    assert first.log == [1, 2, 1]
    assert second.log == [1, 2, 2]


def test_arrays_are_read_only_and_apart_from_the_senders() -> None:
    mine = np.arange(3.0)

    async def talk(me: Actor) -> None:
        await me.broadcast("x", mine)
        mine[:] = -1.0

    async def read(me: Actor) -> None:
        got = (await me.inbox.get()).payload
        me.log = got.tolist()
        with pytest.raises(ValueError, match="read-only"):
            got += 1

    first, second = Actor(read), Actor(read)
    play(Actor(talk), first, second)
    assert first.log == second.log == [0.0, 1.0, 2.0]


@pytest.mark.parametrize("to", [2, "no agent", None])
def test_sending_to_no_neighbour_names_the_neighbours(to: Any) -> None:
    async def talk(me: Actor) -> None:
        await me.send(to, "x", 1)

    with pytest.raises(AgentError) as caught:
        Network(topology.path(3)).run({0: Actor(talk), 1: Actor(), 2: Actor()})
    more = "; Network(…, routing='shortest') would carry it" if to == 2 else ""
    assert one_line(caught).endswith(f"agent 0 cannot send to {to!r}: its neighbours are 1{more}")


# --- asking -----------------------------------------------------------------------------------------------------------


def test_a_request_is_answered_at_the_instant_of_its_arrival() -> None:
    async def ask(me: Actor) -> None:
        reply = await me.request(1, "double", 21)
        me.log.append((me.now, reply.sender, reply.kind, reply.payload))

    asker, replier = Actor(ask), doubler()
    play(asker, replier, link=Link(latency=0.25))
    assert replier.log == [(0.25, 21)]
    assert asker.log == [(0.5, 1, "double", 42)]


def test_a_request_answered_from_the_inbox() -> None:
    async def ask(me: Actor) -> None:
        me.log.append((await me.request(1, "double", 21)).payload)

    async def serve(me: Actor) -> None:
        frame = await me.inbox.get()
        await asyncio.sleep(1.0)
        me.log.append(await me.reply(frame, frame.payload * 2))

    asker, server = Actor(ask), Actor(serve)
    assert play(asker, server).ended_at == 1.0
    assert (asker.log, server.log) == ([42], [True])


def test_concurrent_requests_get_their_own_replies() -> None:
    async def ask(me: Actor) -> None:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(me.request(1 + i % 2, "double", i)) for i in range(40)]
        me.log = [task.result().payload for task in tasks]

    asker = Actor(ask)
    play(asker, doubler(), doubler(), link=Link(latency=latency.uniform(0.0, 1.0)))
    assert asker.log == [2 * i for i in range(40)]


def test_a_timeout_and_a_reply_that_comes_after_it() -> None:
    async def ask(me: Actor) -> None:
        with pytest.raises(TimeoutError):
            await me.request(1, "double", 1, timeout=0.4)
        me.log.append(me.now)
        await asyncio.sleep(1.0)
        assert len(me.inbox) == 0

    asker = Actor(ask)
    run = play(asker, doubler(), link=Link(latency=0.25))
    assert asker.log == [0.4]
    table = run.ledger.table(by="sender").set_index("sender")
    assert table.loc[1, "late"] == 1
    assert table.loc[0, "delivered"] == 1


@pytest.mark.parametrize("other_first", [False, True])
def test_a_reply_at_the_instant_of_the_time_out_is_returned_or_late(other_first: bool) -> None:
    """If another frame is known to arrive at that instant, the inbox takes both before the time-out, else after it."""

    async def ask(me: Actor) -> None:
        reading = asyncio.ensure_future(me.inbox.get())
        await asyncio.sleep(0.25)
        with contextlib.suppress(TimeoutError):
            me.log.append((await me.request(1, "double", 21, timeout=0.25)).payload)
        reading.cancel()

    async def tell(me: Actor) -> None:
        await asyncio.sleep(0.2 if other_first else 1.0)
        await me.send(0, "other")

    asker = Actor(ask)
    links = {(2, 0): Link(latency=0.3)}
    network = Network(topology.complete(3), Link(latency=0.125), links=links)
    table = network.run({0: asker, 1: doubler(), 2: Actor(tell)}).ledger.table(by="sender").set_index("sender")
    assert asker.log == ([42] if other_first else [])
    assert table.loc[1, ["delivered", "late"]].tolist() == ([1, 0] if other_first else [0, 1])


def test_a_reply_that_comes_twice_counts_once() -> None:
    async def ask(me: Actor) -> None:
        me.log.append((await me.request(1, "double", 21)).payload)

    asker, replier = Actor(ask), doubler()
    run = play(asker, replier, link=Link(duplicate=1.0))
    assert asker.log == [42]
    assert len(replier.log) == 2  # the request also arrived twice
    table = run.ledger.table(by="sender").set_index("sender")
    assert table.loc[1, ["offered", "duplicated", "delivered", "late"]].tolist() == [2, 2, 1, 3]


def test_a_lost_request_times_out_and_without_a_timeout_stalls() -> None:
    async def ask(me: Actor) -> None:
        with pytest.raises(TimeoutError):
            await me.request(1, "x", 1, timeout=2.0)
        await me.request(1, "x", 1)

    with pytest.raises(netsim.Stalled, match=r"^at 2 s .*agent 0 waits for the reply to a request \(test_agent"):
        play(Actor(ask), doubler(), link=Link(loss=1.0))


@pytest.mark.parametrize("timeout", [-1, float("nan"), "soon"])
def test_a_timeout_must_be_a_number(timeout: Any) -> None:
    async def ask(me: Actor) -> None:
        await me.request(1, "x", 1, timeout=timeout)

    with pytest.raises(AgentError, match=r"timeout = .*: must be a number >= 0"):
        play(Actor(ask), doubler())


def test_only_a_request_can_be_replied_to() -> None:
    async def answer_back(me: Actor) -> None:
        await me.reply(await me.inbox.get(), 1)

    async def talk(me: Actor) -> None:
        await me.broadcast("x", 1)

    with pytest.raises(AgentError, match="is not a request and has no reply; use send"):
        play(Actor(talk), Actor(answer_back))


# --- the inbox --------------------------------------------------------------------------------------------------------


async def send_three(me: Actor) -> None:
    for i in range(3):
        await me.broadcast("x", i)
        await asyncio.sleep(1.0)


def test_an_iteration_ends_when_nothing_can_come_any_more() -> None:
    async def count(me: Actor) -> None:
        await listen(me)
        me.log.append(me.now)

    reader = Actor(count)
    play(Actor(send_three), reader, link=Link(latency=0.5))
    assert reader.log == [("x", 0, 0), ("x", 0, 1), ("x", 0, 2), 3.0]


def test_get_waits_and_len_counts_what_is_there() -> None:
    async def read(me: Actor) -> None:
        assert len(me.inbox) == 0
        me.log.append(((await me.inbox.get()).payload, me.now, len(me.inbox)))
        await asyncio.sleep(5.0)
        me.log.append(len(me.inbox))

    reader = Actor(read)
    play(Actor(send_three), reader, link=Link(latency=0.5))
    assert reader.log == [(0, 0.5, 0), 2]


def test_frames_come_in_order_of_arrival() -> None:
    async def talk(me: Actor) -> None:
        for i in range(50):
            await me.broadcast("x", (i, me.now))

    reader = Actor(listen)
    run = Network(topology.path(2), Link(latency=latency.uniform(0, 1))).run({0: Actor(talk), 1: reader}, trace=True)
    order = [payload[0] for _, _, payload in reader.log]
    assert sorted(order) == list(range(50)) != order
    arrived = run.trace.table().query("event == 'delivered'")
    assert arrived["message"].tolist() == order


def test_two_who_wait_get_a_frame_each() -> None:
    async def share(me: Actor) -> None:
        async def one(name: str) -> None:
            me.log.append((name, (await me.inbox.get()).payload, me.now))

        async with asyncio.TaskGroup() as group:
            for name in ("a", "b", "c"):
                group.create_task(one(name))

    reader = Actor(share)
    play(Actor(send_three), reader)
    assert reader.log == [("a", 0, 0.0), ("b", 1, 1.0), ("c", 2, 2.0)]


def test_a_frame_of_one_who_gives_up_at_that_instant_is_for_the_next() -> None:
    async def share(me: Actor) -> None:
        async def patient() -> None:
            me.log.append(((await me.inbox.get()).payload, me.now))

        async with asyncio.TaskGroup() as group:
            hasty = group.create_task(me.inbox.get())
            await asyncio.sleep(0)
            group.create_task(patient())
            asyncio.get_running_loop().call_at(1.0, hasty.cancel)

    async def send_at_one(me: Actor) -> None:
        await asyncio.sleep(0.5)
        await me.broadcast("x", "the only one")

    reader = Actor(share)
    play(Actor(send_at_one), reader, link=Link(latency=0.5))
    assert reader.log == [("the only one", 1.0)]


def test_a_full_inbox_drops_what_comes_then() -> None:
    async def read_late(me: Actor) -> None:
        await asyncio.sleep(1.5)
        me.log.append((await me.inbox.get()).payload)
        await asyncio.sleep(5.0)
        me.log += [f.payload for f in me.inbox.take(me.now)]

    reader = Actor(read_late)
    run = play(Actor(send_three), reader, inbox_limit=1)
    assert reader.log == [0, 2]
    assert run.ledger.table(by=())[["delivered", "inbox_full"]].values.tolist() == [[2, 1]]


def test_a_receiver_that_is_down_hears_nothing() -> None:
    reader = Actor(listen)
    net = Network(topology.path(2))
    net.at(0.5, lambda: net.set_receiver(1, up=False))
    net.at(1.5, lambda: net.set_receiver(1, up=True))
    run = net.run({0: Actor(send_three), 1: reader})
    assert [payload for _, _, payload in reader.log] == [0, 2]
    assert run.ledger.table(by=())["receiver_down"].tolist() == [1]


# --- names that belong to netsim --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["neighbors", "name", "now", "round", "rng", "inbox", "outbox"])
def test_a_property_cannot_be_assigned(name: str) -> None:
    class Mine(Agent):
        def __init__(self) -> None:
            setattr(self, name, [])

    with pytest.raises(AgentError) as caught:
        Mine()
    assert f"{name!r} belongs to netsim.Agent; choose another for your own" in one_line(caught)


@pytest.mark.parametrize(
    "body", [{"round": 3}, {"send": lambda self: None}, {"_netsim": None}, {"rounds": property(len)}]
)
def test_a_class_attribute_cannot_hide_one_of_agents(body: dict[str, Any]) -> None:
    with pytest.raises(AgentError) as caught:
        type("Mine", (Agent,), body)
    (name,) = body
    assert one_line(caught) == f"Mine.{name}: the name {name!r} belongs to netsim.Agent; choose another for your own"


def test_a_mixin_cannot_either() -> None:
    class Sender:
        def send(self) -> None: ...

    with pytest.raises(AgentError, match=r"^Mixed\.send: "):
        type("Mixed", (Sender, Agent), {})


@pytest.mark.parametrize("name", ["send", "broadcast", "collect", "_check_neighbor"])
def test_an_instance_attribute_cannot(name: str) -> None:
    class Mine(Actor):
        def __init__(self) -> None:
            super().__init__()
            setattr(self, name, 1)

    with pytest.raises(AgentError) as caught:
        play(Mine())
    assert f"the name {name!r} belongs to netsim.Agent" in one_line(caught)


def test_subclasses_of_agents_may_override_their_own_and_answer_and_run() -> None:
    class More(Replier):
        def answer(self, frame: Frame) -> Any:
            return super().answer(frame)

        async def run(self) -> None:
            self.step = 1

    play(More())


@pytest.mark.parametrize("use", [lambda a: a.now, lambda a: a.rng, lambda a: a.neighbors, lambda a: a.rounds(1)])
def test_what_needs_a_network_says_so(use: Callable[[Agent], Any]) -> None:
    with pytest.raises(AgentError) as caught:
        use(Actor())
    assert one_line(caught) == "Actor has not joined a network yet: use this inside run()"


def test_an_unknown_attribute_is_an_ordinary_attribute_error() -> None:
    agent = Actor()
    assert not hasattr(agent, "value")
    with pytest.raises(AttributeError, match="'Actor' object has no attribute 'value'"):
        _ = agent.value  # type: ignore[attr-defined]


def test_an_error_inside_a_property_of_an_agent_names_what_is_missing_there() -> None:
    class Vehicle(Agent):
        @property
        def speed(self) -> float:
            return float(self.wheels)  # type: ignore[attr-defined]

    with pytest.raises(AttributeError, match="'Vehicle' object has no attribute 'wheels'"):
        _ = Vehicle().speed


# --- networks and runs ------------------------------------------------------------------------------------------------


async def draw(me: Actor) -> None:
    me.log = [me.name, *me.rng.random(3).tolist()]


def test_each_agent_has_a_random_stream_of_its_own() -> None:
    def drawn(seed: int, size: int, draws_first: int) -> dict[int, list[float]]:
        async def draw_more(me: Actor) -> None:
            if me.name == draws_first:
                me.rng.random(1000)
            await draw(me)

        agents = {i: Actor(draw_more) for i in range(size)}
        Network(topology.complete(size), seed=seed).run(agents)
        return {i: agent.log[1:] for i, agent in agents.items()}

    small, large, other = drawn(1, 3, 0), drawn(1, 5, 2), drawn(2, 3, 0)
    assert small[1] == large[1] != other[1]
    assert len({value for log in small.values() for value in log}) == 9


def test_a_network_of_one() -> None:
    async def alone(me: Actor) -> None:
        async for _ in me.rounds(3):
            me.log.append((await me.broadcast("x", np.ones(2)), await me.collect()))

    agent = Actor(alone)
    run = play(agent, link=Link(latency=0.1, loss=0.5, rate=1e3))
    assert agent.log == [(0, [])] * 3
    assert run.rounds["round"].tolist() == [1, 2, 3]
    assert run.rounds["transmissions"].tolist() == [0, 0, 0]
    assert run.ledger.table().empty
    assert run.ledger.senders_table().empty
    assert "1 agents, 3 rounds" in repr(run)


class Average(Agent):
    """The script on the first page of the documentation."""

    def __init__(self, value: float) -> None:
        self.value = value

    async def run(self) -> None:
        async for _ in self.rounds(50):
            await self.broadcast("state", self.value)
            heard = [f.payload for f in await self.collect()]
            self.value = sum(heard, self.value) / (1 + len(heard))


def averaging(lossy: bool = True) -> tuple[Network, dict[int, Average]]:
    graph = topology.random_geometric(20, radius=0.4, seed=1)
    link = Link(latency=latency.uniform(5e-3, 20e-3), loss=loss.bernoulli(0.1), rate=250e3) if lossy else Link()
    return Network(graph, link, round_period=0.1, seed=7), {i: Average(float(i)) for i in graph}


def test_the_first_script() -> None:
    network, agents = averaging()
    run = network.run(agents, probes=[lambda a: {"spread": float(np.ptp([x.value for x in a.values()]))}])
    assert len(run.rounds) == 50
    assert run.rounds["spread"].iloc[-1] < 0.5 < 5 < run.rounds["spread"].iloc[0]
    final = run.rounds.iloc[-1]
    assert final["link_messages"] == final["delivered"] + final["lost"]
    assert final["lost"] / final["link_messages"] == pytest.approx(0.1, abs=0.02)


def test_without_losses_it_is_the_matrix_recursion() -> None:
    network, agents = averaging(lossy=False)
    network.run(agents)
    graph = network.graph
    weights = np.array([[float(i == j or graph.has_edge(i, j)) for j in graph] for i in graph])
    weights /= weights.sum(axis=1, keepdims=True)
    expected = np.linalg.matrix_power(weights, 50) @ np.arange(20.0)
    assert [agent.value for agent in agents.values()] == pytest.approx(expected.tolist(), abs=1e-12)


def test_every_way_to_run_gives_the_same_run() -> None:
    def hash_of() -> str:
        network, agents = averaging()
        return network.run(agents).trace_hash

    async def from_a_notebook() -> str:
        return hash_of()

    async def awaited() -> str:
        network, agents = averaging()
        return (await network.run_async(agents)).trace_hash

    on_our_loop = on_loop(awaited)
    assert {asyncio.run(from_a_notebook()), asyncio.run(awaited()), on_our_loop} == {hash_of()}


def test_a_network_may_run_again_and_its_agents_may_not() -> None:
    """Agents would continue with their last state, so a notebook's results would depend on how often a cell was run."""
    network, agents = averaging()
    first = network.run(agents)
    at_the_end = [agent.value for agent in agents.values()]
    for other in (network, averaging()[0]):
        with pytest.raises(BadInput) as caught:
            other.run(agents)
        assert str(caught.value) == (
            "agents[0]: must be a new agent for each run; this one has already run; to continue from its last state, "
            "pass copy.deepcopy(agents)"
        )
    assert [agent.value for agent in agents.values()] == at_the_end
    assert network.run({i: Average(float(i)) for i in agents}).trace_hash == first.trace_hash
    # Copies of the agents start with their current state.
    again = network.run(copy.deepcopy(agents))
    assert again.rounds["round"].tolist() == list(range(1, 51))
    assert again.trace_hash != first.trace_hash
    assert [agent.value for agent in agents.values()] == at_the_end


def test_agents_of_a_run_that_failed_have_run_and_those_of_one_that_never_began_have_not() -> None:
    graph = topology.path(2)
    agents: dict[int, Agent] = {0: Average(1.0), 1: Actor(lambda me: [].pop())}
    with pytest.raises(AgentError, match="pop from empty list"):
        Network(graph).run(agents)
    with pytest.raises(BadInput, match=r"^agents\[0\]: must be a new agent for each run"):
        Network(graph).run(agents)

    agents = {0: Average(1.0), 1: Average(2.0)}
    agents[0].held = threading.Lock()  # type: ignore[attr-defined]
    with pytest.raises(BadInput, match="cannot be copied"):
        Network(graph, faults=[Crash(0, at=1.0, until=2.0)]).run(agents)
    assert Network(graph, faults=[Crash(0, at=1.0, until=2.0, keeps_state=True)]).run(agents).ended_at == 50.0


def test_a_run_whose_agents_run_already_is_refused() -> None:
    network, agents = averaging()
    other = averaging()[0]
    refused: list[str] = []

    def once_more() -> None:
        try:
            other.run(agents)
        except BadInput as error:
            refused.append(str(error))

    network.at(1.0, once_more)
    network.run(agents)
    assert [message.partition(";")[0] for message in refused] == ["agents[0]: must be a new agent for each run"]


def test_run_async_shares_its_loop_and_leaves_nothing_behind() -> None:
    """Timers that are set for a later time must not fire after the end of the run."""
    went_off: list[str] = []

    async def main() -> tuple[int, Run]:
        network = Network(topology.path(2), Link(latency=0.03), round_period=0.1)
        network.at(5.0, lambda: went_off.append("action"))
        clock = asyncio.create_task(asyncio.sleep(2.0, "my own"))
        talkers = {i: Average(1.0) for i in range(2)}
        run = await network.run_async(talkers, until=0.25)
        assert len(run.rounds) == 2
        assert asyncio.all_tasks() == {asyncio.current_task(), clock}
        assert await clock == "my own"
        await asyncio.sleep(10.0)
        return len(run.rounds), run

    rows, run = on_loop(main)
    assert (rows, went_off, run.ended_at) == (2, [], 0.25)


def test_after_a_run_the_loop_notices_a_standstill_as_before() -> None:
    async def main() -> None:
        await Network(topology.path(2)).run_async({0: Actor(), 1: Actor()})
        await asyncio.Event().wait()

    with pytest.raises(netsim.Stalled, match=r"^the event loop waits"):
        on_loop(main)


def test_run_async_needs_a_new_loop() -> None:
    async def main() -> None:
        await asyncio.sleep(1.0)
        network, agents = averaging()
        await network.run_async(agents)

    with pytest.raises(netsim.NetsimError, match="must start at time 0 of its loop"):
        on_loop(main)


def test_one_network_runs_once_at_a_time() -> None:
    async def main() -> None:
        network, agents = averaging()
        others = {i: Average(0.0) for i in agents}
        async with asyncio.TaskGroup() as group:
            group.create_task(network.run_async(agents))
            group.create_task(network.run_async(others))

    with pytest.raises(ExceptionGroup) as caught:
        on_loop(main)
    assert "this network is already running" in str(caught.value.exceptions[0])
    assert len(caught.value.exceptions) == 1


def test_set_link_needs_a_running_network() -> None:
    with pytest.raises(netsim.NetsimError, match=r"is not running: use Network\.at"):
        Network(topology.path(2)).set_link(0, 1, up=False)


class Sleepy(Agent):
    """Sleeps during its first round."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.rounds_seen: list[int] = []

    async def run(self) -> None:
        async for number in self.rounds(3):
            self.rounds_seen.append(number)
            await asyncio.sleep(self.seconds if number == 1 else 0)


def test_a_sleep_longer_than_the_round_is_a_warning_once() -> None:
    agents = {0: Sleepy(2.5), 1: Sleepy(3.5), 2: Sleepy(0.9)}
    with pytest.warns(RuntimeWarning) as caught:
        Network(topology.path(3)).run(agents)
    [warning] = caught
    assert str(warning.message) == (
        "agent 0 overran round 1 and takes part in round 4 next: what it did in that round took longer than its 1 s"
    )
    assert warning.filename == __file__
    assert [agents[i].rounds_seen for i in range(3)] == [[1, 4, 5], [1, 5, 6], [1, 2, 3]]


def test_a_sleep_within_the_round_is_no_warning() -> None:
    agents = {0: Sleepy(0.999), 1: Sleepy(0.0)}
    Network(topology.path(2)).run(agents)
    assert agents[0].rounds_seen == [1, 2, 3]
