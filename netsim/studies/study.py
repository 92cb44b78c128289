"""A study: what one execution of a scenario measured, and the run folder that keeps it.

A scenario is a function ``def name(study, *, parameter: type = default, …)``. It runs networks through `Study.run`, and
leaves tables, notes and figures with the study; the command line saves them all in one folder, whole or not at all.
"""

import dataclasses
import hashlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from netsim import check
from netsim.network import Agents, Network
from netsim.run import Probe, Run
from netsim.studies.claim import Claim, claim
from netsim.studies.folder import check_algorithm, check_file_name, plain
from netsim.studies.folder import save as write_folder
from netsim.studies.terminal import Reporter

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

COLUMNS = (
    "algorithm",
    "round",
    "time_s",
    "transmissions",
    "delivered",
    "payload_bits",
    "wire_bits",
)
"""The columns that every rounds.csv begins with; measures follow."""


class Study:
    """What one execution of a scenario leaves.

    Parameters
    ----------
    scenario : str
        Its name, or the path of its file.
    settings : mapping
        Its parameters by name, as given or by default.
    columns : sequence of str
        Measures that come first in rounds.csv, empty where one does not apply; others follow.
    trace : bool
        Whether to keep the event log of every run.
    reporter : Reporter, optional
        Where progress, tables and notes go; default: nowhere.

    Attributes
    ----------
    settings : dict
        All that is needed to repeat it; a scenario puts there what it chose for a parameter left open.
    centralised : dict
        The measures of a reference with all data in one place, by name.
    runs : dict
        Each `Run` by the name of its algorithm.
    """

    def __init__(
        self,
        scenario: str,
        settings: Mapping[str, Any],
        *,
        columns: Sequence[str] = (),
        trace: bool = False,
        reporter: Reporter | None = None,
    ) -> None:
        self.scenario = scenario
        self.settings = dict(settings)
        self.centralised: dict[str, float] = {}
        self.runs: dict[str, Run] = {}
        self.notes: list[str] = []
        self.tables: dict[str, pd.DataFrame] = {}
        self.figures: dict[str, Figure] = {}
        self._columns = (*COLUMNS, *columns)
        self._trace = trace
        self._reporter = reporter or Reporter(quiet=True)

    # --- what scenarios call ------------------------------------------------------------------------------------------

    def run(
        self,
        algorithm: str,
        network: Network,
        agents: Agents,
        probes: Sequence[Probe],
        rounds: int,
        *,
        sample: float | None = None,
    ) -> Run:
        """Run a network of agents under the name of an algorithm, showing progress over so many rounds.

        With ``sample`` there is a row every so many seconds instead, as `Network.run` has it; ``rounds`` then is how
        many rows there will be, as far as can be told.
        """
        check_algorithm(algorithm)
        if algorithm in self.runs:
            raise check.refuse("algorithm", algorithm, "a name of its own in this study")
        with self._reporter.progress(algorithm, rounds, "round ") as progress:
            run = network.run(agents, probes, sample=sample, trace=self._trace, progress=progress)
        self.runs[algorithm] = run
        return run

    def progress(self, label: str, total: int) -> AbstractContextManager[Callable[[int], None]]:
        """Return a context that shows progress: call what it gives with how many of ``total`` are done."""
        return self._reporter.progress(label, total)

    def note(self, text: str) -> None:
        """Say something that a reader of the results should know."""
        self.notes.append(str(text))
        self._reporter.line(str(text))

    def record(self, *chosen: Any, **more: Any) -> None:
        """Put what a study chose for parameters left open into its settings: the fields of dataclasses, and names."""
        for each in chosen:
            self.settings |= {field.name: getattr(each, field.name) for field in dataclasses.fields(each)}
        self.settings |= more

    def table(self, name: str, title: str, frame: "pd.DataFrame") -> None:
        """Show a table, and keep it as ``<name>.csv``."""
        check_file_name("table", name)
        _must_be(f"table {name!r}", frame, "to_csv", "a pandas DataFrame")
        self.tables[name] = frame
        self._reporter.table(title, frame)

    def figure(self, name: str, figure: "Figure") -> None:
        """Keep a figure as ``<name>.png``."""
        check_file_name("figure", name)
        _must_be(f"figure {name!r}", figure, "savefig", "a matplotlib Figure")
        self.figures[name] = figure

    # --- what was measured --------------------------------------------------------------------------------------------

    @property
    def rounds(self) -> "pd.DataFrame":
        """One row for each algorithm and round; `COLUMNS` and the study's own columns first."""
        import pandas as pd

        parts = [run.rounds.assign(algorithm=name) for name, run in self.runs.items()]
        table = pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()
        return table.reindex(columns=[*self._columns, *(name for name in table.columns if name not in self._columns)])

    @property
    def ledger(self) -> "pd.DataFrame":
        """One row for each algorithm, link and kind of message."""
        import pandas as pd

        parts = [run.ledger.table() for run in self.runs.values()]
        for name, part in zip(self.runs, parts, strict=True):
            part.insert(0, "algorithm", name)
        return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()

    @property
    def trace_hash(self) -> str:
        """One hash of all runs' traces."""
        return hashlib.sha256("".join(run.trace_hash for run in self.runs.values()).encode()).hexdigest()[:32]

    def summary(self) -> dict[str, Any]:
        """Return the last value of each column by algorithm, the centralised reference and the hash."""
        rounds = self.rounds
        algorithms = {}
        for name, run in self.runs.items():
            rows = rounds[rounds["algorithm"] == name]
            last = (
                {} if rows.empty else {key: _last(value) for key, value in rows.iloc[-1].items() if key != "algorithm"}
            )
            algorithms[name] = last | {"trace_hash": run.trace_hash}
        return {
            "scenario": self.scenario,
            "algorithms": algorithms,
            "centralised": {str(name): _last(value) for name, value in self.centralised.items()},
            "trace_hash": self.trace_hash,
            "notes": self.notes,
        }

    # --- the run folder -----------------------------------------------------------------------------------------------

    @property
    def keeps_trace(self) -> bool:
        """Whether the event logs of its runs are kept."""
        return self._trace

    def save(self, folder: str | Path | Claim) -> Path:
        """Write the run folder, which must be new or empty, and return it.

        A new folder appears by one rename, once it is whole; one that exists is filled file by file, summary.json last.

        Parameters
        ----------
        folder : str, Path or Claim
            Where to; a `Claim` was made before the run, and stays the caller's to close.

        Raises
        ------
        BadInput
            If the folder holds something, or cannot be written.
        Unsaved
            If writing fails half-way or a file cannot be made: the message says what was kept, and where.
        """
        if isinstance(folder, Claim):
            return write_folder(self, folder)
        with claim(folder) as place:
            return write_folder(self, place)


def _last(value: Any) -> Any:
    """Return a measure as a summary has it: counts as whole numbers, None for what is missing or not finite."""
    number = plain(value)
    return int(number) if isinstance(number, float) and number.is_integer() and abs(number) < 2**53 else number


def _must_be(what: str, value: object, method: str, allowed: str) -> None:
    if not hasattr(value, method):
        raise check.refuse(what, value, allowed)
