"""What a person sees while something runs: progress, tables, notes. Plain text where the output is no terminal."""

import math
import numbers
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, TextIO

import numpy as np

if TYPE_CHECKING:
    import pandas as pd

# From here on a whole float is no count any more but, most likely, a measure that diverged.
_LARGE = 1e15


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
    def _output(self, stream: TextIO) -> Iterator[None]:
        try:
            yield
        except OSError:
            self.quiet = True
            forget(stream)


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
