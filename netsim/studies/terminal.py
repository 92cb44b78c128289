"""Terminal output of a run: progress, tables, notes; plain text if the output is not a terminal."""

import math
import numbers
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    import pandas as pd

# A whole float this large is most likely a diverged measure, not a count.
_LARGE = 1e15
_AS_COUNT = 1e4  # from here on four digits do not show whole numbers
_SELDOM_S = 60.0


class Reporter:
    """Writes ``texts`` to standard output, and progress ``bars`` to standard error; ``quiet`` writes nothing.

    An unwritable output (a closed pipe, a full disk) does not end the run, but the rest of the output is lost.
    """

    def __init__(self, quiet: bool = False, *, texts: bool = True, bars: bool = True) -> None:
        self.quiet = quiet
        self._texts, self._bars = texts, bars

    def line(self, text: str = "") -> None:
        """Print one line."""
        if self._texts and not self.quiet:
            with self._output(sys.stdout):
                # Print text and newline in one call, so that an interrupt does not separate them.
                print(f"{text}\n", end="", flush=True)

    def lines(self, texts: Iterable[str]) -> None:
        """Print texts, one per line."""
        for text in texts:
            self.line(text)

    def table(self, title: str, frame: "pd.DataFrame") -> None:
        """Print a table under its title."""
        if self.quiet or not self._texts or sys.stdout is None:
            return
        from netsim.studies.paper_tables import with_shares

        frame = with_shares(frame, text)
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

    def progress(self, label: str, total: int, unit: str = "") -> AbstractContextManager[Callable[[int], None]]:
        """Yield a function to call with the number done, out of ``total``; a larger number is shown as ``total``."""
        step = max(total // 4, 1)

        def is_due(number: int) -> bool:
            return number <= total and (number % step == 0 or number == total)

        return self._followed(label, total, lambda number: f"{unit}{number} of {total}", is_due, timed=True)

    def tally(self, label: str, total: int) -> AbstractContextManager[Callable[[int, int], None]]:
        """Yield a function to call with the numbers of jobs done and failed, out of ``total``.

        On a terminal one line is updated; elsewhere a line is printed for each quarter, and each minute.
        """
        tally = Countdown(total)
        return self._followed(label, total, tally.line, tally.is_due)

    def counter(self, label: str, unit: str, pause: float = 10.0) -> AbstractContextManager[Callable[[int], None]]:
        """Yield a function to call with a number that grows to an unknown total.

        On a terminal one line is updated; elsewhere a line is printed every ``pause`` seconds.
        """
        printed = time.monotonic()

        def is_due(number: int) -> bool:
            nonlocal printed
            before, now = printed, time.monotonic()
            printed = now if now - before >= pause else before
            return printed != before

        return self._followed(label, None, lambda number: f"{number:,} {unit}", is_due, transient=True)

    @contextmanager
    def _followed(
        self, label: str, total: int | None, line: Callable[..., str], is_due: Callable[[int], bool], **bar: bool
    ) -> Iterator[Callable[..., None]]:
        """Yield a function to call with one or more numbers, such as those of jobs done and failed.

        ``line`` formats the numbers, and their sum is the progress.

        On a terminal the function updates a bar (`_bar`); elsewhere it prints the text if ``is_due`` returns true for
        the sum.
        """
        if self.quiet or not self._bars or sys.stderr is None:
            yield lambda *numbers: None
        elif sys.stderr.isatty():
            with self._bar(label, total, **bar) as update:
                yield lambda *numbers: update(completed=sum(numbers), line=line(*numbers))
        else:

            def tell(*numbers: int) -> None:
                text = line(*numbers)
                if not self.quiet and is_due(sum(numbers)):
                    with self._output(sys.stderr):
                        print(f"{label}: {text}\n", end="", file=sys.stderr, flush=True)

            yield tell

    @contextmanager
    def _bar(
        self, label: str, total: int | None, *, timed: bool = False, transient: bool = False
    ) -> Iterator[Callable[..., None]]:
        """Show a bar on the terminal, with its line or, if ``timed``, the remaining time; yield the update function."""
        from rich import console, markup, progress

        columns: list[progress.ProgressColumn] = [progress.TextColumn("{task.description:>12}"), progress.BarColumn()]
        columns += (
            [progress.MofNCompleteColumn(), progress.TimeRemainingColumn()]
            if timed
            else [progress.TextColumn("{task.fields[line]}")]
        )
        # Redirect standard output above the bar only if it is a terminal: lines for a file must go to the file.
        both = sys.stdout is not None and sys.stdout.isatty()
        screen = console.Console(stderr=True)
        bar = progress.Progress(*columns, console=screen, redirect_stdout=both, transient=transient)
        with self._output(sys.stderr):
            bar.start()
        try:
            yield partial(bar.update, bar.add_task(markup.escape(label), total=total, line=""))
        finally:
            with self._output(sys.stderr):
                bar.stop()

    @contextmanager
    def _output(self, stream: TextIO) -> Iterator[None]:
        try:
            yield
        except OSError:
            self.quiet = True
            forget(stream)


class Countdown:
    """The progress line of ``total`` jobs: the numbers of jobs done, failed and left, and the remaining time."""

    def __init__(self, total: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._total, self._clock = total, clock
        self._start: tuple[float, int] | None = None
        self._printed: tuple[float, int] | None = None

    def line(self, done: int, failed: int) -> str:
        """Return the progress line; the remaining time is estimated from jobs that ended since the first call."""
        ended = done + failed
        self._start = self._start or (self._clock(), ended)
        since, before = self._start
        left = self._total - ended
        text = f"{done:,} done, {failed:,} failed, {left:,} left"
        if not left or ended == before:
            return text
        return f"{text}, {_duration((self._clock() - since) / (ended - before) * left)} to go"

    def is_due(self, ended: int) -> bool:
        """Return whether to print a line if the output is no terminal: at each quarter, each minute, and at the end."""
        now, quarter = self._clock(), 4 * ended // max(self._total, 1)
        if self._printed is not None and quarter == self._printed[1] and now - self._printed[0] < _SELDOM_S:
            return False
        first, self._printed = self._printed is None, (now, quarter)
        return not first or ended == self._total


def _duration(seconds: float) -> str:
    minutes, rest = divmod(math.ceil(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def forget(stream: TextIO) -> None:
    """Redirect an unwritable output to the null device, so that Python's own flush at exit does not fail either."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


def _rich_table(title: str, columns: list[str], cells: list[list[str]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    # Text objects, because rich would parse brackets in a str as markup.
    table = Table(title=Text(title), title_justify="left", show_edge=False)
    for name in columns:
        # Fold long text into several lines, which rich would otherwise cut off.
        table.add_column(Text(name), justify="right", overflow="fold")
    for row in cells:
        table.add_row(*map(Text, row))
    Console().print(table)


def text(value: Any) -> str:
    """Return the text of a table cell: four digits of a fraction, thousands separators, a dash for a missing value.

    A float from ten thousand on, such as a mean of counts, is written as a whole number, like the counts of its column.
    A float too large for a count has six digits.
    """
    import numpy as np
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
    if not number.is_integer() and abs(number) < _AS_COUNT:
        return f"{number:.4g}"
    return f"{number:,.0f}" if abs(number) < _LARGE else f"{number:.6g}"
