"""Running sums in a few bits per element: integer multiples of a step Δ, sent modulo 2^m.

The state of agent i is θ̂_i = q_i Δ with integers q_i, and S_i = Σ_k q_i is the sum of the q_i over the rounds k. A
receiver predicts that q_n has not changed since the last frame of neighbour n, and that S_n has grown by q_n in each
round since then. Many integers have the residue that a frame carries; the receiver chooses the integer nearest to its
prediction (`netsim.coders.Residues`). In each round the sender chooses m large enough for receivers that missed up to
``reach`` of the last frames. If a receiver missed more frames, the checksum reveals a wrong prediction, and the
receiver requests a full frame.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

import netsim
from netsim import Frame
from netsim.agents.consensus.duals import Duals, Rho, Sending
from netsim.agents.consensus.sharing import Sharing
from netsim.agents.consensus.sums import SummedSharing
from netsim.coders import Exact, Residues
from netsim.coders.residues import MOST_WIDTH, Integers, width_of
from netsim.errors import AgentError, BadInput
from netsim.util import check
from netsim.util.typing import Vector

REPAIR = "repair"
"""The kind of message that requests a full frame, which can be decoded without a prediction."""


@dataclass(frozen=True)
class CodedSums(Duals):
    """`RunningSums` in integer multiples of a step Δ, sent modulo powers of two: γ_i = ρΔ Σ_n (S_i − S_n).

    Parameters
    ----------
    step : float
        The final Δ, in units of θ.
    halvings : int
        How many times Δ is halved. The first Δ is 2^halvings times the final Δ.
    halve_every : int
        Number of rounds from one halving to the next.
    dither : bool
        Whether θ_i/Δ is rounded up or down at random, which makes θ̂_i unbiased. If False, it is rounded to the nearest
        integer.
    reach : int
        How many consecutive frames a receiver may miss and still decode the next frame.
    sum_every : int
        Number of rounds from one frame with S to the next. The other frames carry only θ̂. An agent with d neighbours
        sends S in round k if k + d is a multiple of ``sum_every``.

    Raises
    ------
    BadInput
        If a number is outside its range.
    """

    needs_constant: ClassVar[bool] = True
    step: float = 0.01
    halvings: int = 3
    halve_every: int = 50
    dither: bool = True
    reach: int = 24
    sum_every: int = 4

    def __post_init__(self) -> None:
        check.fields(self, check.finite, "step", above=0.0)
        check.fields(self, check.integer, "halvings", low=0)
        check.fields(self, check.integer, "halve_every", "reach", "sum_every", low=1)
        check.fields(self, check.flag, "dither")
        if self.halvings > MOST_WIDTH:
            raise check.refuse("halvings", self.halvings, f"from 0 to {MOST_WIDTH}")

    def check(self, sending: Sending, *, is_scheduled: bool) -> None:
        """Raise BadInput if the coder is not `Exact`, ``coded_start`` is True, or the penalty is scheduled."""
        super().check(sending, is_scheduled=is_scheduled)
        if not isinstance(sending.coder, Exact):
            raise BadInput(
                f"coder = {type(sending.coder).__name__}: must be left out with duals = CodedSums, which codes"
            )

    def sharing(self, agent: netsim.Agent, size: int | tuple[int, ...], sending: Sending, rho: Rho) -> Sharing:
        """Return one agent's `Sharing`, whose frames carry residues."""
        return CodedSharing(agent, size, sending, rho, self)

    def halvings_by(self, round_number: int) -> int:
        """Return how many times Δ has been halved when round k = 1, 2, … begins."""
        return min((round_number - 1) // self.halve_every, self.halvings)

    def step_in(self, round_number: int) -> float:
        """Return Δ in round k."""
        return self.step * 2.0 ** (self.halvings - self.halvings_by(round_number))


class CodedSharing(SummedSharing):
    """A `SummedSharing` whose frames carry residues of integers.

    ``own`` and the copies are multiples of Δ. ``total`` is S_i and ``totals`` contains the S_n, in units of Δ.
    ``astray`` counts the received frames whose checksum revealed a wrong prediction. ``repairs`` counts the full frames
    sent.
    """

    def __init__(
        self, agent: netsim.Agent, size: int | tuple[int, ...], sending: Sending, rho: Rho, way: CodedSums
    ) -> None:
        super().__init__(agent, size, sending, rho)
        self._way = way
        self._round = 0
        self._step = way.step_in(1)
        self._q = np.zeros(self.own.size, dtype=np.int64)
        self._of = np.zeros((len(self._places), self.own.size), dtype=np.int64)
        self.total, self.totals = self._q.copy(), self._of.copy()
        # Ring buffers of q and S after each of the last ``reach`` + 1 rounds, initially zeros.
        self._past = np.zeros((2, way.reach + 1, self.own.size), dtype=np.int64)
        # The row of `_past` that holds q and S after the last round.
        self._newest = 0
        self._names = list(agent.neighbors)
        self._lost: set[int] = set()
        self._missed = np.zeros(len(self._places), dtype=np.int64)
        self.astray = self.repairs = 0

    def next_dual(self, dual: Vector, rho: float, own: Vector, others: Vector) -> Vector:
        """Return γ_i = ρΔ Σ_n (S_i − S_n)."""
        apart = len(self._places) * self.total - self.totals.sum(axis=0)
        return np.asarray(rho * self._step * apart).reshape(self.own.shape)

    def _state_of(self, q: Integers) -> Vector:
        return np.asarray(q * self._step).reshape(self.own.shape)

    async def _begin_round(self, round_number: int) -> None:
        """Set Δ for the round, and request a full frame from each neighbour whose last frame failed its checksum."""
        before = self._way.halvings_by(self._round) if self._round else 0
        self._halve(self._way.halvings_by(round_number) - before)
        self._step = self._way.step_in(round_number)
        self._round = round_number
        for place in sorted(self._lost):
            await self._agent.send(self._names[place], REPAIR, None)

    def _halve(self, times: int) -> None:
        if times:
            self._q, self._of = self._q << times, self._of << times
            self.total, self.totals = self.total << times, self.totals << times
            self._past <<= times

    def _listens_in(self, round_number: int) -> bool:
        listens = super()._listens_in(round_number)
        if self._began == round_number > 1:
            # Send a full frame first: no receiver can predict the state of an agent that begins late.
            self._asked = True
        return listens

    async def _say(self, state: Vector, rho: float) -> bool:
        """Broadcast the residues of q_i and, every ``sum_every`` rounds, of S_i."""
        exact = state.ravel() / self._step
        if not np.abs(exact).max(initial=0.0) < 2.0**31:
            raise BadInput(f"vector = {np.abs(state).max():g}: must be below 2**31 steps of {self._step:g}")
        q = np.floor(exact + (self._rng.random(exact.size) if self._way.dither else 0.5)).astype(np.int64)
        whole = self._asked
        coded = self._coded(q, self.total + q, whole)
        if not await self._agent.broadcast("sum", coded) and self._places:
            return False
        self.spoken += 1
        self.repairs += whole
        self._asked = False
        self._q = q
        self.own = self._state_of(q)
        self._stay(rho)
        return True

    def _coded(self, q: Integers, total: Integers, whole: bool) -> Residues:
        with_sum = whole or (self._round + len(self._places)) % self._way.sum_every == 0
        parts = [q, total] if with_sum else [q]
        if whole:
            widths = [width_of(int(np.abs(part).max())) for part in parts]
        else:
            past, totals = self._past
            widths = [width_of(int(np.abs(q - past).max()))]
            if with_sum:
                widths.append(width_of(int(np.abs(total - totals - (self._ages + 1) * past).max())))
        if max(widths) > MOST_WIDTH:
            raise BadInput(f"vector = sums of {max(widths)} bits: must need at most {MOST_WIDTH}")
        return Residues.of(parts, [max(1, widths[0]), *widths[1:]], whole=whole)

    def _stay(self, rho: float) -> None:
        self.total = self.total + self._q
        self._newest = (self._newest + 1) % self._past.shape[1]
        self._past[0, self._newest], self._past[1, self._newest] = self._q, self.total

    @property
    def _ages(self) -> Integers:
        """The number of rounds since each ring-buffer row of `_past` was written, shape (reach + 1, 1)."""
        count = self._past.shape[1]
        return np.asarray((self._newest - np.arange(count)) % count)[:, None]

    def _guess(self, rho: float) -> None:
        self.totals += self._of
        self._missed += 1

    def _take_newer(self, frame: Frame, round_number: int, rho: float) -> int | None:
        if frame.kind == REPAIR:
            self._asked = True
            return None
        return super()._take_newer(frame, round_number, rho)

    def _take(self, frame: Frame, place: int, age: int, rho: float) -> bool:
        """Decode a neighbour's frame of this round. A frame of an older round is rejected, because its Δ may differ."""
        coded = frame.payload
        if not isinstance(coded, Residues) or coded.shape not in ((1, self._q.size), (2, self._q.size)):
            raise AgentError(f"{frame!r}: its payload must be residues of {self._q.size} numbers, not {coded!r:.60}")
        if age:
            return False
        guesses = [self._of[place], self.totals[place]][: len(coded.widths)]
        found = coded.unwrapped(guesses)
        if found is None:
            self.astray += 1
            self._lost.add(place)
            return False
        self._lost.discard(place)
        if len(found) == 2:
            self.totals[place] = found[1]
        else:
            # The estimate of S_n has grown by the old q_n in every round since n's last frame. For this round it should
            # have grown by the new q_n, so the whole change of q_n is missing. It is unknown in which of the missed
            # rounds q_n changed, so on average half of the change is missing for each of them.
            moved = found[0] - guesses[0]
            if self._missed[place] > 1:
                moved = np.rint(0.5 * (self._missed[place] + 1.0) * moved).astype(np.int64)
            self.totals[place] += moved
        self._missed[place] = 0
        self._of[place] = found[0]
        return True

    def hear(self, frames: Sequence[Frame], round_number: int) -> None:
        """Apply the frames received, and then compute the copies θ̂_n = q_n Δ of all neighbours."""
        super().hear(frames, round_number)
        np.multiply(self._of, self._step, out=self.copies.table.reshape(self._of.shape))

    def _join(self, places: list[int]) -> None:
        """Set q_i and S_i to the rounded means of the received q_n and S_n.

        The q_n and S_n of each neighbour from which no frame arrived are set to the same means.
        """
        self._q = np.rint(self._of[places].mean(axis=0)).astype(np.int64)
        self.own = self._state_of(self._q)
        self.total = np.rint(self.totals[places].mean(axis=0)).astype(np.int64)
        for place in set(self._places.values()) - set(places):
            self._of[place], self.totals[place] = self._q, self.total
        # Fill the ring buffers as if q had been constant in all earlier rounds. The prediction of S from any row of the
        # buffers then equals the current S.
        self._past[0], self._past[1] = self._q, self.total - self._ages * self._q
