"""Run a network's workers on a Dask cluster.

Each worker of the run is a Dask actor on a worker of the cluster, and runs its agents in a thread of that process. Dask
carries rows and results; the actors send frames to one another over TCP. Before they exchange frames, the actors
authenticate one another with a key made for this run.
"""

import asyncio
import dataclasses
import math
import os
import pickle
import secrets
import socket
import threading
import time
import warnings
from collections.abc import Hashable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import closing, suppress
from multiprocessing import connection as connections
from typing import Any

from netsim.agent import Agent
from netsim.errors import BadInput, one_line
from netsim.parallel import collect
from netsim.parallel.collect import Message
from netsim.parallel.mesh import Mesh
from netsim.parallel.part import Part
from netsim.parallel.worker import Assignment, work
from netsim.util import check

__all__ = ["ClusterCrew", "Member"]

# Timeouts in real seconds. _TIMEOUT: waiting for the scheduler, and for enough workers of the cluster. _STOP_TIMEOUT:
# waiting for `Member.stop` to return. _BATCH: the time for which one call of `Member.take` waits for the run to end.
_TIMEOUT, _STOP_TIMEOUT, _BATCH = 30.0, 1.0, 0.25


class Member:
    """One worker of a run, as an actor on a worker of the cluster.

    `take` is a coroutine, so Dask runs it in its event loop. Dask would run a plain function in a thread, and sample
    the stack of this thread a hundred times a second.
    """

    def __init__(self, rank: int, assignment: bytes, key: bytes) -> None:
        self._rank, self._key = rank, key
        self._assignment: Assignment = pickle.loads(assignment)
        self._messages: list[tuple[str, Any]] = []
        self._ended = asyncio.Event()
        self._part: Part | None = None
        self._stopped = False
        self._listener = connections.Listener((_own_address(), 0), authkey=key)

    def address(self) -> tuple[str, int]:
        """Return the host and port at which this worker listens."""
        host, port = self._listener.address
        return str(host), int(port)

    async def begin(self, addresses: list[tuple[str, int]]) -> None:
        """Start a thread that connects to the other workers and then runs this worker."""
        self._loop = asyncio.get_running_loop()
        threading.Thread(target=self._work, args=(addresses,), name=f"worker {self._rank + 1}", daemon=True).start()

    async def take(self) -> list[tuple[str, Any]]:
        """Wait up to `_BATCH` seconds for the run to end; return the messages that were put since the last call."""
        # A call through Dask takes longer than the run needs for a row. Waiting lets each call return many rows.
        with suppress(TimeoutError):
            await asyncio.wait_for(self._ended.wait(), _BATCH)
        found = self._messages[:]
        del self._messages[: len(found)]
        return found

    def stop(self) -> None:
        """Ask the run to end soon."""
        self._stopped = True
        if self._part is not None:
            self._part.stop = True

    def _work(self, addresses: list[tuple[str, int]]) -> None:
        def started(part: Part) -> None:
            self._part = part
            part.stop = self._stopped

        try:
            with closing(Mesh(self._rank, self._connected(addresses))) as mesh, warnings.catch_warnings():
                # Dask's threads draw from the global random generators. netsim would blame the agents for that.
                warnings.filterwarnings("ignore", "random numbers were drawn", RuntimeWarning)
                work(self._assignment, mesh, self._put, started)
        except BaseException as error:
            self._put("lost", f"could not work: {type(error).__name__}: {one_line(error)}")

    def _put(self, what: str, content: Any) -> None:
        self._messages.append((what, content))
        if what != "row":
            self._loop.call_soon_threadsafe(self._ended.set)

    def _connected(self, addresses: list[tuple[str, int]]) -> dict[int, socket.socket]:
        """Return a socket to each other worker: connect to workers of lower rank, accept those of higher rank."""
        found = {}
        for rank, address in enumerate(addresses[: self._rank]):
            with connections.Client((str(address[0]), int(address[1])), authkey=self._key) as connection:
                connection.send_bytes(self._rank.to_bytes(4, "little"))
                found[rank] = _socket_of(connection)
        while len(found) < len(addresses) - 1:
            with self._listener.accept() as connection:
                found[int.from_bytes(connection.recv_bytes(4), "little")] = _socket_of(connection)
        self._listener.close()
        return found


def _socket_of(connection: Any) -> socket.socket:
    """Duplicate a connection's socket, and disable Nagle's algorithm there, because it would delay small messages."""
    found = socket.socket(fileno=os.dup(connection.fileno()))
    found.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return found


def _own_address() -> str:
    """Return the host in the address by which the cluster reaches this process."""
    from distributed import get_worker

    return str(get_worker().address).rpartition("//")[2].rpartition(":")[0]


class ClusterCrew:
    """The workers of a run, on the workers of a Dask cluster."""

    def __init__(self, assignment: Assignment, count: int, address: str) -> None:
        check.installed(f"dask = {address!r}", "distributed", "dask")
        from distributed import Client

        try:
            self._client = Client(address, timeout=_TIMEOUT, set_as_default=False)
        except (OSError, ValueError, TypeError):
            wanted = f"the address of a Dask scheduler, such as tcp://127.0.0.1:8786; none answered in {_TIMEOUT:g} s"
            raise check.refuse("dask", address, wanted) from None
        self._pool = ThreadPoolExecutor(count, thread_name_prefix="netsim collects")
        self._members: dict[int, Any] = {}
        self._waiting: dict[int, Future[Any]] = {}
        # `_asked_at`: for each member, the real time (s) of the last call of `Member.take`. `_silent`: the members
        # already reported as silent.
        self._asked_at: dict[int, float] = {}
        self._silent: set[int] = set()
        try:
            hosts = self._hosts(count, address)
            self._hosts_of = dict(enumerate(hosts))
            key = secrets.token_bytes(32)
            # The handle of a Dask actor looks up the current client, so make this client the current one.
            with self._client.as_current():
                futures = [self._member(rank, host, assignment, key) for rank, host in enumerate(hosts)]
                self._members = {rank: future.result() for rank, future in enumerate(futures)}
                addresses = [member.address().result() for member in self._members.values()]
                for member in self._members.values():
                    member.begin(addresses).result()
        except BaseException:
            self.kill()
            raise

    def _member(self, rank: int, host: str, assignment: Assignment, key: bytes) -> Any:
        own = {name: agent for name, agent in assignment.agents.items() if assignment.place[name] == rank}
        raw = _pickled(assignment, own)
        there = self._client.scatter(raw, workers=[host], hash=False)
        options: dict[str, Any] = {"workers": [host], "allow_other_workers": False, "pure": False}
        return self._client.submit(Member, rank, there, key, actor=True, **options)

    def _hosts(self, count: int, address: str) -> list[str]:
        """Return the addresses of ``count`` workers of the cluster; raises BadInput if the cluster has fewer."""
        try:
            self._client.wait_for_workers(count, timeout=_TIMEOUT)
        except TimeoutError:
            there = len(self._client.scheduler_info(n_workers=-1)["workers"])
            wanted = f"a scheduler with {count} workers; it has {there} after {_TIMEOUT:g} s"
            raise check.refuse("dask", address, wanted) from None
        return sorted(self._client.nthreads())[:count]

    def messages(self, timeout: float | None) -> Iterator[Message]:
        """Yield the workers' messages, as `Crew.messages` requires."""
        until = math.inf if timeout is None else time.monotonic() + timeout
        while self._members:
            for rank, member in self._members.items():
                if rank not in self._waiting:
                    self._waiting[rank] = self._pool.submit(lambda each: each.take().result(), member)
                    self._asked_at[rank] = time.monotonic()
            left = max(0.0, until - time.monotonic())
            done, _ = wait(self._waiting.values(), min(left, collect.SILENCE), return_when=FIRST_COMPLETED)
            if not done and left <= collect.SILENCE:
                return
            yield from self._silent_workers()
            for rank, future in list(self._waiting.items()):
                if future in done:
                    del self._waiting[rank]
                    yield from self._messages_of(rank, future)

    def _silent_workers(self) -> Iterator[Message]:
        """Yield a message for each worker that has become silent since the last call."""
        late = time.monotonic() - _BATCH - collect.SILENCE
        silent = {rank for rank, each in self._waiting.items() if not each.done() and self._asked_at[rank] < late}
        for rank in sorted(silent - self._silent):
            yield rank, "silent", f"(on {self._hosts_of[rank]}) does not answer, and the run waits for it"
        self._silent = silent

    def _messages_of(self, rank: int, future: "Future[Any]") -> Iterator[Message]:
        try:
            found = future.result()
        except Exception as error:
            del self._members[rank]
            yield rank, "lost", f"(on {self._hosts_of[rank]}) has gone: {one_line(error) or type(error).__name__}"
            return
        for what, content in found:
            if what in ("end", "lost"):
                del self._members[rank]
            yield rank, what, content

    def stop(self) -> None:
        """Ask all workers to end soon."""
        for member in self._members.values():
            with suppress(Exception):
                member.stop().result(timeout=_STOP_TIMEOUT)

    def kill(self) -> None:
        """End all workers immediately: Dask ends the actors when their client closes."""
        self._members.clear()
        self._client.close()
        self._pool.shutdown(wait=False, cancel_futures=True)


def _pickled(assignment: Assignment, own: Mapping[Hashable, Agent]) -> bytes:
    """Pickle an assignment with its agents replaced by ``own``; raises BadInput if it cannot be pickled."""
    import cloudpickle

    try:
        raw: bytes = cloudpickle.dumps(dataclasses.replace(assignment, agents=own))
    except Exception as error:
        raise BadInput(f"dask: must be given a network and agents that can be pickled ({one_line(error)})") from None
    return raw
