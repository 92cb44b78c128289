"""The flags that a scenario's parameters are on the command line."""

from collections.abc import Callable

import click

from netsim._former import SETTINGS, must_be_current
from netsim.studies import catalogue
from netsim.studies.catalogue import Scenario

__all__ = ["FORMATS", "group_of", "options_of"]

FORMATS = (
    ("--figures", "png", "Formats of the figures: png, svg, pdf, or several with commas between."),
    ("--tables", "csv", "Format of the tables: csv, or parquet (smaller; takes pip install '.[arrow]')."),
)
"""Flags of whatever writes a run folder: name, default, help."""


def options_of(scenario: Scenario) -> list[click.Parameter]:
    """Return the options that stand for a scenario's parameters."""
    options: list[click.Parameter] = []
    for parameter in scenario.parameters:
        flag = "--" + parameter.name.replace("_", "-")
        switch = parameter.kind is bool
        options.append(
            click.Option(
                [f"{flag}/--no-{flag[2:]}" if switch else flag, parameter.name],
                type=parameter.kind,
                default=parameter.default,
                show_default=parameter.default is not None,
                help=parameter.description,
            )
        )
    for name in SETTINGS.keys() - {parameter.name for parameter in scenario.parameters}:
        flags = f"--{name}/--no-{name}"
        options.append(click.Option([flags], default=None, hidden=True, expose_value=False, callback=_refuse_former))
    return options


def _refuse_former(context: click.Context, option: click.Parameter, value: bool | None) -> None:
    """Refuse a flag that earlier versions had."""
    if value is not None:
        must_be_current(str(option.name), value)


def group_of(command: Callable[[Scenario], click.Command]) -> type[click.Group]:
    """Return a group with a command for each scenario."""

    class Scenarios(click.Group):
        """A command for each scenario, its flags made from the function's parameters."""

        def list_commands(self, ctx: click.Context) -> list[str]:
            return list(catalogue.listed())

        def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command:
            return command(catalogue.find_study(cmd_name))

    return Scenarios
