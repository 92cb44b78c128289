"""A user's site in place of a study's field: ``--site FILE --set site.PATH=VALUE``."""

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from netsim import BadInput, Deployment
from netsim.studies.experiment.command import assigned
from netsim.util import check
from netsim.util.datafiles import used

_FORM = "site.PATH=VALUE, several with commas between"


@dataclass(frozen=True, kw_only=True)
class OwnSite:
    """A site of your own.

    Parameters
    ----------
    site : str
        A site of your own: a TOML file of motes, walls, interferers and clocks (docs/sites.md), or a file of motes
        (docs/files.md).
    set : str
        Values in place of those in the site's file: site.radio.power_dbm=-5,site.interferers.ap.at=60.
    """

    site: str | None = None
    set: str | None = None

    def deployment(self, *, collects: bool = True) -> Deployment:
        """Return the site; if the study collects data, raise BadInput unless the site has exactly one sink."""
        assert self.site is not None
        used(Path(self.site))
        found = Deployment.read(self.site, self._changes())
        if collects and len(found.sinks) != 1:
            how = "sink = true in its table" if Path(self.site).suffix == ".toml" else "1 in the column 'sink'"
            raise BadInput(f"site = {self.site!r}: must have one mote with {how}; it has {len(found.sinks)}")
        return found

    @staticmethod
    def check_left_out(**given: tuple[Any, Any]) -> None:
        """Raise BadInput for a parameter, given as name=(value, default), that is set but has no effect with a site."""
        for name, (value, usual) in given.items():
            if value != usual:
                raise check.refuse(name, value, "left out with site")

    def _changes(self) -> dict[str, Any]:
        changes = {}
        for place, texts in assigned([self.set or ""], _FORM).items():
            if not place.startswith("site."):
                raise BadInput(f"set = {place!r}: must be {_FORM}")
            changes[place.removeprefix("site.")] = _value(",".join(texts))
        return changes

    def check_set(self) -> None:
        """Raise BadInput if values of a site are set, but no site is given."""
        if self.site is None and self.set:
            raise BadInput(f"set = {self.set!r}: must come with site")


def _value(text: str) -> Any:
    """Return a text parsed as a TOML value, or else the text."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text
