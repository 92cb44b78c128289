"""What a person sees while something runs: progress, tables, notes. Plain text where the output is no terminal."""

import math
import numbers
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, TextIO

import numpy as np

if TYPE_CHECKING:
    import pandas as pd

# From here on a whole float is no count any more but, most likely, a measure that diverged.
_LARGE = 1e15
_SELDOM_S = 60.0


class Reporter:
    """Writes to standard output, and progress to standard error. ``quiet`` writes nothing.

    An output that cannot be written (a reader that has gone, a full disk) does not end the run: the rest is not shown.
    """

    def __init__(self, quiet: bool = False) -> None:
        self.quiet = quiet

    def line(self, text: str = "") -> None:
        """Print one line."""
        if not self.quiet:
            with self._output(sys.stdout):
                print(text, flush=True)

    def table(self, title: str, frame: "pd.DataFrame") -> None:
        """Print a table under its title."""
        if self.quiet or sys.stdout is None:
            return
        columns = [str(name) for name in frame.columns]
        cells = [[text(value) for value in row] for row in frame.itertuples(index=False)]
        with self._output(sys.stdout):
            if sys.stdout.isatty():
                _rich_table(title, columns, cells)
            else:
                widths = [max(map(len, column)) for column in zip(columns, *cells, strict=True)]
                print(f"\n{title}")
                for row in [columns, *cells]:
                    print("  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
                print(flush=True)

    @contextmanager
    def progress(self, label: str, total: int, unit: str = "") -> Iterator[Callable[[int], None]]:
        """Yield a function to call with how many of ``total`` are done; more of them are not shown."""
        if self.quiet or sys.stderr is None:
            yield lambda number: None
        elif not sys.stderr.isatty():
            step = max(total // 4, 1)

            def plain(number: int) -> None:
                if not self.quiet and number <= total and (number % step == 0 or number == total):
                    with self._output(sys.stderr):
                        print(f"{label}: {unit}{number} of {total}", file=sys.stderr, flush=True)

            yield plain
        else:
            from rich.console import Console
            from rich.markup import escape
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

            columns = (TextColumn("{task.description:>12}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
            bar = Progress(*columns, console=Console(stderr=True))
            with self._output(sys.stderr):
                bar.start()
            try:
                task = bar.add_task(escape(label), total=total)
                yield lambda number: bar.update(task, completed=number)
            finally:
                with self._output(sys.stderr):
                    bar.stop()

    @contextmanager
    def tally(self, label: str, total: int) -> Iterator[Callable[[int, int], None]]:
        """Yield a function to call with how many of ``total`` are done and how many have failed.

        On a terminal one line is kept true; elsewhere there is a line for each quarter, and each minute.
        """
        told = Tally(total)
        if self.quiet or sys.stderr is None:
            yield lambda done, failed: None
        elif not sys.stderr.isatty():

            def plain(done: int, failed: int) -> None:
                line = told.line(done, failed)
                if not self.quiet and told.is_due(done + failed):
                    with self._output(sys.stderr):
                        print(f"{label}: {line}", file=sys.stderr, flush=True)

            yield plain
        else:
            from rich.console import Console
            from rich.markup import escape
            from rich.progress import BarColumn, Progress, TextColumn

            columns = (TextColumn("{task.description:>12}"), BarColumn(), TextColumn("{task.fields[line]}"))
            # What goes to a file must not come out above the line instead.
            both = sys.stdout is not None and sys.stdout.isatty()
            bar = Progress(*columns, console=Console(stderr=True), redirect_stdout=both)
            with self._output(sys.stderr):
                bar.start()
            try:
                task = bar.add_task(escape(label), total=total, line="")
                yield lambda done, failed: bar.update(task, completed=done + failed, line=told.line(done, failed))
            finally:
                with self._output(sys.stderr):
                    bar.stop()

    @contextmanager
    def counter(self, label: str, unit: str, pause: float = 10.0) -> Iterator[Callable[[int], None]]:
        """Yield a function to call with how many there were by now, of a number that is not known.

        On a terminal one line is kept true; elsewhere there is a line every ``pause`` seconds.
        """
        if self.quiet or sys.stderr is None:
            yield lambda number: None
        elif not sys.stderr.isatty():
            said = time.monotonic()

            def plain(number: int) -> None:
                nonlocal said
                if not self.quiet and time.monotonic() - said >= pause:
                    said = time.monotonic()
                    with self._output(sys.stderr):
                        print(f"{label}: {number:,} {unit}", file=sys.stderr, flush=True)

            yield plain
        else:
            from rich.console import Console
            from rich.markup import escape

            line = Console(stderr=True).status(escape(label))
            with self._output(sys.stderr):
                line.start()
            try:
                yield lambda number: line.update(f"{escape(label)}: {number:,} {unit}")
            finally:
                with self._output(sys.stderr):
                    line.stop()

    @contextmanager
    def _output(self, stream: TextIO) -> Iterator[None]:
        try:
            yield
        except OSError:
            self.quiet = True
            forget(stream)


class Tally:
    """What is said of so many things that end one by one: how many are done, have failed, are left, and how long yet.

    Parameters
    ----------
    total : int
    clock : callable
        Returns seconds.
    """

    def __init__(self, total: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._total, self._clock = total, clock
        self._start: tuple[float, int] | None = None
        self._said: tuple[float, int] | None = None

    def line(self, done: int, failed: int) -> str:
        """Return the line; the time left is told by those that ended since the first call."""
        ended = done + failed
        self._start = self._start or (self._clock(), ended)
        since, before = self._start
        left = self._total - ended
        text = f"{done:,} done, {failed:,} failed, {left:,} left"
        if not left or ended == before:
            return text
        return f"{text}, {_duration((self._clock() - since) / (ended - before) * left)} to go"

    def is_due(self, ended: int) -> bool:
        """Return whether a line is due where each stays: at each quarter, each minute, and at the end."""
        now, quarter = self._clock(), 4 * ended // max(self._total, 1)
        if self._said is not None and quarter == self._said[1] and now - self._said[0] < _SELDOM_S:
            return False
        first, self._said = self._said is None, (now, quarter)
        return not first or ended == self._total


def _duration(seconds: float) -> str:
    minutes, rest = divmod(math.ceil(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def forget(stream: TextIO) -> None:
    """Let what still goes to an output that cannot be written go nowhere, also what Python writes as it ends."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


def _rich_table(title: str, columns: list[str], cells: list[list[str]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    # As texts: what stands in brackets is no markup.
    table = Table(title=Text(title), title_justify="left", show_edge=False)
    for name in columns:
        table.add_column(Text(name), justify="right")
    for row in cells:
        table.add_row(*map(Text, row))
    Console().print(table)


def text(value: Any) -> str:
    """Return a table cell: four digits of a fraction, thousands of a count, a dash for what is missing.

    A float too large to be a count has six digits.
    """
    import pandas as pd

    if isinstance(value, np.generic):
        value = value.item()
    if value is None or value is pd.NA or value is pd.NaT:
        return "–"
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        return " ".join(str(value).split())
    if value != value:
        return "–"
    if isinstance(value, numbers.Integral):
        whole = int(value)
        if abs(whole) < 2**63:
            return f"{whole:,}"
        value = float(whole) if abs(whole) < 1e308 else math.copysign(math.inf, 1 if whole > 0 else -1)
    number = float(value)
    if not number.is_integer():
        return f"{number:.4g}"
    return f"{number:,.0f}" if abs(number) < _LARGE else f"{number:.6g}"
