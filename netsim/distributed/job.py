"""A run that was asked for with a transport: the processes meet, agree when it begins, and run each its part."""

import asyncio
import math
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from netsim.clock.clock import ClockName, Loop
from netsim.clock.pacing import PacedSelector
from netsim.distributed.journal import JournalWriter
from netsim.distributed.membership import Membership, Phase, clock
from netsim.distributed.node import NodeRuntime, mark_of, places_of
from netsim.distributed.relay import Relay
from netsim.distributed.transport import Transport
from netsim.engine.build import Asked
from netsim.engine.job import Job
from netsim.errors import NetsimError, one_line
from netsim.run import Run

if TYPE_CHECKING:
    from netsim.network import Network

__all__ = ["Missed", "NodeJob", "journal_name"]

# Real seconds from beat to beat, before a run and during it; and from the meeting to the run's beginning.
_MEETING, _HEARTBEAT, _MARGIN = 0.05, 0.1, 1.0
# How late an instant may be, in rounds, before the clock jumps.
_SLACK = 0.5


class Missed(NetsimError):  # noqa: N818  names that say what happened
    """The other processes have ended this run already."""


def journal_name(run: int, host: int, incarnation: int) -> str:
    """Return the file, in the folder, of a process's part of a run."""
    return f"run-{run}/{host:03d}-{incarnation}.journal"


class NodeJob(Job):
    """A run of which a part is here; with ``states`` it writes those of agents with each row."""

    def __init__(self, network: "Network", result: Run, asked: Asked, transport: Transport, states: bool) -> None:
        settings = network.settings
        places = places_of(settings, transport)
        if transport.membership is None:
            transport.membership = Membership(transport)
        self._membership: Membership = transport.membership
        self._relay = Relay(self._membership, places, transport.folder is not None)
        super().__init__(network, result, replace(asked, elsewhere=self._relay))
        self._places = places
        self._journal: JournalWriter | None = None
        self._mark = mark_of(settings, result.agents, places)
        self._transport = transport
        self._period = settings.round_period
        self._states = states
        self._node: NodeRuntime | None = None
        self._ticking: asyncio.TimerHandle | None = None

    def simulate(self, clock: ClockName = "wall", speed: float = 1.0) -> Run:
        """Meet the others, and run; raises Missed if they have ended the run."""
        membership = self._membership
        membership.begin(self._mark)
        try:
            self._journal = self._open_journal()
            # Not every system's own loop can say when a socket can be read.
            with asyncio.Runner(loop_factory=asyncio.SelectorEventLoop) as runner:
                epoch = runner.run(self._meet())
            if math.isnan(epoch):
                if self._journal is not None:
                    self._journal.discard()
                raise Missed(f"run {membership.run}: the other processes have ended it")
            selector = PacedSelector(_monotonic(epoch), self._transport.pace, _SLACK * self._period)
            return self.run_on(Loop(selector))
        except BaseException as error:
            membership.phase, membership.why = Phase.OVER, one_line(error) or type(error).__name__
            raise

    def _open_journal(self) -> JournalWriter | None:
        membership, folder = self._membership, self._transport.folder
        if folder is None:
            return None
        path = folder / journal_name(membership.run, membership.me, membership.incarnation)
        return JournalWriter(path, self._result.agents, self._places, membership)

    async def _meet(self) -> float:
        """Find out when the run begins, in seconds of `clock`; NaN: it is over."""
        membership = self._membership
        give_up = time.monotonic() + self._transport.patience
        await membership.open()
        try:
            while True:
                membership.send_heartbeat()
                await asyncio.sleep(_MEETING)
                if self._transport.failure is not None:
                    raise self._transport.failure
                epoch = membership.when(_MARGIN)
                if epoch is not None:
                    break
                if time.monotonic() > give_up:
                    absent = ", ".join(map(repr, membership.missing())) or repr(membership.hosts[0])
                    raise NetsimError(f"nothing was heard of {absent} in {self._transport.patience:g} real seconds")
            if not math.isnan(epoch):
                membership.epoch, membership.phase = epoch, Phase.RUNNING
            membership.send_heartbeat()
            return epoch
        finally:
            await membership.close()

    async def run(self, loop: Loop) -> Run:
        """Run on a loop of simulated time from the instant on at which all begin."""
        membership = self._membership
        membership.take = self._relay.take
        await membership.open()
        try:
            self._tick(loop)
            begun = loop.create_future()
            loop.call_at(0.0, begun.set_result, None)
            await begun
            return await super().run(loop)
        except BaseException as error:
            membership.phase, membership.why = Phase.OVER, one_line(error) or type(error).__name__
            raise
        finally:
            membership.take = membership.on_heartbeat = None
            if self._ticking is not None:
                self._ticking.cancel()
            membership.send_heartbeat()
            await membership.close()
            if self._journal is not None:
                self._journal.close()

    def _tick(self, loop: Loop) -> None:
        """Say that this process is alive, and see whether the others are."""
        self._membership.send_heartbeat()
        if self._node is not None:
            self._node.check()
        self._ticking = loop.call_later(_HEARTBEAT * self._transport.pace, self._tick, loop)

    def _make_runtime(self, loop: Loop) -> NodeRuntime:
        host, membership = self._network, self._membership
        what = host.settings, self._result, loop, self._asked, host._scheduled
        self._node = NodeRuntime(*what, membership, self._relay, self._journal, self._states)
        membership.on_heartbeat = self._node.check
        return self._node


def _monotonic(moment: float) -> float:
    """Return a time of `clock` in seconds of `time.monotonic`."""
    return time.monotonic() + (moment - clock())
