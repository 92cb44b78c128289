"""Run a network's workers as processes of this machine, which end with the process that started them."""

import gc
import math
import multiprocessing
import os
import signal
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from types import FrameType
from typing import Any

from netsim.errors import BadInput, NetsimError, one_line
from netsim.parallel import collect
from netsim.parallel.collect import Message
from netsim.parallel.mesh import Mesh, local_meshes
from netsim.parallel.part import Part
from netsim.parallel.worker import Assignment, work

__all__ = ["LocalCrew"]

# After its last message, a process has this many real seconds to end.
_LAST_SECONDS = 5.0


class LocalCrew:
    """The workers of a run, as processes of this machine.

    Processes are forked where forking is safe (see `_method`), else spawned. Only spawned processes need picklable
    agents.
    """

    def __init__(self, assignment: Assignment, count: int) -> None:
        if multiprocessing.current_process().daemon:
            raise BadInput(
                f"workers = {count}: must be 1 in a process that may not start others, such as a worker "
                "or one of a multiprocessing.Pool"
            )
        method = _method()
        context: Any = multiprocessing.get_context(method)
        meshes = local_meshes(count)
        pipes = [context.Pipe(duplex=False) for _ in range(count)]
        self._pipes: dict[int, Connection] = {worker: reader for worker, (reader, _) in enumerate(pipes)}
        self._processes: list[Any] = []
        # The workers already reported as stopped.
        self._stopped: set[int] = set()
        everything = [end for ends in meshes for end in ends.values()] + [end for pipe in pipes for end in pipe]
        try:
            for worker in range(count):
                kept = [pipes[worker][1], *meshes[worker].values()]
                others = [end for end in everything if end not in kept] if method == "fork" else []
                arguments = assignment, worker, meshes[worker], pipes[worker][1], others
                process = context.Process(target=_main, args=arguments, name=f"worker {worker + 1}", daemon=True)
                self._processes.append(process)
                process.start()
        except Exception as error:
            self.kill()
            raise NetsimError(
                f"workers: must be given a network and agents that can be pickled ({one_line(error)})"
            ) from error
        finally:
            for end in everything:
                if end not in self._pipes.values():
                    end.close()

    def messages(self, timeout: float | None) -> Iterator[Message]:
        """Yield the workers' messages, as `Crew.messages` requires."""
        until = math.inf if timeout is None else time.monotonic() + timeout
        while self._pipes:
            left = max(0.0, until - time.monotonic())
            ready = wait(list(self._pipes.values()), min(left, collect.SILENCE))
            if not ready:
                if left <= collect.SILENCE:
                    return
                yield from self._silent_workers()
            for worker, pipe in list(self._pipes.items()):
                if pipe in ready:
                    yield self._message(worker, pipe)

    def _silent_workers(self) -> Iterator[Message]:
        """Yield a message for each worker whose process was stopped (by SIGSTOP, for example) since the last call."""
        stopped = {worker for worker in self._pipes if _is_stopped(self._processes[worker])}
        for worker in sorted(stopped - self._stopped):
            number = self._processes[worker].pid
            yield worker, "silent", f"(process {number}) is stopped, and the run waits for it: kill -CONT {number}"
        self._stopped = stopped

    def _message(self, worker: int, pipe: Connection) -> Message:
        try:
            what, content = pipe.recv()
        except (EOFError, OSError):
            self._forget(worker)
            return worker, "lost", self._how_ended(worker)
        if what == "end":
            self._forget(worker)
            self._processes[worker].join(_LAST_SECONDS)
        return worker, what, content

    def _forget(self, worker: int) -> None:
        self._pipes.pop(worker).close()

    def _how_ended(self, worker: int) -> str:
        process = self._processes[worker]
        process.join(_LAST_SECONDS)
        code = process.exitcode
        if code is None:
            return f"(process {process.pid}) has closed its connection"
        how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with status {code}"
        return f"(process {process.pid}) {how}"

    def stop(self) -> None:
        """Ask all workers to end soon, by SIGTERM; kill suspended processes."""
        for process in self._processes:
            if _is_stopped(process):
                # A process suspended by SIGSTOP does not react to SIGTERM, and the other workers would wait for it.
                process.kill()
            elif process.is_alive():
                process.terminate()

    def kill(self) -> None:
        """Kill all workers' processes."""
        for process in self._processes:
            if process.pid is not None:
                process.kill()
                process.join()
        for worker in list(self._pipes):
            self._forget(worker)


def _is_stopped(process: Any) -> bool:
    """Return whether a child process is suspended, for example by SIGSTOP; False on systems without ``os.waitid``."""
    if not hasattr(os, "waitid") or process.pid is None:
        return False
    try:
        # WNOWAIT leaves the child's status for multiprocessing, which also needs it.
        return os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:
        return False


def _method() -> str:
    """Return the start method: fork or, on systems other than Linux and with JAX, which fail after a fork, spawn."""
    return "fork" if sys.platform == "linux" and "jax" not in sys.modules else "spawn"


def _main(
    assignment: Assignment, worker: int, sockets: dict[int, socket.socket], pipe: Connection, others: list[Any]
) -> None:
    """Run a worker: the main function of a worker's process."""
    # A Ctrl-C also interrupts the parent, and the parent then ends this process.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for end in others:
        end.close()
    # Keep the garbage collector away from objects inherited from the parent. A collection writes to each object, which
    # would make the system copy the memory pages that parent and child share after a fork.
    gc.freeze()

    def started(part: Part) -> None:
        def stop(number: int, frame: FrameType | None) -> None:
            part.stop = True

        signal.signal(signal.SIGTERM, stop)

    def send(what: str, content: Any) -> None:
        try:
            pipe.send((what, content))
        except OSError:
            # The pipe is closed because the parent has ended, so nobody needs this worker's results.
            os._exit(1)

    work(assignment, Mesh(worker, sockets), send, started)
    with suppress(OSError):
        pipe.close()
