"""The command ``netsim``: it answers Ctrl-C in one line, even while its packages are still being imported."""

import os
import signal
import sys
from typing import Any


def main() -> None:
    """Run the command line."""
    # Imports take half a second, in which a KeyboardInterrupt would be a traceback or, inside a library written in C,
    # an ImportError. Nothing is written yet, so nothing needs to be put in order. An ignored signal stays ignored.
    interrupts = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    try:
        if interrupts:
            signal.signal(signal.SIGINT, _quit)
        from netsim.studies import cli

        if not cli.is_quick(sys.argv[1:]):
            # What every run takes: once it is imported, a command can be interrupted between any two of its steps.
            import netsim.studies.execute  # noqa: F401

        if interrupts:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        cli.main()
        if interrupts:
            # All is done; an interrupt now could only cause a traceback while Python ends.
            signal.signal(signal.SIGINT, signal.SIG_IGN)
    except KeyboardInterrupt:
        _quit()
    except Exception as error:
        from netsim.errors import NetsimError

        if not isinstance(error, NetsimError):
            raise
        # What the packages refuse as they are imported: a NETSIM_CORE that is none.
        print(f"netsim: {error}", file=sys.stderr)
        sys.exit(2)


def _quit(*_: Any) -> None:
    try:
        os.write(2, b"netsim: interrupted; no run folder was written\n")
    finally:
        os._exit(130)


if __name__ == "__main__":
    main()
