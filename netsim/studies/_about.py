"""What carried a study's frames: the version of netsim, and the core it ran on."""

from netsim import core
from netsim._version import __version__


def about() -> dict[str, str]:
    """Return what settings.json and ``netsim --version`` say: ``netsim``, the version, and ``core``."""
    return {"netsim": __version__, "core": core.NAME}
