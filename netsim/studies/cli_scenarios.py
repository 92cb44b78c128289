"""The flags that a scenario's parameters are on the command line."""

import click

from netsim.studies.catalogue import Scenario

__all__ = ["FORMATS", "options_of"]

FORMATS = (
    ("--figures", "png", "Formats of the figures: png, svg, pdf, or several with commas between."),
    ("--tables", "csv", "Format of the tables: csv, or parquet (smaller; takes pip install 'netsim[arrow]')."),
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
    return options
