"""The commands for real sockets: netsim deploy, node, gather."""

import sys
from pathlib import Path
from typing import Any

import click

from netsim.distributed.transport import TRANSPORTS, transport_of
from netsim.errors import BadInput
from netsim.studies.catalogue import Scenario
from netsim.studies.cli_scenarios import FORMATS, group_of, options_of
from netsim.studies.formats import Formats
from netsim.studies.terminal import Reporter

__all__ = ["deploy_them", "gather_it", "node_it"]

_OPTIONS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("--processes", {"type": int, "help": "So many processes on this machine."}),
    (
        "--nodes",
        {"type": str, "help": "Or those of a TOML file: [hosts.NAME] with an address, and agents if it is to."},
    ),
    ("--transport", {"type": str, "default": "udp", "show_default": True, "help": f"{', or '.join(TRANSPORTS)}."}),
    ("--broker", {"type": str, "help": "Of MQTT. Default: 127.0.0.1:1883."}),
    (
        "--round-time",
        {"type": float, "default": 0.1, "show_default": True, "help": "Real seconds that a round takes."},
    ),
    (
        "--patience",
        {"type": float, "default": 60.0, "show_default": True, "help": "Real seconds to wait for other processes."},
    ),
    (
        "--silence",
        {"type": float, "default": 5.0, "show_default": True, "help": "Real seconds after which one is dead."},
    ),
    ("--out", {"type": str, "help": "The run folder, new or empty. Default: the next free runs/NAME-n."}),
)
_TRACE: dict[str, Any] = {"is_flag": True, "help": "Keep the event log, too (trace-ALGORITHM.npz)."}


def _command(scenario: Scenario) -> click.Command:
    options = options_of(scenario)
    taken = {name.removeprefix("--").replace("-", "_") for name, _ in _OPTIONS}
    for parameter in scenario.parameters:
        if parameter.name in taken:
            raise BadInput(
                f"scenario = {scenario.name!r}: must give its parameter {parameter.name!r} another name here"
            )
    options += [click.Option([name], **more) for name, more in _OPTIONS]
    options.append(click.Option(["--trace"], **_TRACE))
    options += [
        click.Option([flag], type=str, default=usual, show_default=True, help=text) for flag, usual, text in FORMATS
    ]

    def call(out: str | None, trace: bool, figures: str, tables: str, **given: Any) -> None:
        from netsim.studies.deploy.deploy import deploy, plan_of
        from netsim.studies.deploy.plan import Settings, hosts_in, local_hosts

        how = {name: given.pop(name) for name in ("transport", "broker", "round_time", "patience", "silence")}
        processes, nodes = given.pop("processes"), given.pop("nodes")
        if (processes is None) == (nodes is None):
            raise BadInput("processes: must be given, or --nodes FILE instead")
        more: dict[str, Any] = {}
        if nodes is not None:
            hosts, more = hosts_in(nodes)
        carrier = how.pop("transport")
        broker = how.pop("broker")
        if broker is not None and not transport_of(carrier).needs_broker:
            with_broker = " or ".join(name for name in TRANSPORTS if transport_of(name).needs_broker)
            raise BadInput(f"broker = {broker!r}: must go with --transport {with_broker}")
        settings = Settings(carrier, **(more | how | ({} if broker is None else {"broker": broker})))
        if nodes is None:
            hosts = local_hosts(processes, carrier)
        plan = plan_of(scenario, given, settings, hosts, trace)
        whole = deploy(plan, out, Formats.chosen(figures, tables), Reporter())
        click.get_current_context().exit(0 if whole else 1)

    title = scenario.function.__doc__ and scenario.title
    return click.Command(scenario.name, callback=call, params=options, help=title, short_help=title)


@click.group("deploy", cls=group_of(_command), subcommand_metavar="NAME|PATH.py [--parameter value]... --processes N")
def deploy_them() -> None:
    """Run a scenario in several processes over real sockets, and hold what comes out against the simulation."""


@click.command("node")
@click.argument("folder")
@click.option("--host", type=str, required=True, help="Which process of the deployment this is.")
@click.option("--tell", is_flag=True, hidden=True)
@click.option("--parent", type=int, hidden=True)
def node_it(folder: str, host: str, tell: bool, parent: int | None) -> None:
    """Run one process of a deployment: FOLDER is what `netsim deploy` wrote."""
    from netsim.studies.deploy.deploy import participate
    from netsim.studies.deploy.processes import die_with

    if parent is not None:
        die_with(parent)

    def report(run: int, row: int) -> None:
        if tell:
            print(run, row, flush=True)
        elif row == 1:
            print(f"run {run + 1}: begun", file=sys.stderr, flush=True)

    participate(Path(folder), host, report)


@click.command("gather")
@click.argument("folder")
@click.option("--out", type=str, help="The run folder, new or empty. Default: the next free runs/NAME-n.")
@click.option("--figures", type=str, default="png", show_default=True, help=FORMATS[0][2])
@click.option("--tables", type=str, default="csv", show_default=True, help=FORMATS[1][2])
def gather_it(folder: str, out: str | None, figures: str, tables: str) -> None:
    """Make a run folder of what the processes of a deployment wrote, and hold it against the simulation."""
    from netsim.studies.deploy.deploy import gather_folder

    whole = gather_folder(Path(folder), out, Formats.chosen(figures, tables), Reporter())
    click.get_current_context().exit(0 if whole else 1)
