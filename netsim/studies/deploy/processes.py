"""The processes of a deployment on this machine: started, watched, and ended with the one that started them."""

import copy
import ctypes
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from netsim.errors import NetsimError, one_line
from netsim.studies.deploy.plan import Host, Plan

__all__ = ["Processes", "apart", "die_with"]

# Real seconds: between two looks, and from a request to end to the kill.
_PAUSE, _GRACE = 0.1, 5.0
# Bytes below which a disk is full.
_ROOM = 1 << 14
_DIE_WITH_PARENT = 1  # PR_SET_PDEATHSIG of Linux


class Processes:
    """The processes of a deployment, each `netsim node` on this machine; a context manager that ends them.

    It reports the number of a run, from 0, and of each row that the first process comes to.
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
        """Wait for all of them; raises NetsimError, with its last line, if one fails or none comes to its end.

        One that has not ended long after another, as one that was stopped, is killed.
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
        # Below zero: by a signal.
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
                # A Ctrl-C is for the process that started them, which then ends them.
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
        said = [line for line in lines if line.strip()]
        if said:
            return said[-1].removeprefix("netsim: ")
        # Its last words would have been written there.
        full = shutil.disk_usage(self._folder).free < _ROOM
        return "ended without a word" + (f"; no space is left in {str(self._folder)!r} (TMPDIR)" if full else "")


def apart(work: Callable[[Mapping[Any, Any]], None], agents: Mapping[Any, Any]) -> None:
    """Do some work with agents in a fork of this process, where they stay as they are; raises NetsimError if it does.

    Where processes cannot be forked, the work gets a copy of the agents.
    """
    if "fork" not in multiprocessing.get_all_start_methods():
        work(copy.deepcopy(dict(agents)))
        return
    fork = multiprocessing.get_context("fork")
    hearing, telling = fork.Pipe(duplex=False)
    child = fork.Process(target=_do, args=(work, agents, telling, os.getpid()))
    child.start()
    telling.close()
    why = ""
    try:
        with hearing, suppress(EOFError):
            why = hearing.recv()
        child.join()
    except BaseException:
        child.terminate()
        child.join()
        raise
    if why or child.exitcode:
        raise NetsimError(why or f"a run's own process ended with status {child.exitcode}")


def _do(work: Callable[[Mapping[Any, Any]], None], agents: Mapping[Any, Any], telling: Any, parent: int) -> None:
    """Work, and send the process that forked this one why it failed, if it did."""
    die_with(parent)
    try:
        work(agents)
    except BaseException as error:
        telling.send(
            one_line(error) if isinstance(error, NetsimError) else f"{type(error).__name__}: {one_line(error)}"
        )
        sys.exit(1)


def die_with(parent: int) -> None:
    """Let this process end as soon as the one that began it has, though that is killed."""
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(_PAUSE)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
