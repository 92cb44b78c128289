"""The command ``netsim``: it answers Ctrl-C in one line, even while its packages are still being imported."""

import gc
import os
import signal
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

_RUNNING = {"run", "sweep", "tune", "bench", "verify", "lab", "deploy", "node", "gather"}
"""The commands that run agents."""

_OBJECTS = 50_000
"""New objects before a collection, as during a run (`netsim.engine.process`)."""


def main() -> None:
    """Run the command line."""
    if _must_start_again():
        _start_again({**os.environ, "PYTHONHASHSEED": "0"})
    # Libraries make objects by the hundred thousand that all live on: collections while they are imported find nothing.
    gc.set_threshold(_OBJECTS)
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
        # What is out of reach, as a file that a study left open, ends here; the rest need not be searched again.
        gc.collect()
        gc.freeze()
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


# --- the hash seed ----------------------------------------------------------------------------------------------------


def runs_agents(words: Sequence[str]) -> bool:
    """Return whether a command line runs agents, so that the order of their sets of texts must be fixed."""
    return bool(words) and words[0] in _RUNNING and not {"-h", "--help"} & {*words}


def _must_start_again() -> bool:
    """Return whether Python must start once more with a fixed hash seed, which it reads at its start only."""
    if os.environ.get("PYTHONHASHSEED") or sys.flags.ignore_environment or not runs_agents(sys.argv[1:]):
        return False
    # A program that calls `main` itself, an interactive Python, or one under a debugger goes on as it is.
    caller = sys._getframe(2).f_globals
    is_command = caller.get("__name__") == "__main__" and "__file__" in caller
    return is_command and "numpy" not in sys.modules and sys.gettrace() is None


def _start_again(environment: dict[str, str]) -> None:
    """Replace this process by the same command with another environment; return where the system cannot."""
    command = [sys.executable, *sys.orig_argv[1:]]
    if os.name == "nt":
        _wait_for(command, environment)
    try:
        os.execve(sys.executable, command, environment)
    except (OSError, ValueError):
        # A browser has no processes; settings.json records that the seed is not fixed.
        return


def _wait_for(command: list[str], environment: dict[str, str]) -> NoReturn:
    """Run a command as a child and end as it does: on Windows exec returns to the shell at once."""
    import subprocess

    # Ctrl-C reaches the child as well, which answers it. A handler, since a child would inherit that it is ignored.
    signal.signal(signal.SIGINT, lambda *_: None)
    sys.exit(subprocess.run(command, env=environment, check=False).returncode)


if __name__ == "__main__":
    main()
