"""Methods over reliable links: exact with acknowledgements or repairs; with key frames, copies are corrected later."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from netsim import Link, Network, loss
from netsim.agents import CHOCO, COKE, CTA, DKLA, RunningSums, centralised
from netsim.agents.consensus.sharing import Repairs
from netsim.coders import Uniform
from netsim.core import Copies
from netsim.links import Reliability
from tests.agents.test_lossy import AGENTS, GEOMETRIC, GRAPH, RHO, SHARE, problem, row
from tests.parts import slow

ROUNDS = 500
LOSSY = {"free": 0.3, "burst": loss.gilbert_elliott(0.2, burst=3)}

ADMM: dict[str, Callable[[int], DKLA]] = {
    "DKLA": lambda i: DKLA(problem(i), ROUNDS, rho=RHO),
    "COKE": lambda i: COKE(problem(i), ROUNDS, rho=RHO, censor=GEOMETRIC),
    "coded": lambda i: COKE(problem(i), ROUNDS, rho=RHO, censor=GEOMETRIC, coder=Uniform(8)),
    "sums": lambda i: DKLA(problem(i), ROUNDS, rho=RHO, duals=RunningSums()),
}


def apart(make: Callable[[int], Any], link: Link) -> tuple[float, float, float]:
    """Return the largest errors of a run's end: of the models, of the copies of neighbours, of the sum of the duals."""
    agents = {i: make(i) for i in GRAPH}
    Network(GRAPH, link, seed=2).run(agents)
    best = centralised([problem(i) for i in GRAPH], SHARE * AGENTS)
    every = list(agents.values())
    copies = [
        float(np.abs(copy - agents[name].sharing.own).max())
        for each in every
        for name, copy in each.sharing.copies.items()
    ]
    duals = [each.dual for each in every if hasattr(each, "dual")]
    residual = float(np.abs(np.sum(duals, axis=0)).max()) if duals else 0.0
    return float(np.abs([each.theta - best for each in every]).max()), max(copies), residual


@pytest.mark.parametrize(
    ("method", "way", "link"),
    [
        # The quick tests cover each method, and each reliability mode on each link; the rest are slow tests.
        (name, way, link) if (place + (way == "ack")) % 4 == 2 * (link == "burst") else slow(name, way, link)
        for place, name in enumerate(ADMM)
        for way in ("ack", "nack")
        for link in LOSSY
    ],
)
def test_admm_finds_the_optimum_over_reliable_links(method: str, way: str, link: str) -> None:
    far, copies, residual = apart(ADMM[method], Link(loss=LOSSY[link], reliability=Reliability(way, attempts=40)))  # type: ignore[arg-type]
    assert far < 1e-8
    assert copies < 1e-8
    assert residual < 1e-8


def test_without_remedy_it_does_not() -> None:
    far, copies, residual = apart(ADMM["coded"], Link(loss=0.3))
    assert far > 1e-2
    assert copies > 1e-2
    assert residual > 1e-3
    assert apart(ADMM["DKLA"], Link(loss=0.3))[0] > 1e-3


def test_key_frames_bring_the_copies_together_but_not_the_average() -> None:
    plain = apart(ADMM["coded"], Link(loss=0.3))
    keys = apart(ADMM["coded"], Link(loss=0.3, reliability=Reliability("keyframe", every=20)))
    assert keys[1] < 0.1 * plain[1]
    assert keys[0] > 1e-3
    assert keys[2] > 1e-3


@pytest.mark.slow
def test_choco_draws_near_again_with_key_frames() -> None:
    def choco(i: int) -> CHOCO:
        return CHOCO(problem(i), ROUNDS, eta=0.05, gamma=0.3, weights=row(i), coder=Uniform(6))

    ideal = apart(choco, Link())[0]
    plain = apart(choco, Link(loss=0.3))
    assert plain[0] > 1.2 * ideal
    keys = apart(choco, Link(loss=0.3, reliability=Reliability("keyframe", every=5)))
    acks = apart(choco, Link(loss=0.3, reliability="ack"))
    assert keys[0] < 1.05 * ideal
    assert keys[1] < 0.5 * plain[1]
    assert acks[0] == pytest.approx(ideal, rel=1e-6)


def test_a_key_frame_travels_as_it_is() -> None:
    agents = {i: DKLA(problem(i), 40, rho=RHO, coder=Uniform(4)) for i in GRAPH}
    run = Network(GRAPH, Link(reliability=Reliability("keyframe", every=10)), seed=2).run(agents)
    offered = run.ledger.table(["kind"]).set_index("kind")["offered"]
    assert offered["key"] * 9 == offered["change"]


def test_late_frames_are_done_in_their_place() -> None:
    """The sum over rounds of ρ times a neighbour's state is the same if frames arrive late and out of order."""

    class Said:
        def __init__(self, number: int, value: float) -> None:
            self.sender, self.round, self.payload = "n", number, np.array([value])

    truth = {1: 1.0, 3: 4.0, 4: -2.0, 7: 5.0}
    # The rounds of the frames received, by the round in which they are received.
    arrives = {1: [1], 4: [4], 6: [3], 9: [7]}
    copies = Copies(("n",), (1,))
    repairs = Repairs(copies, np.zeros(1))
    penalties = {k: 1.0 if k < 4 else 2.0 + k for k in range(1, 11)}
    total = 0.0
    for k in range(1, 11):
        repairs.take_in([Said(r, truth[r]) for r in arrives.get(k, [])], k, add=False)  # type: ignore[misc]
        total += penalties[k] * copies["n"][0]
        total += sum(rho * owed[0] for rho, owed in repairs.owed(penalties[k]))
    known = {k: max(r for r in truth if r <= k) for k in range(1, 11)}
    assert total == pytest.approx(sum(penalties[k] * truth[r] for k, r in known.items()))
    assert copies["n"][0] == 5.0


# --- weights re-normalised for what was heard -------------------------------------------------------------------------


class ZeroFilled(CTA):
    """A known mistake in lossy diffusion: if a neighbour's frame is missing, a vector of zeros replaces its model."""

    def combined(self) -> Any:
        psi = self.weights[self.name] * self.theta
        for name, copy in self.sharing.copies.items():
            psi = psi + self.weights[name] * copy
        for place in range(len(self.sharing.copies)):
            self.sharing.copies.table[place] = 0.0
        return psi


def test_a_zero_in_the_place_of_who_was_not_heard_collapses() -> None:
    def make(kind: type[CTA], **given: Any) -> Callable[[int], CTA]:
        return lambda i: kind(problem(i), ROUNDS, eta=0.05, weights=row(i), **given)

    ideal = apart(make(CTA), Link())[0]
    best = np.abs(centralised([problem(i) for i in GRAPH], SHARE * AGENTS)).max()
    assert apart(make(ZeroFilled), Link(loss=0.3))[0] > 0.3 * best
    for stale in ("kept", "dropped"):
        assert apart(make(CTA, unheard=stale), Link(loss=0.3))[0] < 1.5 * ideal
