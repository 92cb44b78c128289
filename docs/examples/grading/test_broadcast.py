"""Assignment 3, hidden tests: 10 marks. Teachers keep this file."""

import pytest

from netsim import Link, Network, topology
from netsim.faults import LinkDown
from netsim.testing import Listener, Talker, check_heard, counts, losing, play, search

NEWS = "the lecture is cancelled"
LINK = Link(latency=0.05)
LOSSY = Link(latency=0.05, loss=0.3)


@pytest.fixture
def agent(submission):
    """The class of the submission."""
    return submission["Broadcast"]


def texts(agent):
    """What a node delivered. A list or text of a class of the submission's own could say that it equals any other."""
    found = agent.delivered
    assert type(found) is list, "delivered must be a list"
    assert all(type(text) is str for text in found), "delivered must be a list of texts"
    return found


def played(agents, graph, **settings):
    """Run agents, the first of which has the news; nobody may deliver it before a chain of frames came from there."""
    network = Network(graph, **settings)
    network.watch({"delivered": lambda agent: len(texts(agent))})
    run = network.run(dict(enumerate(agents)), until=60, trace=True)
    check_heard(run, "delivered", source=0)
    return run


def delivered(run):
    return [texts(agent) for agent in run.agents.values()]


@pytest.mark.marks(2)
def test_all_deliver(agent):
    """Without losses all nodes deliver the text, once."""
    for shape in (topology.path, topology.ring, topology.star):
        run = played([agent(NEWS), *(agent() for _ in range(5))], shape(6), link=LINK)
        assert delivered(run) == [[NEWS]] * 6, f"on a {shape.__name__}: delivered = {delivered(run)}"


@pytest.mark.marks(1)
def test_each_text_is_acknowledged(agent):
    """A node acknowledges each text, also one that it has."""
    run = play(Talker([(1.0, NEWS), (5.0, NEWS)], kind="text"), agent(), Listener(), link=LINK, until=60)
    acks = counts(run, sender=1, receiver=0, kind="ack")
    assert acks == {"delivered": 2}, f"two texts were sent; acknowledgements: {acks}"


@pytest.mark.marks(1)
def test_economy(agent):
    """Without losses no link carries a text twice in the same direction."""
    run = play(agent(NEWS), *(agent() for _ in range(5)), shape=topology.ring, link=LINK, until=60)
    table = run.ledger.table(["sender", "receiver", "kind"])
    texts = table[table["kind"] == "text"]
    assert len(texts) >= 5, f"only {len(texts)} links carried a text"
    assert texts["offered"].max() == 1, f"a link carried {texts['offered'].max()} texts"


@pytest.mark.marks(1)
def test_losses(agent):
    """All deliver the text though each link loses its first frames."""
    for lost in (1, 3):
        link = Link(latency=0.05, loss=losing(*range(lost)))
        run = played([agent(NEWS), agent(), agent()], topology.path(3), link=link)
        assert delivered(run) == [[NEWS]] * 3, f"each link lost {lost} frames: delivered = {delivered(run)}"


@pytest.mark.marks(2)
def test_knowledge(agent):
    """Who cannot have heard the text does not know it; who can, in the end, delivers it."""
    made = [agent(NEWS), *(agent() for _ in range(4))]
    run = played(made, topology.path(5), link=LINK, faults=[LinkDown(1, 2, at=0.0, until=20.0), LinkDown(3, 4, at=0.0)])
    expected = [[NEWS]] * 4 + [[]]
    assert delivered(run) == expected, f"3-4 is cut, and 1-2 for 20 s: delivered = {delivered(run)}"


@pytest.mark.marks(1)
def test_silence(agent):
    """At last nobody sends any more."""
    run = play(agent(NEWS), *(agent() for _ in range(5)), shape=topology.ring, link=LOSSY, until=60, trace=True)
    assert counts(run, kind="text").get("delivered", 0) >= 5, "there are hardly any messages"
    last = run.trace.table()["time_s"].max()
    assert last < 30, f"at a loss of 0.3 there is still a message at {last:.1f} s"


class Reliable:
    """Nobody ever delivers anything but the text, once; at the end all have."""

    def __call__(self, agents):
        for name, agent in agents.items():
            assert texts(agent) in ([], [NEWS]), f"node {name} delivered {agent.delivered}"

    def at_end(self, agents):
        missing = [name for name, agent in agents.items() if not texts(agent)]
        assert not missing, f"nodes {missing} never delivered the text"


@pytest.mark.marks(2)
def test_cuts_and_crashes(agent):
    """Whatever is cut, and whoever crashes and returns: all deliver the text, once."""

    def make(*, seed):
        graph = topology.erdos_renyi(6, edges=8, seed=seed)
        return Network(graph, LOSSY, seed=seed), {i: agent(NEWS) if i == 0 else agent() for i in graph}, {"until": 60}

    faults = {"until": 3.0, "mean_duration": 2.0, "crashes": 3, "cuts": 3, "partitions": 1, "keeps_state": True}
    found = search(make, Reliable, seeds=range(30), faults=faults)
    assert found is None, str(found)
