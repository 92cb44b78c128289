"""A run that was asked for with a transport: the processes meet, agree when it begins, and run each its part."""

import asyncio
import math
import time

from netsim._job import Host, Job
from netsim._wiring import Asked
from netsim.errors import NetsimError, one_line
from netsim.run import Run
from netsim.sockets.journal import JournalWriter
from netsim.sockets.node import NodeRuntime, Part, mark_of, places_of
from netsim.sockets.pacing import PacedSelector
from netsim.sockets.post import Post
from netsim.sockets.session import Phase, Session, clock
from netsim.sockets.transport import Transport
from netsim.transport.clock import ClockName, Loop

__all__ = ["Missed", "NodeJob", "journal_name"]

# Real seconds from beat to beat, before a run and during it; and from the meeting to the run's beginning.
_MEETING, _BEAT, _MARGIN = 0.05, 0.1, 1.0
# How late an instant may be, in rounds, before the clock jumps.
_SLACK = 0.5


class Missed(NetsimError):  # noqa: N818  names that say what happened
    """The other processes have ended this run already."""


def journal_name(run: int, host: int, incarnation: int) -> str:
    """Return where in the folder a process writes its part of a run."""
    return f"run-{run}/{host:03d}-{incarnation}.journal"


class NodeJob(Job):
    """A run of which a part is here.

    Parameters
    ----------
    states : bool
        Whether agents' states are to be written with each row.
    """

    def __init__(self, network: Host, result: Run, asked: Asked, transport: Transport, states: bool) -> None:
        settings = network.settings
        places = places_of(settings, transport)
        if transport.session is None:
            transport.session = Session(transport)
        self._session: Session = transport.session
        self._post = Post(self._session, places, transport.folder is not None)
        super().__init__(network, result, Asked(**(vars(asked) | {"elsewhere": self._post})))
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
        session = self._session
        session.begin(self._mark)
        try:
            self._journal = self._open_journal()
            # Not every system's own loop can say when a socket can be read.
            with asyncio.Runner(loop_factory=asyncio.SelectorEventLoop) as runner:
                epoch = runner.run(self._meet())
            if math.isnan(epoch):
                if self._journal is not None:
                    self._journal.discard()
                raise Missed(f"run {session.run}: the other processes have ended it")
            selector = PacedSelector(_monotonic(epoch), self._transport.pace, _SLACK * self._period)
            return self.run_on(Loop(selector))
        except BaseException as error:
            session.phase, session.why = Phase.OVER, one_line(error) or type(error).__name__
            raise

    def _open_journal(self) -> JournalWriter | None:
        session, folder = self._session, self._transport.folder
        if folder is None:
            return None
        path = folder / journal_name(session.run, session.me, session.incarnation)
        return JournalWriter(path, self._result.agents, self._places, session)

    async def _meet(self) -> float:
        """Find out when the run begins, in seconds of `clock`; NaN: it is over."""
        session = self._session
        give_up = time.monotonic() + self._transport.patience
        await session.open()
        try:
            while True:
                session.beat()
                await asyncio.sleep(_MEETING)
                if self._transport.failure is not None:
                    raise self._transport.failure
                epoch = session.when(_MARGIN)
                if epoch is not None:
                    break
                if time.monotonic() > give_up:
                    absent = ", ".join(map(repr, session.missing())) or repr(session.hosts[0])
                    raise NetsimError(f"nothing was heard of {absent} in {self._transport.patience:g} real seconds")
            if not math.isnan(epoch):
                session.epoch, session.phase = epoch, Phase.RUNNING
            session.beat()
            return epoch
        finally:
            await session.close()

    async def run(self, loop: Loop) -> Run:
        """Run on a loop of simulated time from the instant on at which all begin."""
        session = self._session
        session.taker = self._post
        await session.open()
        try:
            self._tick(loop)
            begun = loop.create_future()
            loop.call_at(0.0, begun.set_result, None)
            await begun
            return await super().run(loop)
        except BaseException as error:
            session.phase, session.why = Phase.OVER, one_line(error) or type(error).__name__
            raise
        finally:
            session.taker = session.on_beat = None
            if self._ticking is not None:
                self._ticking.cancel()
            session.beat()
            await session.close()
            if self._journal is not None:
                self._journal.close()

    def _tick(self, loop: Loop) -> None:
        """Say that this process is alive, and see whether the others are."""
        self._session.beat()
        if self._node is not None:
            self._node.check()
        self._ticking = loop.call_later(_BEAT * self._transport.pace, self._tick, loop)

    def _make_runtime(self, loop: Loop) -> NodeRuntime:
        host, session = self._network, self._session
        part = Part(session, self._post, self._journal, self._states)
        self._node = NodeRuntime(host.settings, self._result, loop, self._asked, host._scheduled, part)
        session.on_beat = self._node.check
        return self._node


def _monotonic(moment: float) -> float:
    """Return a time of `clock` in seconds of `time.monotonic`."""
    return time.monotonic() + (moment - clock())
