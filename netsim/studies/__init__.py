"""Studies: scenarios found by name, what one execution leaves, its folder, figures, and the command line."""

from netsim.studies.study import Study

__all__ = ["Study"]
