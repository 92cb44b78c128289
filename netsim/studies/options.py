"""Command-line flags for parameters."""

from collections.abc import Iterable
from typing import Any

import click

from netsim.studies.catalogue import Parameter


def options_of(parameters: Iterable[Parameter], *, listed: bool = False) -> list[click.Parameter]:
    """Return the options for parameters; with ``listed`` each option is a text that may list several values."""
    options: list[click.Parameter] = []
    for parameter in parameters:
        flag, usual, words = "--" + parameter.name.replace("_", "-"), parameter.default, parameter.description
        switch = parameter.kind is bool and not listed
        alone: dict[str, Any] = {"is_flag": False, "flag_value": "true"} if listed and parameter.kind is bool else {}
        options.append(
            click.Option(
                [f"{flag}/--no-{flag[2:]}" if switch else flag, parameter.name],
                type=str if listed else parameter.kind,
                multiple=listed,
                metavar={int: "INTEGER", float: "FLOAT"}.get(parameter.kind, "TEXT") if listed else None,
                default=None if listed else usual,
                show_default=usual is not None and not listed,
                help=f"{words} [default: {usual}]" if listed and usual is not None else words,
                **alone,
            )
        )
    return options


def texts_of(parameters: Iterable[Parameter], flags: Iterable[str]) -> dict[str, list[str]]:
    """Return the texts given to flags, by parameter; raises BadInput for an unknown flag."""
    from netsim.util import check

    known = {f"--{each.name.replace('_', '-')}": each for each in parameters}
    texts: dict[str, list[str]] = {}
    words = list(flags)
    while words:
        flag, joined, value = words.pop(0).partition("=")
        negated = flag.startswith("--no-") and f"--{flag[5:]}" in known
        parameter = known[check.one_of("flag", f"--{flag[5:]}" if negated else flag, known)]
        alone = not words or (parameter.kind is bool and words[0].startswith("--"))
        if parameter.kind is bool and not joined and (alone or negated):
            value = "false" if negated else "true"
        elif not joined:
            value = "" if alone else words.pop(0)
        texts.setdefault(parameter.name, []).append(value)
    return texts
