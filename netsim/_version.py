"""The version of netsim, which the build, `netsim --version` and every run folder read from here."""

__version__ = "0.2.0"
