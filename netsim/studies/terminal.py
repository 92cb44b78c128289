"""What a person sees while something runs: progress, tables, notes. Plain text where the output is no terminal."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd


class Reporter:
    """Writes to standard output, and progress to standard error. ``quiet`` writes nothing."""

    def __init__(self, quiet: bool = False) -> None:
        self.quiet = quiet

    def line(self, text: str = "") -> None:
        """Print one line."""
        if not self.quiet:
            print(text, flush=True)

    def table(self, title: str, frame: "pd.DataFrame") -> None:
        """Print a table under its title."""
        if self.quiet:
            return
        cells = [[text(value) for value in row] for row in frame.itertuples(index=False)]
        if not sys.stdout.isatty():
            columns = [str(name) for name in frame.columns]
            widths = [max(map(len, column)) for column in zip(columns, *cells, strict=True)]
            print(f"\n{title}")
            for row in [columns, *cells]:
                print("  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
            print(flush=True)
            return
        from rich.console import Console
        from rich.table import Table

        table = Table(title=title, title_justify="left", show_edge=False)
        for name in frame.columns:
            table.add_column(str(name), justify="right")
        for row in cells:
            table.add_row(*row)
        Console().print(table)

    @contextmanager
    def progress(self, label: str, total: int, unit: str = "") -> Iterator[Callable[[int], None]]:
        """Yield a function to call with how many of ``total`` are done; more of them are not shown."""
        if self.quiet:
            yield lambda number: None
        elif not sys.stderr.isatty():
            step = max(total // 4, 1)

            def plain(number: int) -> None:
                if number <= total and (number % step == 0 or number == total):
                    print(f"{label}: {unit}{number} of {total}", file=sys.stderr, flush=True)

            yield plain
        else:
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

            columns = (TextColumn("{task.description:>12}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
            with Progress(*columns, console=Console(stderr=True)) as bar:
                task = bar.add_task(label, total=total)
                yield lambda number: bar.update(task, completed=number)


def text(value: Any) -> str:
    """Return a table cell: four digits of a fraction, thousands of a count, a dash for what is missing."""
    import pandas as pd

    if isinstance(value, str):
        return value
    if value is None or pd.isna(value):
        return "–"
    if isinstance(value, float) and not value.is_integer():
        return f"{value:.4g}"
    return f"{value:,.0f}"
