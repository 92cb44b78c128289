"""The version: written here, read by the build, `netsim --version` and every run folder."""

__version__ = "0.2.0"
