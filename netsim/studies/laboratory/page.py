"""The page of a lab: a replay's page, with settings on the left and branches on the right."""

from importlib.resources import files
from pathlib import Path

from netsim.replay.html import page_of

__all__ = ["page"]


def page(study: str, *, framed: bool = False) -> str:
    """Return the page of a lab on a study.

    With ``framed``, the page sends requests to its parent page instead of a server.
    """
    style, script = (
        (files("netsim.studies.laboratory") / "page" / name).read_text("utf-8") for name in ("lab.css", "lab.js")
    )
    meta = {"title": f"Lab: {Path(study).name}", "lab": {"study": study, "framed": framed}}
    return page_of(meta, None, asks=not framed, style=style, script=script)
