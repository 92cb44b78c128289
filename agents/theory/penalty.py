"""The greedy projected penalty method (Koppel, Paternain, Richard and Ribeiro 2018): where it ends.

The stochastic gradient (eq. 14) leaves out the terms c(f_i(x_j) − f_j(x_j))κ(x_j, ·), in which f_i occurs at a
neighbour's sample. So, against eq. 27, its mean is not the gradient of ψ_c. Where all agents' inputs have one
distribution, it is the gradient of ψ_{c/2}; elsewhere the method ends at another point. `penalty_radius` holds about
the point where the mean vanishes.
"""

import math


def projection_error_bound(epsilon: float, eta: float, agents: int, *, printed: bool = False) -> float:
    """Return √V ε/η, which bounds how far pruning moves the gradient, ‖∇̃ − ∇̂‖ (proposition 1).

    Each of the V agents' functions moves by at most ε. ``printed``: V ε/η (eq. 31); eq. 42 of the proof gives √V.
    """
    return epsilon / eta * (agents if printed else math.sqrt(agents))


def penalty_radius(
    eta: float, regularizer: float, parsimony: float, agents: int, second_moment: float, *, printed: bool = False
) -> float:
    """Return the radius to which the method comes: lim inf ‖f_t − f*‖ ≤ (√η/λ)(P√V + √(P²V + λσ²)) (theorem 1, eq. 55).

    f* is where the mean gradient vanishes, ε = P·η^{3/2}.

    Parameters
    ----------
    eta, regularizer, parsimony : float
        η, λ and P.
    agents : int
        V.
    second_moment : float
        σ², the mean of ‖∇̃‖² = ‖f_{t+1} − f_t‖²/η² over all agents together.
    printed : bool
        Take V for √V, as printed.
    """
    pruned = parsimony * (agents if printed else math.sqrt(agents))
    return math.sqrt(eta) / regularizer * (pruned + math.sqrt(pruned**2 + regularizer * second_moment))


def disagreement_bound(risk: float, c: float, penalised_risk: float = 0.0) -> float:
    """Return (R(f*) − R(f_c*))/c ≥ ½ Σ_i Σ_j E(f_i − f_j)² of the minimiser f_c* of ψ_c (proposition 2, eq. 35).

    ``risk`` is R of the best common f*, regularised; ``penalised_risk`` is R(f_c*), without the penalty. The algorithm
    ends elsewhere, and is only within ``risk``/c.
    """
    return (risk - penalised_risk) / c


def dictionary_separation(epsilon: float, eta: float, slope: float) -> float:
    """Return ε/(η·slope): a point κ(x, ·) stays only if it is that far from the span of the others (corollary 2).

    ``slope`` bounds |ℓ'(f_i(x), y) + c Σ_j (f_i(x) − f_j(x))|. The number of points is finite, because only so many fit
    into a bounded set of inputs; it is 10⁴ and more where a run keeps 12.
    """
    return epsilon / (eta * slope)
