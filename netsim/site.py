"""Site files: positions of motes and sources of interference, in TOML, with csv files for long lists.

`netsim.Deployment.read` describes their content.
"""

import dataclasses
import inspect
import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from netsim import mobility
from netsim.errors import BadInput
from netsim.faults import Move
from netsim.files.content import FileContent
from netsim.files.file_kinds import kind_of, read_motes
from netsim.files.motes import COLUMNS, NUMBERS
from netsim.interferers import KINDS
from netsim.radio import presets
from netsim.radio.pathloss import LogDistance
from netsim.radio.walls import Walls
from netsim.util import check, draws, tables, toml

__all__ = ["Site", "motes_in", "motes_of"]

# Attributes drawn for motes that do not set them: the draw's name, and the lower bound as a multiple of the upper
# bound.
_DRAWN = {"drift_ppm": ("clock drift", -1.0), "offset": ("clock offset", 0.0), "start": ("start", 0.0)}
_PRESETS = ("ieee802154", "bluetooth_low_energy", "lora", "wifi")
_PLAIN = ("seed", "least", "weakest_db", "connected", "start", "warm_up", "preset")
_TABLES = ("radio", "phy", "path_loss", "building", "clocks", "motes", "interferers", "mobility")
# Radio fields that a site file cannot set in its [radio] table: not plain values, or set in a separate table.
_NOT_OF_RADIO = ("phy", "powers", "power_dbm", "energy", "duty_cycle", "airtime", "sensing", "interference")


def _change(site: dict[str, Any], path: str, value: Any) -> None:
    *tables_, last = path.split(".")
    for name in tables_:
        site = site.setdefault(name, {})
        if not isinstance(site, dict):
            raise check.refuse("site", path, "the path of a key, as radio.power_dbm")
    site[last] = value


def drawn(name: str, given: float | Mapping[Any, float], node: Hashable, seed: int) -> float:
    """Return a mote's value of an attribute in `_DRAWN`: given by mote, or drawn with the common value as maximum."""
    if isinstance(given, Mapping):
        return float(given.get(node, 0.0))
    what, low = _DRAWN[name]
    return float(given * draws.generator(seed, node, what).uniform(low, 1.0)) if given else 0.0


def motes_of(found: Mapping[Hashable, Mapping[str, Any]]) -> dict[str, Any]:
    """Return the `netsim.Deployment` arguments of motes, given {mote: its attributes}."""
    given: dict[str, Any] = {"positions": {}, "sinks": [], "roaming": [], "roles": {}, **{key: {} for key in NUMBERS}}
    for node, mote in found.items():
        given["positions"][node] = mote["position"]
        for flag, name in (("sink", "sinks"), ("roaming", "roaming")):
            given[name] += [node] if mote.get(flag) else []
        given["roles"] |= {node: mote["role"]} if mote.get("role") else {}
        for key in NUMBERS:
            given[key] |= {node: mote[key]} if key in mote else {}
    return {name: each for name, each in given.items() if each or name in ("positions", "sinks")}


def motes_in(file: str | Path) -> dict[Hashable, dict[str, Any]]:
    """Return {mote: its attributes} from a file, and warn of omitted data; an error names the line."""
    source = FileContent.read("file", file)
    found = read_motes(source)
    if found.notes:
        check.doubt(f"{source.where}, {found.form}: {'; '.join(found.notes)}")
    return found.motes


class Site:
    """Reads a site file; errors name the line. ``changes`` replace values of the file, keyed by path."""

    def __init__(self, file: str | Path, changes: Mapping[str, Any]) -> None:
        if Path(file).suffix == ".toml":
            text, self._tables = toml.read(file)
        else:
            text, self._tables = "", {"motes": {"file": Path(file).name}}
            if kind_of(FileContent.read("file", file)) == "ways":
                self._tables["mobility"] = {"file": Path(file).name}
        self._file, self._lines, self._changed = Path(file), toml.lines_of(text), frozenset(changes)
        for path, value in changes.items():
            _change(self._tables, path, value)

    @contextmanager
    def at(self, path: str) -> Iterator[None]:
        """Add a line number to errors raised inside: the line of the first key that is named, or of its table."""
        try:
            yield
        except (BadInput, TypeError) as error:
            text = str(error)
            if text.startswith(self._file.name):
                raise
            named = re.match(r"(?:positions|key = ')?(\w+)?(?:\['?(.+?)'?\])?", text)
            assert named is not None
            parts = [path, *("motes" if text.startswith("positions") else "",), *named.groups()]
            whole = ".".join(filter(None, parts))
            places = *([f"{whole}.position"] if named[2] else []), whole, f"clocks.{whole}", path
            where = next((self._lines[each] for each in places if each in self._lines), None)
            line = "" if where is None or whole in self._changed else f", line {where}"
            raise BadInput(f"{self._file.name}{line}: {path}{': ' if path else ''}{text}") from None

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of `netsim.Deployment`."""
        site = self._tables
        with self.at(""):
            for name, value in site.items():
                check.one_of("key", name, (*_PLAIN, *_TABLES, "moves"))
                if name in _TABLES and not isinstance(value, dict):
                    raise check.refuse(name, value, f"a table, [{name}]")
            seed = check.integer("seed", site.get("seed", 0), low=0)
        given = {name: site[name] for name in _PLAIN if name in site and name != "preset"}
        with self.at("clocks"):
            given |= self._only("clocks", site, ("drift_ppm", "offset"))
        motes = self._motes(site.get("motes", {}))
        own = motes_of(motes)
        for name in own.keys() & given.keys():
            with self.at(""):
                usual = check.finite(name, given[name], low=0)
            own[name] = {node: drawn(name, usual, node, seed) for node in motes} | own[name]
        return (
            given
            | own
            | {
                "path_loss": self._path_loss(site),
                "preset": self._preset(site),
                "interferers": {
                    tables.named(name): self._interferer(name, each)
                    for name, each in site.get("interferers", {}).items()
                },
                "moves": self._moves(site),
            }
        )

    def _only(self, table: str, site: Mapping[str, Any], keys: tuple[str, ...]) -> dict[str, Any]:
        given = dict(site.get(table, {}))
        check.each_one_of("key", given, keys)
        return given

    def _motes(self, table: dict[str, Any]) -> dict[Hashable, dict[str, Any]]:
        table, found = dict(table), dict[Hashable, dict[str, Any]]()
        if isinstance(table.get("file"), str):
            with self.at("motes"):
                found = motes_in(self._file.parent / table.pop("file"))
        for name, mote in table.items():
            node = tables.named(name)
            with self.at(f"motes.{name}"):
                if not isinstance(mote, dict):
                    raise check.refuse(
                        name, mote, "a table of position, and if wanted of what else is known of the mote"
                    )
                check.each_one_of("key", mote, ("position", *COLUMNS[1:]))
                # The csv file supplies the attributes that the mote's table omits.
                before = found.get(node, {})
                if "position" not in before | mote:
                    raise BadInput("position: must be given: (x, y) or (x, y, z) in metres")
                for flag in ("sink", "roaming"):
                    check.flag(flag, mote.get(flag, False))
                for key in NUMBERS:
                    check.finite(key, mote.get(key, 0.0))
                check.instance("role", mote.get("role", ""), str, "text")
                place = check.finite_array("position", mote["position"]) if "position" in mote else None
                found[node] = before | mote | ({} if place is None else {"position": tuple(place.tolist())})
        return found

    def _preset(self, site: dict[str, Any]) -> presets.Preset:
        with self.at(""):
            make: Callable[..., presets.Preset] = getattr(
                presets, check.one_of("preset", site.get("preset", "ieee802154"), _PRESETS)
            )
        own, radio = inspect.signature(make).parameters, dict(site.get("radio", {}))
        with self.at("radio"):
            preset = make(**{key: radio.pop(key) for key in own if key in radio})
            assert preset.radio is not None
            _check_keys(radio, preset.radio, _NOT_OF_RADIO, own)
            found = dataclasses.replace(preset.radio, **radio)
        with self.at("phy"):
            phy = dict(site.get("phy", {}))
            if phy and found.phy is None:
                raise BadInput("must be left out: the preset has none")
            if phy and found.phy is not None:
                _check_keys(phy, found.phy, ("error_rate", "fading", "noise", "transmit_dbm"))
                found = dataclasses.replace(found, phy=dataclasses.replace(found.phy, **phy))
        return preset._replace(radio=found)

    def _path_loss(self, site: dict[str, Any]) -> LogDistance:
        with self.at("building"):
            building = self._only("building", site, ("walls", "storey", "floor_db"))
            file = building.pop("walls", None)
            walls = Walls(**building) if file is None else Walls.from_csv(self._file.parent / file, **building)
        with self.at("path_loss"):
            given = dict(site.get("path_loss", {}))
            _check_keys(given, LogDistance(), ("walls", "fading", "sensitivity", "transmit_dbm"))
            return LogDistance(**given, walls=walls if site.get("building") else None)

    def _interferer(self, name: str, table: Any) -> Any:
        with self.at(f"interferers.{name}"):
            if not isinstance(table, dict):
                raise check.refuse(name, table, "a table with a kind")
            given = dict(table)
            kind = KINDS[check.one_of("kind", given.pop("kind", None), KINDS)]
            fields = [each for each in dataclasses.fields(kind) if each.init]
            check.each_one_of("key", given, [each.name for each in fields])
            _must_have(given, [each.name for each in fields if each.default is dataclasses.MISSING])
            if isinstance(given.get("file"), str):
                given["file"] = self._file.parent / given["file"]
            return kind(**given)

    def _moves(self, site: dict[str, Any]) -> list[Move]:
        moves = []
        for number, table in enumerate(site.get("moves", [])):
            with self.at(f"moves.{number}"):
                check.each_one_of("key", table, ("mote", "to", "at", "until", "step"))
                _must_have(table, ["mote", "to", "at"])
                times = {key: value for key, value in table.items() if key not in ("mote", "to")}
                moves.append(Move(table["mote"], table["to"], **times))
        with self.at("mobility"):
            given = self._only("mobility", site, ("file", "step"))
            if given:
                moves += mobility.read(self._file.parent / given.pop("file", ""), **given)
        return moves


def _must_have(given: Mapping[str, Any], keys: list[str]) -> None:
    for key in keys:
        if key not in given:
            raise BadInput(f"{key}: must be given")


def _check_keys(given: Mapping[str, Any], of: Any, without: tuple[str, ...], more: Iterable[str] = ()) -> None:
    """Raise BadInput for a key that is neither a settable field of ``of`` nor in ``more``, the other allowed keys."""
    settable = (each.name for each in dataclasses.fields(of) if each.name not in without)
    check.each_one_of("key", given, dict.fromkeys([*more, *settable]))
