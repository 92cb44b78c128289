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
"""Garbage-collection threshold, in newly allocated objects; runs use the same (`netsim.engine.process`)."""


def main() -> None:
    """Run the command line."""
    if _must_start_again():
        _start_again({**os.environ, "PYTHONHASHSEED": "0"})
    # Imports create hundreds of thousands of long-lived objects, so garbage collections during imports find nothing.
    gc.set_threshold(_OBJECTS)
    # Imports take half a second. A KeyboardInterrupt during them would print a traceback or, inside a C extension, an
    # ImportError. No file is written yet, so the process may exit immediately. An ignored signal stays ignored.
    interrupts = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    try:
        if interrupts:
            signal.signal(signal.SIGINT, _quit)
        from netsim.studies import cli

        if not cli.is_quick(sys.argv[1:]):
            # Every run needs this module; once it is imported, a command can be interrupted between any two of its
            # steps.
            import netsim.studies.execute  # noqa: F401

        if interrupts:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        cli.main()
        if interrupts:
            # The command has finished; an interrupt now could only cause a traceback while Python ends.
            signal.signal(signal.SIGINT, signal.SIG_IGN)
        # Finalize unreachable objects, such as a file that a study left open. Freeze the others, so that the collection
        # at Python's exit skips them.
        gc.collect()
        gc.freeze()
    except KeyboardInterrupt:
        _quit()
    except Exception as error:
        from netsim.errors import NetsimError

        if not isinstance(error, NetsimError):
            raise
        # Packages raise errors for bad settings at import, such as an unknown NETSIM_CORE.
        print(f"netsim: {error}", file=sys.stderr)
        sys.exit(2)


def _quit(*_: Any) -> None:
    try:
        os.write(2, b"netsim: interrupted; no run folder was written\n")
    finally:
        os._exit(130)


# --- the hash seed ----------------------------------------------------------------------------------------------------


def runs_agents(words: Sequence[str]) -> bool:
    """Return whether a command line runs agents; these may iterate over sets of text, which needs a fixed hash seed."""
    return bool(words) and words[0] in _RUNNING and not {"-h", "--help"} & {*words}


def _must_start_again() -> bool:
    """Return whether Python must restart with a fixed hash seed; Python reads the seed only at startup."""
    if os.environ.get("PYTHONHASHSEED") or sys.flags.ignore_environment or not runs_agents(sys.argv[1:]):
        return False
    # Do not restart a program that calls `main` itself, an interactive Python, or one under a debugger.
    caller = sys._getframe(2).f_globals
    is_command = caller.get("__name__") == "__main__" and "__file__" in caller
    return is_command and "numpy" not in sys.modules and sys.gettrace() is None


def _start_again(environment: dict[str, str]) -> None:
    """Replace this process by the same command with another environment; return if the system does not support this."""
    command = [sys.executable, *sys.orig_argv[1:]]
    if os.name == "nt":
        _wait_for(command, environment)
    try:
        os.execve(sys.executable, command, environment)
    except (OSError, ValueError):
        # A browser has no processes; settings.json records that the seed is not fixed.
        return


def _wait_for(command: list[str], environment: dict[str, str]) -> NoReturn:
    """Run a command as a child process and exit with its status, because exec on Windows returns to the shell early."""
    import subprocess

    # Ctrl-C also reaches the child, which handles it. Use a no-op handler here, because the child would inherit
    # SIG_IGN.
    signal.signal(signal.SIGINT, lambda *_: None)
    sys.exit(subprocess.run(command, env=environment, check=False).returncode)


if __name__ == "__main__":
    main()
