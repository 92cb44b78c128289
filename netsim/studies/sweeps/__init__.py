"""Sweeps: a study at every point of a grid of its parameters, on several processes, resumed where they stopped."""

from netsim.studies.sweeps.sweep import Sweep, sweep

__all__ = ["Sweep", "sweep"]
