"""Online and dynamic methods: in each round an agent predicts one sample, and then learns from it.

Chapter 3 of P. Xu's dissertation describes RFF-DOKL (diffusion; Bouboulis et al. 2018), DOKL (online ADMM), ODKLA
(linearised ADMM) and QC-ODKLA, which is ODKLA with a censor and a quantizer. Chapter 4 describes DDKL, for streams with
a moving target, and DDKL with a censor (CoDDKL), a quantizer (QDDKL), or both (QC-DDKL). Each class supports any censor
and any coder, so the variants need no separate classes. QC-ODKLA is `ODKLA` with `censor=Geometric(…)` and
`coder=Uniform(…)`; QC-DDKL is `DDKL` with `censor=PowerLaw(…)` and a coder. In the dissertation QC-ODKLA and QC-DDKL
have `coded_start=True`.

The cost of agent i in round t is L_i,t(θ) = ℓ(θᵀφ(x_i,t), y_i,t) + (λ/N)‖θ‖².
"""

from dataclasses import KW_ONLY, dataclass

from netsim.agents import papers
from netsim.agents.consensus.base import Diffusion, Dual, asks, check_cost
from netsim.agents.consensus.shared_rounds import compiled_steps
from netsim.agents.costs.stream import StreamCost
from netsim.agents.schedule import Scheduled
from netsim.agents.theory import online
from netsim.util import check
from netsim.util.typing import Array


@dataclass(eq=False, repr=False)
class RFFDOKL(Diffusion):
    """Diffusion: ψ_i = Σ_n w_in θ_n, θ_i = ψ_i − η ∇L_i,t(ψ_i) (Bouboulis et al. 2018; dissertation §3.5).

    Parameters
    ----------
    cost : StreamCost
        The agent's stream and loss, which define the cost L_i,t of round t.
    count, eta, weights, censor, coder
        As in `Diffusion`.
    """

    paper = papers.BOUBOULIS
    cost: StreamCost

    @asks("draw", "gradient")
    def local_step(self) -> Array:
        """Return ψ_i − η ∇L_i,t(ψ_i)."""
        self.cost.draw(self.theta)
        psi = self.combined()
        return psi - self.eta * self.cost.gradient(psi)

    # The new θ_i of all agents, if all have squared losses with scalar targets.
    local_steps = compiled_steps("diffusion_steps")


@dataclass(eq=False, repr=False)
class ODKLA(Dual):
    """Linearised online ADMM (dissertation 3.17, 3.18; with censor and coder 3.22, 3.23).

    θ_i ← θ_i − [∇L_i,t(θ_i) + ρ Σ_n (θ̂_i − θ̂_n) + γ_i]/(η + 2ρd_i);  γ_i ← γ_i + ρ Σ_n (θ̂_i − θ̂_n).

    Parameters
    ----------
    cost : StreamCost
        The agent's stream and loss, which define the cost L_i,t of round t.
    eta : float or schedule
        Weight η > 0 of the proximal term: a larger η shortens the step.
    coded_start : bool
        Whether θ̂ starts as Q(θ_1) = Q(0) instead of 0, as in the dissertation's algorithms 4 and 5 (QC-ODKLA and
        QC-DDKL). For a coder with a fixed range Q(0) is not 0 (see `Sharing`). The models of DDKL then depend on the
        start from the first round on. ODKLA uses only the differences θ̂_i − θ̂_n, which are initially 0, so its models
        depend on the start only after the first coded change.
    count, rho, censor, coder
        As in `Dual`.
    """

    paper = papers.DISSERTATION
    theorems = (online.Regret(), online.CopyError())
    cost: StreamCost
    _: KW_ONLY
    # η = 0 is not allowed: the divisor η + 2ρd_i would be 0 for an agent without neighbours (d_i = 0).
    eta: Scheduled = Scheduled(above=0.0)

    @asks("draw", "gradient")
    def local_step(self) -> Array:
        """Return θ_i − [∇L_i,t(θ_i) + ρ Σ_n (θ̂_i − θ̂_n) + γ_i]/(η + 2ρd_i)."""
        self.cost.draw(self.theta)
        step = self.cost.gradient(self.theta) + self.pull_to_difference()
        return self.theta - step / (self.eta + 2.0 * self.rho * self.degree)

    # The new θ_i of all agents, if all have squared losses with scalar targets.
    local_steps = compiled_steps("linearised_steps")


@dataclass(eq=False, repr=False)
class DOKL(Dual):
    """Online ADMM (dissertation §3.5 and its reference 109).

    θ_i ← argmin L_i,t(θ) + (η/2)‖θ − θ_i‖² + ρd_i‖θ‖² + θᵀ[γ_i − ρ Σ_n (θ̂_i + θ̂_n)];  γ_i as in `ODKLA`.
    The other parameters are those of `ODKLA`, except that η may be 0.

    Parameters
    ----------
    solve : {"rank-one", "dense"}
        How the minimum is computed. "rank-one" takes O(D) operations. "dense", for squared losses only, solves a D × D
        system, as for the running times in the dissertation's table 3.1. Both give the same models up to rounding.
    """

    paper = papers.DISSERTATION
    theorems = (online.CopyError(),)
    cost: StreamCost
    _: KW_ONLY
    eta: Scheduled = Scheduled(low=0.0)
    solve: str = "rank-one"

    def __post_init__(self) -> None:
        super().__post_init__()
        if check.one_of("solve", self.solve, ("rank-one", "dense")) == "dense":
            check_cost(type(self), self.cost, "dense_argmin")

    @asks("draw", "argmin")
    def local_step(self) -> Array:
        """Return argmin L_i,t(θ) + (η/2)‖θ − θ_i‖² + ρd_i‖θ‖² + θᵀ[γ_i − ρ Σ_n (θ̂_i + θ̂_n)]."""
        self.cost.draw(self.theta)
        argmin = self.cost.argmin if self.solve == "rank-one" else self.cost.dense_argmin
        return argmin(self.eta / 2.0 + self.rho * self.degree, self.pull_to_sum() - self.eta * self.theta)

    # The new θ_i of all agents, if all have squared losses with scalar targets and solve = "rank-one".
    local_steps = compiled_steps("proximal_steps")


@dataclass(eq=False, repr=False)
class DDKL(Dual):
    """Dynamic ADMM (dissertation 4.11, 4.12; with censor and coder 4.16, 4.17): `DOKL` without memory (η = 0).

    θ_i ← argmin L_i,t(θ) + ρd_i‖θ‖² + θᵀ[γ_i − ρ Σ_n (θ̂_i + θ̂_n)];  γ_i as in `ODKLA`.
    The parameters are those of `ODKLA`, without η.
    """

    paper = papers.DISSERTATION
    theorems = (online.CopyError(),)
    cost: StreamCost

    @asks("draw", "argmin")
    def local_step(self) -> Array:
        """Return argmin L_i,t(θ) + ρd_i‖θ‖² + θᵀ[γ_i − ρ Σ_n (θ̂_i + θ̂_n)]."""
        self.cost.draw(self.theta)
        return self.cost.argmin(self.rho * self.degree, self.pull_to_sum())

    # The new θ_i of all agents, if all have squared losses with scalar targets.
    local_steps = compiled_steps("dynamic_steps")
