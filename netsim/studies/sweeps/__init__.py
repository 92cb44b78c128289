"""Sweeps: a study at every point of a grid of its parameters, on several processes, and resumable."""

from netsim.studies.sweeps.sweep import Sweep, sweep

__all__ = ["Sweep", "sweep"]
