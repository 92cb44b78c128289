"""An extension of mkdocstrings that turns names in single backticks in docstrings into links."""

import re
from typing import Any

import griffe

_NAME = re.compile(r"(?<!`)`([A-Za-z_][\w.]*)`(?!`)")


class References(griffe.Extension):
    """Links names such as `Network.run`, resolved in the docstring's scope as in Python, to their pages."""

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        """Replace the names in all docstrings of a package."""
        _link(pkg)


def _link(obj: griffe.Object) -> None:
    if obj.docstring is not None:
        obj.docstring.value = _NAME.sub(lambda match: _reference(obj, match.group(1)), obj.docstring.value)
    for member in obj.members.values():
        if not member.is_alias:
            _link(member)


def _reference(obj: griffe.Object, name: str) -> str:
    path = name if name.startswith("netsim.") else _resolved(obj, name)
    return f'<autoref identifier="{path}" optional><code>{name}</code></autoref>' if path else f"`{name}`"


def _resolved(obj: griffe.Object, name: str) -> str | None:
    first, _, rest = name.partition(".")
    try:
        found = obj.resolve(first)
    except griffe.NameResolutionError:
        return None
    return f"{found}.{rest}" if rest else found
