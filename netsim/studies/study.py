"""A study: what one execution of a scenario measured, and the run folder that keeps it.

A scenario is a function ``def name(study, *, parameter: type = default, …)``. It runs networks through `Study.run`, and
leaves tables, notes and figures with the study; the command line saves them all in one folder, whole or not at all.
"""

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from netsim import check
from netsim.errors import BadInput
from netsim.network import Agents, Network
from netsim.run import Probe, Run
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
    "train_mse",
    "test_mse",
    "consensus_error",
    "dual_residual",
)
"""The columns that every rounds.csv begins with; others follow."""

FILES = ("settings.json", "rounds.csv", "ledger.csv", "summary.json")
"""What every run folder holds."""


class Study:
    """What one execution of a scenario leaves.

    Parameters
    ----------
    scenario : str
        Its name, or the path of its file.
    settings : mapping
        Its parameters by name, as given or by default.
    trace : bool
        Whether to keep the event log of every run.
    reporter : Reporter, optional
        Where progress, tables and notes go; default: nowhere.

    Attributes
    ----------
    settings : dict
        All that is needed to repeat it; a scenario puts there what it chose for a parameter left open.
    centralised : dict
        The reference with all data in one place: train_mse, test_mse.
    runs : dict
        Each `Run` by the name of its algorithm.
    """

    def __init__(
        self, scenario: str, settings: Mapping[str, Any], *, trace: bool = False, reporter: Reporter | None = None
    ) -> None:
        self.scenario = scenario
        self.settings = dict(settings)
        self.centralised: dict[str, float] = {}
        self.runs: dict[str, Run] = {}
        self.notes: list[str] = []
        self.tables: dict[str, pd.DataFrame] = {}
        self.figures: dict[str, Figure] = {}
        self._trace = trace
        self._reporter = reporter or Reporter(quiet=True)

    # --- what scenarios call ------------------------------------------------------------------------------------------

    def run(self, algorithm: str, network: Network, agents: Agents, probes: Sequence[Probe], rounds: int) -> Run:
        """Run a network of agents under the name of an algorithm, showing progress over so many rounds."""
        if algorithm in self.runs:
            raise check.refuse("algorithm", algorithm, "a name of its own in this study")
        with self._reporter.progress(algorithm, rounds, "round ") as progress:
            run = network.run(agents, probes, trace=self._trace, progress=progress)
        self.runs[algorithm] = run
        return run

    def progress(self, label: str, total: int) -> AbstractContextManager[Callable[[int], None]]:
        """Return a context that shows progress: call what it gives with how many of ``total`` are done."""
        return self._reporter.progress(label, total)

    def note(self, text: str) -> None:
        """Say something that a reader of the results should know."""
        self.notes.append(text)
        self._reporter.line(text)

    def table(self, name: str, title: str, frame: "pd.DataFrame") -> None:
        """Show a table, and keep it as ``<name>.csv``."""
        self.tables[name] = frame
        self._reporter.table(title, frame)

    def figure(self, name: str, figure: "Figure") -> None:
        """Keep a figure as ``<name>.png``."""
        self.figures[name] = figure

    # --- what was measured --------------------------------------------------------------------------------------------

    @property
    def rounds(self) -> "pd.DataFrame":
        """One row for each algorithm and round; the columns of `COLUMNS` first, empty where a metric does not apply."""
        import pandas as pd

        parts = [run.rounds.assign(algorithm=name) for name, run in self.runs.items()]
        table = pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()
        return table.reindex(columns=[*COLUMNS, *(name for name in table.columns if name not in COLUMNS)])

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
                {} if rows.empty else {key: _plain(value) for key, value in rows.iloc[-1].items() if key != "algorithm"}
            )
            algorithms[name] = last | {"trace_hash": run.trace_hash}
        return {
            "scenario": self.scenario,
            "algorithms": algorithms,
            "centralised": self.centralised,
            "trace_hash": self.trace_hash,
            "notes": self.notes,
        }

    # --- the run folder -----------------------------------------------------------------------------------------------

    def save(self, folder: str | Path) -> Path:
        """Write the run folder, which must be new or empty; it appears only once it is whole.

        Raises
        ------
        BadInput
            If the folder holds something, or cannot be made.
        """
        target = Path(folder)
        check_free(target)
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            work = Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{target.name}."))
        except OSError as error:
            raise BadInput(f"out = {str(folder)!r}: must be a folder that can be written ({error.strerror})") from None
        try:
            self._write(work)
            work.chmod(0o777 & ~_umask())
            if target.exists():
                target.rmdir()
            work.rename(target)
        except BaseException:
            shutil.rmtree(work, ignore_errors=True)
            raise
        return target

    def _write(self, folder: Path) -> None:
        settings = {"scenario": self.scenario, "parameters": self.settings, "netsim": version("netsim")}
        (folder / "settings.json").write_text(json.dumps(settings, indent=2) + "\n")
        self.rounds.to_csv(folder / "rounds.csv", index=False)
        self.ledger.to_csv(folder / "ledger.csv", index=False)
        for name, table in self.tables.items():
            table.to_csv(folder / f"{name}.csv", index=False)
        for name, figure in self.figures.items():
            figure.savefig(folder / f"{name}.png", dpi=150)
        if self._trace:
            for name, run in self.runs.items():
                run.trace.save(folder / f"trace-{name}.npz")
        summary = self.summary()
        # The sizes let a reader notice a file that was cut short later on.
        summary["bytes"] = {path.name: path.stat().st_size for path in sorted(folder.iterdir())}
        (folder / "summary.json").write_text(json.dumps(summary, indent=2) + "\n")


def check_free(folder: str | Path) -> None:
    """Raise BadInput unless ``folder`` does not exist yet or is empty."""
    path = Path(folder)
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise BadInput(f"out = {str(folder)!r}: must be a new or an empty folder")


def load(folder: str | Path) -> dict[str, Any]:
    """Return a run folder's settings, summary and rounds (a DataFrame), after checking that it is whole.

    Raises
    ------
    BadInput
        If it is no run folder, or a file is missing, cut short or unreadable.
    """
    import pandas as pd

    path = Path(folder)
    wanted = f"run folder = {str(folder)!r}: must be what `netsim run` wrote"
    missing = [name for name in FILES if not (path / name).is_file()]
    if missing:
        raise BadInput(f"{wanted}; {'there is no such folder' if not path.is_dir() else 'it has no ' + missing[0]}")
    try:
        summary = json.loads((path / "summary.json").read_text())
        for name, size in summary["bytes"].items():
            there = (path / name).stat().st_size if (path / name).is_file() else 0
            if there != size:
                raise BadInput(f"{wanted}; {name} has {there} bytes of {size}: it was cut short or changed")
        settings = json.loads((path / "settings.json").read_text())
        return {"settings": settings, "summary": summary, "rounds": pd.read_csv(path / "rounds.csv")}
    except (ValueError, KeyError, AttributeError, TypeError) as error:
        raise BadInput(f"{wanted}; it cannot be read ({type(error).__name__}: {error})") from None


def _plain(value: Any) -> Any:
    """Return a number as JSON has it: None for what is missing or not finite."""
    import pandas as pd

    if pd.isna(value):
        return None
    number = float(value)
    return int(number) if number.is_integer() else number if abs(number) < float("inf") else None


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
