"""The process that simulates a lab's branches: requests and answers are lines of JSON.

Output of a study or script goes to standard error, because standard output carries the answers.
"""

import contextlib
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from netsim.clock.order import Order, ordering
from netsim.errors import NetsimError, one_line
from netsim.studies import catalogue
from netsim.studies.catalogue import StudyDefinition
from netsim.studies.deploy.processes import die_with
from netsim.studies.laboratory.tree import told
from netsim.studies.terminal import Reporter

__all__ = ["main", "simulate"]

# Real seconds between two messages about a run's progress.
_EVERY = 0.2

Answer = Callable[[dict[str, Any]], None]


class _Told(Reporter):
    """A reporter that sends the progress of runs as answers, and prints nothing."""

    def __init__(self, answer: Answer) -> None:
        super().__init__(quiet=True)
        self._answer, self._next = answer, 0.0

    @contextmanager
    def progress(self, label: str, total: int, unit: str = "") -> Iterator[Callable[[int], None]]:
        yield lambda number: self._tell(f"{label}: {unit}{number} of {total}")

    @contextmanager
    def counter(self, label: str, unit: str, pause: float = _EVERY) -> Iterator[Callable[[int], None]]:
        yield lambda number: self._tell(f"{label}: {number:,} {unit}")

    def _tell(self, text: str) -> None:
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + _EVERY
            self._answer({"progress": text})


def simulate(study: str, settings: dict[str, Any], at: str, order: str, command: str, answer: Answer) -> dict[str, Any]:
    """Run a study with faults and an order, given as text; return its runs as JSON data.

    The runs have the form of `netsim.studies.laboratory.shown.shown`. The result also has the runs' ``hash``, the
    texts ``words`` of the last run's order, and ``error``. After a failure ``error`` is one line, and the runs are
    those up to the failure.
    """
    from netsim.studies.laboratory.shown import shown

    drawn = None
    if order:
        drawn = Order.parse(order)
        drawn.records = drawn.tells = True
    definition: StudyDefinition | None = None
    played = None
    error = ""
    try:
        definition = catalogue.find_study(study)
        faults = {catalogue.AT.name: at} if at else {}
        played = definition.prepare(trace=True, reporter=_Told(answer), **settings, **faults)
        with ordering(drawn):
            definition.play(played)
    except Exception as failed:
        if definition is None or isinstance(failed, NetsimError):
            error = one_line(failed)
        else:
            error = catalogue.why(definition, failed)
    runs = {} if played is None else played.runs
    found = shown(study, runs, command, "" if definition is None else definition.title)
    trace_hash = "" if played is None or not runs else played.trace_hash
    return {"runs": found, "hash": trace_hash, "error": error, "words": told(drawn)}


def main() -> None:
    """Answer requests until the input ends, or the parent process has ended."""
    # Ignore Ctrl-C: the server handles it, and ends this process.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if len(sys.argv) > 1:
        die_with(int(sys.argv[1]))
    # A study may print, even from C code: redirect both kinds of output to standard error.
    own = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    # Modules in the working folder can be imported, as for a script.
    sys.path.insert(0, "")

    def answer(what: dict[str, Any]) -> None:
        own.write(json.dumps(what) + "\n")
        own.flush()

    for line in sys.stdin:
        request = json.loads(line)
        with contextlib.redirect_stdout(sys.stderr):
            done = simulate(**request, answer=answer)
        answer({"done": done})


if __name__ == "__main__":
    main()
