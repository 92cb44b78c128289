"""The processes of a deployment on this machine: start them, watch them, and end them with their parent."""

import ctypes
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from netsim.errors import NetsimError
from netsim.studies.deploy.plan import Host, Plan
from netsim.studies.sweeps.workers import end_with

# Real seconds between two polls, and from SIGTERM to SIGKILL.
_PAUSE, _GRACE = 0.1, 5.0
# Free bytes below which a disk counts as full.
_ROOM = 1 << 14
_DIE_WITH_PARENT = 1  # PR_SET_PDEATHSIG on Linux


class Processes:
    """The processes of a deployment, each `netsim node` on this machine; leaving the context ends them.

    For each row that the first process writes, ``report`` is called with the numbers of the run (from 0) and the row.
    """

    def __init__(self, plan: Plan, folder: Path, report: Callable[[int, int], None]) -> None:
        self._plan, self._folder, self._report = plan, folder, report
        self._running: dict[str, subprocess.Popen[str]] = {}

    def __enter__(self) -> "Processes":
        for host in self._plan.hosts:
            self._running[host.name] = self._start(host)
        first = self._running[self._plan.hosts[0].name]
        threading.Thread(target=self._listen, args=(first,), daemon=True).start()
        return self

    def __exit__(self, *what: object) -> None:
        for process in self._running.values():
            if process.poll() is None:
                process.terminate()
        deadline = time.monotonic() + _GRACE
        for process in self._running.values():
            try:
                process.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            if process.stdout is not None:
                process.stdout.close()

    def wait(self) -> None:
        """Wait for all processes; raises NetsimError with a process's last line if it fails, or if all were killed.

        A process that continues long after another has ended, for instance because it is stopped, is killed.
        """
        give_up = float("inf")
        while True:
            statuses = {name: process.poll() for name, process in self._running.items()}
            for name, status in statuses.items():
                if status is not None and status > 0:
                    raise NetsimError(f"process {name}: {self._last_line(name)}")
            if None not in statuses.values():
                break
            if 0 in statuses.values():
                give_up = min(give_up, time.monotonic() + self._plan.settings.patience)
            if time.monotonic() > give_up:
                for process in self._running.values():
                    process.kill()
            time.sleep(_PAUSE)
        # A negative status: ended by a signal.
        if 0 not in statuses.values():
            raise NetsimError(
                f"process {next(iter(statuses))}: was killed, as all others were; there is nothing to gather"
            )

    def _start(self, host: Host) -> "subprocess.Popen[str]":
        command = [sys.executable, "-m", "netsim", "node", str(self._folder), "--host", host.name]
        command += ["--parent", str(os.getpid())]
        tells = host is self._plan.hosts[0]
        with self._log(host.name).open("wb") as log:
            return subprocess.Popen(
                command + ["--tell"] * tells,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE if tells else subprocess.DEVNULL,
                stderr=log,
                text=True,
                # In a new session Ctrl-C reaches only the parent, which then ends the processes.
                start_new_session=True,
            )

    def _listen(self, process: "subprocess.Popen[str]") -> None:
        assert process.stdout is not None
        with suppress(ValueError, OSError):
            for line in process.stdout:
                run, _, row = line.partition(" ")
                self._report(int(run), int(row))

    def _log(self, name: str) -> Path:
        return self._folder / f"{name}.log"

    def _last_line(self, name: str) -> str:
        lines = self._log(name).read_text(encoding="utf-8", errors="replace").split("\n")
        if written := [line for line in lines if line.strip()]:
            return written[-1].removeprefix("netsim: ")
        # The last line may be missing because this disk is full.
        full = shutil.disk_usage(self._folder).free < _ROOM
        return "ended without a word" + (f"; no space is left in {str(self._folder)!r} (TMPDIR)" if full else "")


class Ended(SystemExit):
    """This process has nothing left to do: it played its part, or its fork failed and printed the reason."""


def forked() -> bool:
    """Fork this process: return True in the fork, and False in this process once the fork has ended well."""
    if sys.stdout is not None:
        # Flush first: the fork would print buffered output again.
        sys.stdout.flush()
    parent, fork = os.getpid(), os.fork()
    if not fork:
        die_with(parent)
        return True
    try:
        _, status = os.waitpid(fork, 0)
    except BaseException:
        os.kill(fork, signal.SIGTERM)
        os.waitpid(fork, 0)
        raise
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        raise NetsimError(f"a run's own process ended with status {code}")
    if code:
        raise Ended(code)
    return False


def die_with(parent: int) -> None:
    """End this process as soon as its parent has ended; on Linux even while this process is stopped."""
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)
    end_with(parent)
