"""Cells of an experiment run by the workers of a Dask cluster: they need netsim and the data, but not the folder."""

from collections.abc import Iterator, Sequence

from netsim.errors import BadInput, one_line
from netsim.studies.experiment.cells import Cell
from netsim.studies.experiment.folder import CellRun, Job, write
from netsim.studies.origin import source_of
from netsim.studies.outcome import FAILED
from netsim.studies.sweeps.cluster import connected, map_there
from netsim.studies.sweeps.point import KILLED


def run_there(work: CellRun, jobs: Sequence[Job], address: str) -> Iterator[tuple[str, str | None]]:
    """Run cells on the workers of a scheduler, write their results here, and yield how each ended.

    Raises BadInput if the scheduler cannot be used, or a worker has another netsim.
    """
    with connected(address, work.limits) as client:
        _must_be_alike(client.run(source_of, "netsim", on_error="return"))
        cells = {job.name: job.cell for job in jobs}
        for name, found in map_there(client, Cell.measured, cells):
            if found is None:
                yield name, KILLED
                continue
            write(work.folder, work.running, cells[name], found)
            yield name, str(found.row["why"]) if found.row["outcome"] == FAILED else None


def _must_be_alike(reports: dict[str, object]) -> None:
    for worker, report in sorted(reports.items()):
        if isinstance(report, BaseException):
            raise BadInput(f"dask: worker {worker} must have the netsim that is here ({one_line(report)})")
        if report != source_of("netsim"):
            raise BadInput(f"dask: worker {worker} must have the netsim that is here; its source differs")
