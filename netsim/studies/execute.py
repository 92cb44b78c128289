"""Execution of a study by the command line: its folder is reserved and saved, and Ctrl-C or SIGTERM ends its run."""

import asyncio
import shlex
import signal
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from netsim.engine.launch import importing_whole
from netsim.errors import BadInput, Interrupted, NetsimError
from netsim.studies import Study, catalogue
from netsim.studies.catalogue import Asked, StudyDefinition
from netsim.studies.folder import Unsaved
from netsim.studies.formats import Formats
from netsim.studies.reserve import Reservation, reserve, reserve_next
from netsim.studies.terminal import Reporter

if TYPE_CHECKING:
    from netsim.live.server import ViewServer

INTERRUPTED = "interrupted; no run folder was written"
"""The message of a run that was interrupted before its first result."""

# Whether a SIGTERM ended the run.
_terminated = False


def viewed(
    live: bool, pace: float | None, browser: bool, reporter: Reporter
) -> AbstractContextManager["ViewServer | None"]:
    """Return a server that shows runs live, if ``live`` requests it; it opens a browser only at a terminal.

    Raises BadInput for a flag that requires --live.
    """
    if live:
        from netsim.live.server import ViewServer

        terminal = sys.stdout is not None and sys.stdout.isatty()
        return ViewServer(pace=pace, report=reporter.line, browser=browser and terminal)
    if pace is not None:
        raise BadInput(f"pace = {pace:g}: must go with --live")
    if not browser:
        raise BadInput("no-browser: must go with --live")
    return nullcontext()


def execute(
    definition: StudyDefinition,
    parameters: Mapping[str, Any],
    *,
    out: str | None,
    trace: bool,
    formats: Formats,
    reporter: Reporter,
    session: "ViewServer | None",
    workers: int = 1,
) -> Path:
    """Run a study, save its folder, print the folder's path, and return it.

    The folder records the number of ``workers``.
    """
    place: Reservation | None = None
    before = signal.getsignal(signal.SIGINT)
    try:
        # Reserve first: a folder that cannot be written should be refused before the work.
        with importing_whole(), reserved(definition, out) as place, ExitStack() as until_saved:
            study = definition.prepare(trace=trace, reporter=reporter, **parameters)
            study.origin["command"] = shlex.join(["netsim", *sys.argv[1:]])
            if workers != 1:
                study.origin["workers"] = workers
            study.formats, study.session = formats, session
            # Before the first run there is nothing to save, and the default SIGTERM also ends code that Python cannot
            # interrupt.
            study.begin = lambda: until_saved.enter_context(terminable())
            _play(definition, study, place)
            study.save(place)
            # The results are saved: a Ctrl-C now would only leave the lock behind.
            with suppress(ValueError):
                signal.signal(signal.SIGINT, signal.SIG_IGN)
                signal.signal(signal.SIGTERM, signal.SIG_IGN)
    except KeyboardInterrupt:
        if place is None or not place.published or study.partial:
            raise
    with suppress(ValueError):
        signal.signal(signal.SIGINT, before)
    show_saved(place, reporter)
    return place.folder


def reserved(definition: StudyDefinition, out: str | None) -> Reservation:
    """Reserve the given folder, or the study's next free folder if none is given."""
    return reserve_next(Path(definition.name).stem) if out is None else reserve(out)


def show_saved(place: Reservation, reporter: Reporter) -> None:
    """Print the path of a run folder, and its files."""
    files = ", ".join(sorted(path.name for path in place.folder.iterdir()))
    reporter.line(f"\n{place.shown}: {files}")


def _play(definition: StudyDefinition, study: Study, place: Reservation) -> None:
    """Play a study; if it stops early, save the results so far, marked partial, and raise one line with the reason."""
    try:
        definition.play(study)
    except BaseException as error:
        if isinstance(error, Asked) or (study.partial is None and isinstance(error, BadInput)):
            # Nothing to save: the study is complete but fails its check, or only a list was requested.
            raise
        # After any other error, save the results so far below, and then raise the error.
        stopped = error
    else:
        return
    if study.partial and _terminated:
        study.partial["why"] = "terminated"
    message = str(study.partial["why"]) if study.partial else catalogue.why(definition, stopped)
    if not study.is_empty:
        try:
            study.save(place)
            message = f"{message}; what there is so far is in {place.shown}, marked partial"
        except Unsaved as error:
            message = f"{message}; what there is so far: {error}"
    elif catalogue.interrupted(stopped):
        message = INTERRUPTED
    if catalogue.interrupted(stopped):
        raise KeyboardInterrupt(message) from stopped
    raise NetsimError(message) from stopped


@contextmanager
def terminable() -> Iterator[None]:
    """Let SIGTERM, which a cluster's scheduler sends, end a run as Ctrl-C does, but with another exit status."""
    global _terminated
    _terminated = False
    if threading.current_thread() is not threading.main_thread():
        # Only the main thread receives signals.
        yield
        return
    before = signal.signal(signal.SIGTERM, _terminate)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _terminate(number: int, frame: FrameType | None) -> None:
    global _terminated
    _terminated = True
    interrupt, loop = signal.getsignal(signal.SIGINT), asyncio._get_running_loop()
    if callable(interrupt):
        # During a run this is asyncio's handler, which ends the run between two steps.
        interrupt(signal.SIGINT, frame)
    elif loop is not None:
        # A background job ignores Ctrl-C, so asyncio has no handler.
        loop.call_soon_threadsafe(_end_between_steps)
    else:
        raise Interrupted


def _end_between_steps() -> None:
    raise Interrupted


def status_of_interrupt() -> int:
    """Return the exit status of an interrupted run, which differs for Ctrl-C and SIGTERM."""
    return 143 if _terminated else 130
