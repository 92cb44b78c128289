"""The exchange of states between neighbours, for the methods derived from `SharingAgent`.

θ̂_i is the state that agent i last broadcast. Agent i stores θ̂_i, and a copy of θ̂_n for each neighbour n. A censored
round leaves θ̂_i unchanged. A broadcast carries either the state or the encoded change Q(h) with h = θ_i − θ̂_i. In the
second case both ends add the decoded value to θ̂_i, so the copies differ from θ̂_i once a link has lost a frame.
Duplicates do no harm, because only one frame per neighbour and round is used.

If no link accepts a broadcast (budget exceeded, queue full, all links cut), θ̂_i stays equal to the neighbours' copies,
and the next broadcast includes this change. If only some links accept the broadcast, the neighbours on the other links
lose a frame.
"""

import bisect
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
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
"""The kind of message that carries a full state (key frame) where other messages carry coded changes."""

_KEPT = 64  # `Repairs` stores at least this many received states per neighbour, so that late states can be inserted.


class Sharing:
    """Sends one agent's state to its neighbours, and stores copies of the neighbours' states.

    Parameters
    ----------
    agent : netsim.Agent
        The agent whose state is shared; must be running.
    size : int or tuple of int
        Length D of the state, or its shape if it is a matrix.
    censor : Censor, optional
        Decides whether a change is broadcast; default: always.
    coder : netsim.coders.Coder, optional
        Encodes changes or, if it is precise enough (``whole``), states. By default the state is sent unencoded. The
        memory of a coder such as `ErrorFeedback` is initially empty.
    coded_start : bool
        Whether every θ̂ starts as Q(0), the decoded value of encoded zeros, instead of 0, as in algorithms 4 and 5 of
        P. Xu's dissertation. For a coder with a fixed range [−v, v), every element of Q(0) is half a quantization step,
        Δ/2. All agents must use the same coder and the same ``coded_start``, because Q(0) is not transmitted.

    Attributes
    ----------
    own : ndarray
        The state θ̂_i last broadcast, initially zeros (or Q(0)). Replaced by a new array whenever it changes.
    copies : netsim.core.Copies
        The copies of θ̂_n by neighbour, modified in place. Their initial value is that of ``own``.
    spoken : int
        The number of broadcasts accepted by at least one link.
    only_present : bool
        Whether `known` is True only for neighbours from which a frame arrived in the last round; initially False.
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
            # The seed is fixed because all agents must compute the same start.
            self._start = coder.decode(coder.fresh().encode(self._start, np.random.default_rng(0)))
        self.own = self._start
        self.copies = Copies(agent.neighbors, self.own.shape, self._start)
        self.spoken = 0
        self.only_present = False
        # Whether the censor may have suppressed all of a neighbour's broadcasts so far.
        self._may_be_censored = may_silence(self._censor, 1)
        self._sends_changes = self.hears_changes = not coder.whole
        self._present: set[Hashable] = set()
        # The weights of all neighbours and their total, cached once a frame from each neighbour has arrived.
        self._weights: tuple[Vector, float] | None = None
        self._kind = "change" if self._sends_changes else "state"
        reliability = agent.reliability
        self._key_every = reliability.every if reliability.way == "keyframe" else 0
        # With "nack" a receiver requests a lost frame again, so the frame arrives in a later round.
        self._repairs = Repairs(self.copies, self._start, reliability.window) if reliability.way == "nack" else None

    def is_of_this_run(self) -> bool:
        """Return whether this object was created in the agent's current run, not in an earlier one."""
        return self._rng is self._agent.rng

    async def say(self, state: Vector, round_number: int) -> None:
        """Broadcast ``state`` unless it is censored. The caller must not change ``state`` in place afterwards."""
        change = state - self.own
        is_key = self._is_key(round_number)
        if self._censor.speaks(change.ravel(), state.ravel(), round_number, self._rng) or is_key:
            whole = is_key and self._sends_changes
            coded, known = (state, state) if whole else self._code(state, change)
            self._said(state, known, await self._agent.broadcast(KEY if whole else self._kind, coded))
        self._may_be_censored = self._may_be_censored and may_silence(self._censor, round_number)

    def _said(self, state: Vector, known: Vector, links: int) -> None:
        """Set θ̂_i to ``known``, the state that receivers decode, if ``links`` > 0 links accepted the broadcast."""
        # If no link accepts the broadcast, no neighbour receives it, so θ̂_i must not change. Without neighbours there
        # is no link that could refuse it, so it counts as accepted.
        if links or not len(self.copies):
            # The coder may have returned the state array itself, which the agent may modify later: so copy it.
            self.own = known.copy() if known is state else known
            self.spoken += 1

    def hear(self, frames: Sequence[Frame], round_number: int) -> None:
        """Apply received frames to the copies.

        Raises AgentError if a payload is not of the expected kind, or a sender is not a neighbour.
        """
        if self.only_present:
            self._present = {frame.sender for frame in frames}
        if self._repairs is not None:
            self._repairs.take_in(frames, round_number, add=self.hears_changes)
        elif self._key_every and self.hears_changes:
            self.copies.take_in([frame for frame in frames if frame.kind != KEY], add=True)
            self.copies.take_in([frame for frame in frames if frame.kind == KEY])
        else:
            self.copies.take_in(frames, add=self.hears_changes)

    def _is_key(self, round_number: int) -> bool:
        """Return whether this is a key-frame round, in which all agents send full states."""
        return bool(self._key_every) and round_number % self._key_every == 0

    def _code(self, state: Vector, change: Vector) -> tuple[Encoded, Vector]:
        """Return the encoded payload and the θ̂_i that a receiver decodes from it."""
        if self._sends_changes:
            coded = self._coder.encode(change, self._rng)
            return coded, self.own + self._coder.decode(coded)
        coded = self._coder.encode(state, self._rng)
        return coded, self._coder.decode(coded)

    def heard(self, neighbor: Hashable) -> bool:
        """Return whether any frame from this neighbour was ever received."""
        return self.copies.heard(neighbor) if self._repairs is None else self._repairs.heard(neighbor)

    def known(self, neighbor: Hashable) -> bool:
        """Return whether the copy of neighbour n's θ̂_n is valid.

        With `only_present`, the copy is valid only if a frame from n arrived in the last round. Otherwise the copy is
        valid once any frame from n has arrived. Before that, it has its initial value, and is valid as long as the
        censor may have suppressed all broadcasts of n. (All agents are assumed to use the same censor.) After a round
        in which the censor cannot have suppressed a broadcast, θ̂_n is unknown, because a frame from n was lost or
        refused. A receiver cannot do better: with a threshold censor, it cannot distinguish a lost first frame from a
        censored one.
        """
        if self.only_present:
            return neighbor in self._present
        return self._may_be_censored or self.heard(neighbor)

    def add_known(self, start: Vector, total: float, weights: Mapping[Any, float]) -> tuple[Vector, float]:
        """Return start + Σ_n w_n θ̂_n and total + Σ_n w_n over the neighbours n whose copy of θ̂_n is valid (`known`).

        The terms are added one by one, in the order of the neighbours. ``weights`` maps a neighbour's name to w_n.
        ``total`` and ``weights`` must be the same in every call, because total + Σ_n w_n is cached.
        """
        if self._weights is not None:
            row, total = self._weights
            return add_weighted_rows(start, row, self.copies.table), total
        names = [name for name, _ in self.copies.items()]
        believed = [place for place, name in enumerate(names) if self.known(name)]
        row = np.array([weights[names[place]] for place in believed])
        # Not sum(), which rounds differently from Python 3.12 on.
        for weight in row.tolist():
            total += weight
        if not self.only_present and all(self.heard(name) for name in names):
            # Once a frame from n has arrived, the copy of θ̂_n stays valid, so row and total cannot change any more.
            self._weights = row, total
        return add_weighted_rows(start, row, self.copies.table[believed]), total

    def sum_of_copies(self) -> Vector:
        """Return Σ_n θ̂_n from this agent's copies."""
        return self.copies.sum()

    def next_dual(self, dual: Vector, rho: float, own: Vector, others: Vector) -> Vector:
        """Return the dual γ_i of an ADMM method after a round: γ_i + ρ Σ_n (θ̂_i − θ̂_n).

        ``own`` is Σ_n θ̂_i and ``others`` is Σ_n θ̂_n, both over the neighbours n. The result includes corrections for
        frames that arrived late (`Repairs`). Subclasses that compute the dual in another way override this method (see
        `netsim.agents.consensus.duals`).
        """
        result = add_scaled_difference(dual, rho, own, others)
        if self._repairs is not None:
            for penalty, owed in self._repairs.owed(rho):
                result = result - penalty * owed
        return result


class Penalties:
    """The penalty ρ of each round so far. A late frame requires corrections with the ρ of earlier rounds.

    A round without a record has the ρ of the last recorded round before it or, if there is none, the first ρ recorded.
    """

    def __init__(self) -> None:
        # The rounds at which ρ changed.
        self._rounds: list[int] = []
        # The value of ρ from each of these rounds on.
        self._values: list[float] = []

    def note(self, round_number: int, rho: float) -> None:
        """Record the penalty of a round; must be called in the order of the rounds."""
        if not self._values or self._values[-1] != rho:
            self._rounds.append(round_number)
            self._values.append(rho)

    def spans(self, first: int, until: int) -> Iterator[tuple[int, float | None]]:
        """Divide the rounds ``first`` … ``until`` − 1 into spans of equal penalty; yield (number of rounds, penalty).

        The penalty is None if no penalty is recorded.
        """
        place = max(bisect.bisect_right(self._rounds, first) - 1, 0)
        while first < until:
            end = min(until, self._rounds[place + 1]) if place + 1 < len(self._rounds) else until
            yield end - first, self._values[place] if self._values else None
            first, place = end, place + 1


class Repairs:
    """Applies frames to the copies in any order, and adds up the corrections that late frames require in the duals.

    The agent stores a copy of θ̂_n for each neighbour n, initially ``start``. The dual depends on Σ_j ρ_j θ̂_n over all
    rounds j. Suppose that neighbour n broadcast a state in round r, and that it arrives only in round k. In the rounds
    r … k − 1 the agent has used an older state of n. So for each of these rounds j the sum lacks ρ_j times the
    difference of the two states. If frames carry whole states, and a state from a round r' between r and k has already
    arrived, only the rounds r … r' − 1 need the correction. A sender can retransmit its last ``window`` frames, so the
    agent stores more than ``window`` received states of each neighbour.
    """

    def __init__(self, copies: Copies, start: Vector, window: int = _KEPT) -> None:
        self._copies = copies
        self._start = start
        self._kept = max(_KEPT, window + 1)
        # For each neighbour, (round, state or change) of the frames received, in order of rounds.
        self._known: dict[Hashable, list[tuple[int, Vector]]] = {}
        self._penalties = Penalties()
        self._round = 0
        # {penalty ρ: missing sum}; `owed` defines the missing sum. The key is None if a late frame arrives before any
        # penalty is recorded; `owed` then uses the current penalty.
        self._owed: dict[float | None, Vector] = {}

    def heard(self, neighbor: Hashable) -> bool:
        """Return whether any frame from this neighbour was ever received."""
        return neighbor in self._known

    def owed(self, rho: float) -> Iterator[tuple[float, Vector]]:
        """Yield (penalty ρ, missing sum) for each penalty, and reset the missing sums; ``rho`` is the current penalty.

        The missing sum of ρ is the sum, over the neighbours n and the rounds with this ρ, of the difference between the
        θ̂_n that n had broadcast and the older θ̂_n that the agent used. The caller must subtract every ρ × missing sum
        from the dual.
        """
        self._penalties.note(self._round, rho)
        owed, self._owed = self._owed, {}
        for penalty, missing in owed.items():
            yield rho if penalty is None else penalty, missing

    def take_in(self, frames: Iterable[Frame], round_number: int, *, add: bool) -> None:
        """Apply received frames to the copies, and record the corrections that late frames require.

        If ``add``, frames carry changes, and each change is added to its sender's copy. Otherwise frames carry states,
        and the newest state becomes its sender's copy.
        """
        self._round = round_number
        for frame in frames:
            number = frame.round or round_number
            known = self._known.setdefault(frame.sender, [])
            # Most frames are newer than all frames received before; only a late frame's position must be searched.
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
            for rounds, rho in self._penalties.spans(number, min(until, round_number)):
                self._owed[rho] = self._owed.get(rho, 0.0) + rounds * missing
            known.insert(place, (number, value))
            del known[: -self._kept]
