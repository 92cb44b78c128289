"""What neighbours know of one another: written once, for every algorithm that shares a state.

θ̂_i is the state that agent i last broadcast. Agent i keeps its own θ̂_i, and a copy of θ̂_n for each neighbour n. A
censored round leaves θ̂_i as it is; a broadcast carries either the state itself, or, through a coder, the coded change
Q(h) of h = θ_i − θ̂_i, and both ends add what was decoded. On a link that loses frames the copies fall behind. On one
that delivers some twice they do not: one frame of a neighbour and round counts.

A broadcast that no link takes (over its budget, its queue full, every link cut) changes nothing: θ̂_i stays what the
neighbours know, and the next change contains this one. One that some links take and others do not is, to the neighbours
behind the others, a lost frame.
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

import netsim
from netsim import Frame
from netsim.agents.consensus.censor import Always, Censor, may_silence
from netsim.coders import Coder, Encoded, Exact
from netsim.core import Copies, add_scaled_difference, add_weighted_rows
from netsim.core.copies import as_state
from netsim.util.typing import Vector

KEY = "key"
"""The kind of message that holds a state whole where others hold coded changes."""

_KEPT = 64  # states of a neighbour that a late frame may belong between


class Sharing:
    """One agent's end of the sharing.

    Parameters
    ----------
    agent : netsim.Agent
        Whose state it is; must be running.
    size : int or tuple of int
        Length D of the state, or the shape of a state that is a matrix.
    censor : Censor, optional
        Decides whether a change is broadcast; default: always.
    coder : netsim.coders.Coder, optional
        Codes changes, or, if it is precise enough (``whole``), states; default: the state travels as it is.
        One with a memory begins anew.
    coded_start : bool
        Every θ̂ begins as Q(0), what the coder makes of zeros, as in algorithms 4 and 5 of P. Xu's dissertation, not as
        0. The two differ where the range is fixed: on [−v, v) Q(0) is half a cell, Δ/2, in every element. All agents
        must have the same coder, and the same choice; nothing is sent for it.

    Attributes
    ----------
    own : ndarray of that shape
        θ̂_i, all zeros at first (or Q(0)). Replaced by a new array whenever it changes.
    copies : netsim.core.Copies
        The copies of θ̂_n by neighbour; at first as ``own``. Changed in place.
    spoken : int
        How often the agent broadcast, without broadcasts that no link took.
    only_present : bool
        Whether only neighbours that were heard in the last round are believed; False at first.
    """

    def __init__(
        self,
        agent: netsim.Agent,
        size: int | tuple[int, ...],
        censor: Censor = Always(),
        coder: Coder = Exact(),
        *,
        coded_start: bool = False,
    ) -> None:
        self._agent = agent
        self._censor = censor
        self._coder = coder.fresh()
        self._rng = agent.rng
        self._start: Vector = np.zeros(size)
        if coded_start:
            # Not with the agent's own generator: all agents must find the same.
            self._start = coder.decode(coder.fresh().encode(self._start, np.random.default_rng(0)))
        self.own = self._start
        self.copies = Copies(agent.neighbors, self.own.shape, self._start)
        self.spoken = 0
        self.only_present = False
        # Whether a neighbour may have been silent in every round so far.
        self._silence = may_silence(self._censor, 1)
        self._adds = not coder.whole
        self._present: set[Hashable] = set()
        # The weights of all neighbours and what they come to, once all were heard.
        self._weights: tuple[Vector, float] | None = None
        self._kind = "change" if self._adds else "state"
        reliability = agent.reliability
        self._key_every = reliability.every if reliability.way == "keyframe" else 0
        # What is asked for comes in a later round.
        self._repairs = Repairs(self.copies, self._start) if reliability.way == "nack" else None

    def is_of_this_run(self) -> bool:
        """Return whether it was made in the run that the agent is in; not so if both are copies of what ran before."""
        return self._rng is self._agent.rng

    async def share(self, state: Vector, round_number: int) -> None:
        """Broadcast ``state`` unless it is censored; wait for the round to close, and `hear`.

        ``state`` must not be changed in place afterwards.
        """
        await self.say(state, round_number)
        self.hear(await self._agent.collect(), round_number)

    async def say(self, state: Vector, round_number: int) -> None:
        """Broadcast ``state`` unless it is censored; it must not be changed in place afterwards."""
        change = state - self.own
        is_key = self._is_key(round_number)
        if self._censor.speaks(change.ravel(), state.ravel(), round_number, self._rng) or is_key:
            whole = is_key and self._adds
            coded, known = (state, state) if whole else self._code(state, change)
            links = await self._agent.broadcast(KEY if whole else self._kind, coded)
            # Without neighbours there is no link that could refuse it. If no link takes it, no neighbour knows of it.
            if links or not len(self.copies):
                # A copy, for the coder may have given the state itself, which its method may go on to change.
                self.own = known.copy() if known is state else known
                self.spoken += 1
        self._silence = self._silence and may_silence(self._censor, round_number)

    def hear(self, frames: Sequence[Frame], round_number: int) -> None:
        """Take in what was heard; raises AgentError for a payload of another kind, or a sender that is no neighbour."""
        if self.only_present:
            self._present = {frame.sender for frame in frames}
        if self._repairs is not None:
            self._repairs.take_in(frames, round_number, add=self._adds)
        elif self._key_every and self._adds:
            self.copies.take_in([frame for frame in frames if frame.kind == self._kind], add=True)
            self.copies.take_in([frame for frame in frames if frame.kind == KEY])
        else:
            self.copies.take_in(frames, add=self._adds)

    def _is_key(self, round_number: int) -> bool:
        """Return whether all agents send their states whole in this round."""
        return bool(self._key_every) and round_number % self._key_every == 0

    def _code(self, state: Vector, change: Vector) -> tuple[Encoded, Vector]:
        """Return what is sent, and the θ̂_i that a receiver then knows."""
        if self._adds:
            coded = self._coder.encode(change, self._rng)
            return coded, self.own + self._coder.decode(coded)
        coded = self._coder.encode(state, self._rng)
        return coded, self._coder.decode(coded)

    def heard(self, neighbor: Hashable) -> bool:
        """Return whether a neighbour was ever heard."""
        return self.copies.heard(neighbor) if self._repairs is None else self._repairs.heard(neighbor)

    def known(self, neighbor: Hashable) -> bool:
        """Return whether the copy of θ̂_n is to be believed: n was heard, or the censor may have kept it silent so far.

        All agents are taken to have the same censor. Then a neighbour that never broke its silence still has the θ̂_n
        that all began with. Without a censor, or once a round has passed in which the censor silences no agent, not to
        have heard n means that its frames were lost (or refused), and its θ̂_n is not known. This is as far as a
        receiver can tell: under a threshold a first frame that was lost looks like silence, until another one comes.
        """
        if self.only_present:
            return neighbor in self._present
        return self._silence or self.heard(neighbor)

    def add_known(self, start: Vector, total: float, weights: Mapping[Any, float]) -> tuple[Vector, float]:
        """Return start + Σ_n w_n θ̂_n and total + Σ_n w_n, over the neighbours whose θ̂_n is to be believed (`known`).

        Added one after the other, in the neighbours' order. ``total`` and ``weights``, by name, are always the same.
        """
        if self._weights is not None:
            row, total = self._weights
            return add_weighted_rows(start, row, self.copies.table), total
        names = [name for name, _ in self.copies.items()]
        believed = [place for place, name in enumerate(names) if self.known(name)]
        row = np.array([weights[names[place]] for place in believed])
        # Not by sum(), which rounds in another way from Python 3.12 on.
        for weight in row.tolist():
            total += weight
        if not self.only_present and all(self.heard(name) for name in names):
            # Who was heard once is always known.
            self._weights = row, total
        return add_weighted_rows(start, row, self.copies.table[believed]), total

    def sum_of_copies(self) -> Vector:
        """Return Σ_n θ̂_n as known here."""
        return self.copies.sum()

    def next_dual(self, dual: Vector, rho: float, own: Vector, others: Vector) -> Vector:
        """Return the dual γ_i of an ADMM method after a round: γ_i + ρ Σ_n (θ̂_i − θ̂_n).

        ``own`` is Σ_n θ̂_i, ``others`` Σ_n θ̂_n over the neighbours n. For one that keeps its duals in another way see
        `netsim.agents.consensus.duals`.
        """
        result = add_scaled_difference(dual, rho, own, others)
        return result if self._repairs is None else result - rho * self._repairs.owed()


class Repairs:
    """Takes frames into the copies in whatever order they come, and adds up what the duals missed.

    Every θ̂ begins with ``start``. A state that n broadcast in round r and that comes in round k has in rounds r … k −
    1, or until n's next broadcast that was heard, been taken for the one before. To the sum Σ_k θ̂_n, of which the dual
    is made, that is the difference as often as it was missing.
    """

    def __init__(self, copies: Copies, start: Vector) -> None:
        self._copies = copies
        self._start = start
        # By neighbour: rounds in order, and the states (or changes) heard of them.
        self._known: dict[Hashable, list[tuple[int, Vector]]] = {}
        self._owed: Vector = np.zeros_like(start)

    def heard(self, neighbor: Hashable) -> bool:
        """Return whether a neighbour was ever heard."""
        return neighbor in self._known

    def owed(self) -> Vector:
        """Return Σ_n Σ_k of what was missing of θ̂_n, and forget it."""
        owed, self._owed = self._owed, np.zeros_like(self._start)
        return owed

    def take_in(self, frames: Iterable[Frame], round_number: int, *, add: bool) -> None:
        """Take in states, or changes to add; those of this round as ever, the late ones in their place."""
        for frame in frames:
            number = frame.round or round_number
            known = self._known.setdefault(frame.sender, [])
            # Most come in their order, and need no looking for their place.
            is_late = bool(known) and number <= known[-1][0]
            if is_late and any(number == each for each, _ in known):
                continue
            value = np.array(as_state(frame, self._start.shape), dtype=np.float64)
            place = sum(each < number for each, _ in known) if is_late else len(known)
            if add:
                missing, until = value, round_number
                self._copies[frame.sender][...] += value
            else:
                before = known[place - 1][1] if place else self._start
                until = known[place][0] if place < len(known) else round_number
                missing = value - before
                if place == len(known):
                    self._copies[frame.sender][...] = value
            self._owed += max(0, min(until, round_number) - number) * missing
            known.insert(place, (number, value))
            del known[:-_KEPT]
