"""The commands that make a file of a run's trace: netsim replay, export."""

from pathlib import Path

import click

from netsim.studies.terminal import Reporter

__all__ = ["export_it", "replay_it"]


@click.command("replay")
@click.argument("place", metavar="RUNDIR|TRACE")
@click.option("--out", type=str, help="The HTML file. Default: replay.html in the run folder.")
@click.option("--algorithm", type=str, help="Of a run folder with several: which. Default: the last.")
@click.option("--most", type=int, default=500_000, show_default=True, help="Frames that it shows at most.")
def replay_it(place: str, out: str | None, algorithm: str | None, most: int) -> None:
    """Make one HTML file that shows a run which was made with --trace: it opens in any browser, from the disk."""
    from netsim.studies.replaying import replay

    reporter = Reporter()
    with reporter.counter("replay", "events read") as told:
        path = replay(place, out, algorithm=algorithm, most=most, told=told)
    _say_made(reporter, path, place, algorithm)


@click.command("export")
@click.argument("place", metavar="RUNDIR|TRACE")
@click.option("--format", "format_", type=str, required=True, help="pcapng: its frames; graphml or json: its topology.")
@click.option("--out", type=str, help="The file. Default: run.pcapng or topology.FORMAT in the run folder.")
@click.option("--algorithm", type=str, help="Of a run folder with several: which. Default: the last.")
@click.option("--most", type=int, help="Frames that pcapng holds at most. Default: all.")
def export_it(place: str, format_: str, out: str | None, algorithm: str | None, most: int | None) -> None:
    """Write a run which was made with --trace for other programs: Wireshark (pcapng), networkx (GraphML, JSON)."""
    from netsim.studies.exporting import export

    reporter = Reporter()
    with reporter.counter("export", "events read") as told:
        path = export(place, format_, out, algorithm=algorithm, most=most, told=told)
    _say_made(reporter, path, place, algorithm)


def _say_made(reporter: Reporter, path: Path, place: str, algorithm: str | None) -> None:
    """Print the path of what was made of a run's trace, and of which algorithms it could be made, too."""
    from netsim.studies.traces import traced

    reporter.line(str(path))
    others = traced(place)[:-1] if algorithm is None and Path(place).is_dir() else []
    if others:
        reporter.line(f"of the last algorithm; --algorithm shows another: {', '.join(others)}")
