from . import results
from .catalogue import find_study
from .study import Study
from .sweeps.sweep import sweep
from .verification import verify

__all__ = ["Study", "find_study", "results", "sweep", "verify"]
