"""A worker process that simulates branches one after the other, and can be killed within one."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from netsim.util.hashing import VARIABLE

__all__ = ["Cancelled", "Worker"]


class Cancelled(Exception):  # noqa: N818  names that say what happened
    """The worker process was ended."""


class Worker:
    """Simulates branches in a separate process, which is started for the first branch."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None
        self._lock = threading.Lock()

    def simulate(self, request: dict[str, Any], progress: Callable[[str], None]) -> dict[str, Any]:
        """Return the result of `netsim.studies.laboratory.worker.simulate`; raises Cancelled if the process ended."""
        process = self._started()
        assert process.stdin is not None
        assert process.stdout is not None
        # An error means that the process was ended while reading or writing.
        with suppress(OSError, ValueError):
            process.stdin.write(json.dumps(request) + "\n")
            process.stdin.flush()
            for line in process.stdout:
                found = json.loads(line)
                if "done" in found:
                    return dict(found["done"])
                progress(found["progress"])
        self.end()
        raise Cancelled

    def _started(self) -> "subprocess.Popen[str]":
        with self._lock:
            if self._process is None or self._process.poll() is not None:
                command = [sys.executable, "-m", "netsim.studies.laboratory.worker", str(os.getpid())]
                # Fix the hash seed, so that a branch repeats in the next process.
                fixed = {**os.environ, VARIABLE: os.environ.get(VARIABLE) or "0"}
                self._process = subprocess.Popen(
                    command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8", env=fixed
                )
            return self._process

    def end(self) -> None:
        """End the process, if there is one; the next branch starts a new one."""
        with self._lock:
            process, self._process = self._process, None
        if process is None:
            return
        # Closing the pipe to a killed process may fail.
        with suppress(OSError), process:
            process.kill()
