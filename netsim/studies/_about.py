"""What carried a study's frames: the version of netsim, and the core it ran on."""

from importlib.metadata import PackageNotFoundError, version

from netsim import core


def about() -> dict[str, str]:
    """Return what settings.json and ``netsim --version`` say: ``netsim``, the version, and ``core``."""
    try:
        number = version("netsim")
    except PackageNotFoundError:
        # A source tree that was not installed; results must not be lost for that.
        number = "unknown"
    return {"netsim": number, "core": core.NAME}
