"""Diffusion with momentum: `netsim run coke --method docs/examples/mine.py` draws it beside COKE."""

from netsim.agents import Diffusion


class Momentum(Diffusion):
    """θ_i = ψ_i + u_i with u_i ← 0.8 u_i − 0.2 η ∇R_i(ψ_i)."""

    velocity = 0.0

    def local_step(self):
        psi = self.combined()
        self.velocity = 0.8 * self.velocity - 0.2 * self.eta * self.cost.gradient(psi)
        return psi + self.velocity
