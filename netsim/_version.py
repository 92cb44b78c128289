"""The version of netsim, read by the build, by `netsim --version` and when a run folder is written."""

__version__ = "0.2.0"
