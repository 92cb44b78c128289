"""The settings of a link (latency, loss, rate, budget, MTU, reliability); a link is ideal by default."""

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal

from netsim.errors import BadInput
from netsim.links import latency as latencies
from netsim.links import loss as losses
from netsim.links import reliability as reliabilities
from netsim.links.latency import Correlated, Latency, TracedDelays
from netsim.links.loss import Bernoulli, Loss
from netsim.links.rate import Rate
from netsim.links.reliability import Reliability
from netsim.util import check

# Limit of a fragment's header bits, so that the ledger's sums of bits do not overflow 64-bit integers.
_MOST_HEADER_BITS = 2**31 - 1


@check.named
@dataclass(frozen=True)
class Budget:
    """Limit of the bits sent per second or per round; a frame that exceeds the limit is refused or waits.

    Parameters
    ----------
    bits : float
        Bits per round, or per second.
    per : {"round", "second"}
        "round": each round allows ``bits`` bits, and unused bits expire. "second": a token bucket gains ``bits`` bits
        per second, so that at most ``burst`` + ``bits``·t bits are sent in any t seconds.
    over : {"refuse", "wait"}
        Whether a frame that does not fit is refused or waits. A frame larger than the whole budget (or burst) is always
        refused.
    burst : float, optional
        Only for "second": the size of the bucket in bits, which is full at first. Default: ``bits``, the bits of one
        second.
    """

    bits: float
    per: Literal["round", "second"] = "round"
    over: Literal["refuse", "wait"] = "refuse"
    burst: float | None = None

    def __post_init__(self) -> None:
        check.put(self, bits=check.finite("budget", self.bits, above=0))
        check.fields(self, check.one_of, "per", allowed=("round", "second"))
        check.fields(self, check.one_of, "over", allowed=("refuse", "wait"))
        check.fields(self, check.finite, "burst", above=0, optional=True)
        if self.burst is not None and self.per == "round":
            raise BadInput(f"burst = {self.burst:g}: must be None for a budget per round")


@check.named
@dataclass(frozen=True, kw_only=True)
class Link:
    """Settings of a directed link; without arguments the link is ideal.

    Parameters
    ----------
    latency : float or Latency
        Propagation time in seconds, or a model of `netsim.links.latency`.
    loss : float or Loss
        Probability of an independent loss of each fragment, or a model of `netsim.links.loss`.
    rate : float or Rate, optional
        Bits per second, or a model of `netsim.links.rate`. Frames are sent one at a time, and later frames wait. None:
        sending takes no time.
    queue : int, optional
        Maximum number of frames that wait at the sender, including the frame being sent; further frames are dropped.
        None: no limit.
    queue_bits : int, optional
        Maximum total bits of the frames that wait at the sender; a frame that would exceed this limit is dropped. None:
        no limit.
    budget : float or Budget, optional
        A `Budget`, or the number of bits that may be sent per round; frames that exceed this number are refused.
    mtu : int, optional
        The maximum number of a frame's bytes in a fragment. If a fragment is lost, its frame is lost. None: no
        fragmentation.
    header_bits : int
        Bits that the link adds to each fragment.
    duplicate : float
        Probability that an arriving frame arrives twice.
    corrupt : float
        Probability that one bit of an arriving frame is flipped.
    crc : bool
        Whether corrupted frames are detected and dropped. If not, a corrupted frame is delivered, unless its bytes no
        longer decode to a frame of this sender.
    fifo : bool
        Whether frames keep their order, so that no frame overtakes an earlier frame of the same link.
    reliability : str or Reliability
        How lost frames are recovered: "none", "ack", "nack" or "keyframe" (`netsim.links.Reliability`). It must be the
        same for all links of a network.
    loss_bits : int, optional
        Only on a `netsim.Radio`: the frame length in bits, including headers, to which the loss probability p refers. A
        frame of b bits then arrives with probability (1 − p)^(b/loss_bits), as if bit errors were independent. None: p
        applies to frames of any length.

    Raises
    ------
    BadInput
        If a value is outside its range.
    """

    latency: float | Latency = 0.0
    loss: float | Loss = 0.0
    rate: float | Rate | None = None
    queue: int | None = None
    queue_bits: int | None = None
    budget: float | Budget | None = None
    mtu: int | None = None
    header_bits: int = 0
    duplicate: float = 0.0
    corrupt: float = 0.0
    crc: bool = True
    fifo: bool = False
    reliability: str | Reliability = "none"
    loss_bits: int | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        for name in ("latency", "loss", "rate", "budget", "reliability"):
            check.called(name, getattr(self, name))
        check.put(self, latency=latencies.of(self.latency), loss=losses.of(self.loss))
        if self.rate is not None and not isinstance(self.rate, Rate):
            check.put(self, rate=check.finite("rate", self.rate, above=0))
        check.fields(self, check.integer, "queue", "queue_bits", "mtu", "loss_bits", low=1, optional=True)
        for name in ("queue", "queue_bits"):
            if getattr(self, name) is not None and self.rate is None and self.budget is None:
                given = f"{name} = {getattr(self, name)}"
                raise BadInput(f"{given}: must come with a rate or a budget, or nothing ever waits")
        if self.budget is not None and not isinstance(self.budget, Budget):
            check.put(self, budget=Budget(self.budget))
        check.fields(self, check.integer, "header_bits", low=0, high=_MOST_HEADER_BITS)
        check.fields(self, check.probability, "duplicate", "corrupt")
        check.put(self, reliability=reliabilities.of(self.reliability))
        check.fields(self, check.flag, "crc", "fifo")

    def with_loss(self, loss: float | Loss) -> "Link":
        """Return the same settings with another loss; faster than `dataclasses.replace`, which checks all settings.

        Raises
        ------
        BadInput
            If ``loss`` is neither a probability nor a loss model.
        """
        check.called("loss", loss)
        loss = losses.of(loss)
        if type(self) is not Link:
            return replace(self, loss=loss)
        link = object.__new__(Link)
        for name in self.__dataclass_fields__:
            object.__setattr__(link, name, getattr(self, name) if name != "loss" else loss)
        return link

    @cached_property
    def has_port(self) -> bool:
        """Whether frames may wait, be refused or be fragmented before they leave."""
        return self.rate is not None or self.budget is not None or self.mtu is not None

    @cached_property
    def is_simple(self) -> bool:
        """Whether a frame's loss and latency do not depend on other frames, so that frames can be drawn in batches."""
        fixed_order = not self.fifo or self.latency_model.fixed is not None
        remembers = not isinstance(self.loss, Bernoulli) or isinstance(self.latency, Correlated)
        return fixed_order and not (remembers or self.duplicate or self.corrupt)

    @property
    def latency_model(self) -> Latency:
        """The latency model; `__post_init__` has converted a number to a model."""
        assert not isinstance(self.latency, float | int)
        return self.latency

    @property
    def least_latency(self) -> float:
        """A lower bound (s) of the delays; 0 if no attribute of the latency model gives a bound."""
        model = self.latency_model
        if isinstance(model, TracedDelays):
            return float(model.values.min())
        bounds = (getattr(model, name, None) for name in ("fixed", "low", "minimum"))
        return next((float(bound) for bound in bounds if bound is not None), 0.0)

    @property
    def loss_model(self) -> Loss:
        """The loss model; `__post_init__` has converted a number to a model."""
        assert not isinstance(self.loss, float | int)
        return self.loss

    @property
    def reliability_model(self) -> Reliability:
        """The reliability object; `__post_init__` has converted a name to an object."""
        assert isinstance(self.reliability, Reliability)
        return self.reliability

    @property
    def budget_model(self) -> Budget:
        """The budget object; `__post_init__` has converted a number to an object. The link must have a budget."""
        assert isinstance(self.budget, Budget)
        return self.budget
