"""Read positions of motes from Cooja's simulations, lists of nodes of FIT IoT-LAB, and csv files.

Sources: Contiki-NG's Cooja, whose class ``Simulation`` reads ``.csc`` files, with the settings of each mote's
interfaces ``Position`` and ``MoteID``; FIT IoT-LAB's REST API and its command ``iotlab-status --nodes``,
www.iot-lab.info/docs/tools/cli.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from xml.etree import ElementTree

from netsim.errors import BadInput
from netsim.files.content import FileContent
from netsim.files.parsed_graph import left_out
from netsim.files.places import degrees_of, project
from netsim.util import tables

__all__ = ["COLUMNS", "NUMBERS", "Motes", "is_iotlab", "of_cooja", "of_iotlab", "read_table"]

NUMBERS = ("power_dbm", "drift_ppm", "offset", "start")
"""The columns of a csv file of motes with numbers, other than the coordinates."""

COLUMNS = ("z", "sink", "role", "roaming", *NUMBERS)
"""The optional columns of a csv file of motes."""

_YES, _NO = ("1", "yes", "true"), ("0", "no", "false", "")
_ADDRESS = "network_address"

Mote = dict[str, Any]


@dataclass
class Motes:
    """The motes in a file, {name: attributes}, with ``position`` in metres; ``notes`` describe what reading changed."""

    form: str
    motes: dict[Hashable, Mote]
    notes: list[str] = field(default_factory=list)


# --- csv --------------------------------------------------------------------------------------------------------------


def read_table(source: FileContent) -> Motes:
    """Return the motes of a csv file with the columns name, x, y (or longitude, latitude), and perhaps `COLUMNS`.

    A table with a column network_address lists nodes of IoT-LAB instead.
    """
    first = next(source.lines(), (0, ""))[1]
    header = {cell.strip().strip('"').lower() for cell in first.replace(";", ",").replace("\t", ",").split(",")}
    if _ADDRESS in header:
        import csv

        lines = [line for _, line in source.lines()]
        return _of_nodes(source, list(csv.DictReader(lines, skipinitialspace=True)))
    pair = ("longitude", "latitude") if {"longitude", "latitude"} <= header else ("x", "y")
    found: dict[Hashable, Mote] = {}
    for where, row in tables.rows(source.path, ("name", *pair), COLUMNS):
        node = tables.name(where, row, "name")
        if node in found:
            raise BadInput(f"{where}: name = {node!r}: must be the only mote of that name")
        at = tuple(tables.number(where, row, column) for column in (*pair, "z") if column in row)
        if pair != ("x", "y") and degrees_of(row | dict(zip(pair, at, strict=False))) is None:
            raise BadInput(f"{where}: longitude, latitude = {at[:2]}: must be degrees")
        mote = found[node] = {"position": at, "role": row.get("role", "")}
        for flag in ("sink", "roaming"):
            text = row.get(flag, "").lower()
            if text not in _YES + _NO:
                raise BadInput(f"{where}: {flag} = {row[flag][:40]!r}: must be 1 or yes, or 0, no or empty")
            mote[flag] = text in _YES
        mote |= {key: tables.number(where, row, key) for key in NUMBERS if row.get(key)}
    if pair == ("x", "y") or not found:
        return Motes("csv", found)
    places, note = project({node: mote["position"] for node, mote in found.items()})
    return Motes("csv", {node: mote | {"position": places[node]} for node, mote in found.items()}, [note])


# --- IoT-LAB ----------------------------------------------------------------------------------------------------------


def is_iotlab(content: Any) -> bool:
    """Return whether parsed JSON is a list of nodes of IoT-LAB."""
    return any(isinstance(node, Mapping) and _ADDRESS in node for node in _listed(content))


def _listed(content: Any) -> list[Any]:
    """Return the nodes in parsed JSON of IoT-LAB's API, which may be a list of nodes, or a list of sites with nodes."""
    if isinstance(content, Mapping):
        content = content.get("items", content.get("nodes", []))
    if not isinstance(content, list):
        return []
    by_site = [each["nodes"] for each in content if isinstance(each, Mapping) and isinstance(each.get("nodes"), list)]
    return [node for nodes in by_site for node in nodes] if by_site else content


def of_iotlab(source: FileContent) -> Motes:
    """Return the nodes in JSON of IoT-LAB's API, with position, role (the architecture), and whether a node moves."""
    return _of_nodes(source, _listed(source.json()))


def _of_nodes(source: FileContent, nodes: Sequence[Any]) -> Motes:
    found: dict[Hashable, Mote] = {}
    nowhere = 0
    addresses = [str(node.get(_ADDRESS, "")) if isinstance(node, Mapping) else "" for node in nodes]
    short = [address.partition(".")[0] for address in addresses]
    # Name nodes by the whole addresses if the first parts repeat, as in m3-1 of Grenoble and m3-1 of Lille.
    names = short if len(set(short)) == len(short) else addresses
    for name, node in zip(names, nodes, strict=True):
        if not name or name in found:
            raise source.refuse(f"a list of nodes, each with a {_ADDRESS} of its own; one has {name[:40]!r}")
        place = [_coordinate(node.get(axis)) for axis in ("x", "y", "z")]
        if place[0] is None or place[1] is None:
            nowhere += 1
            continue
        role = str(node.get("archi") or "").partition(":")[0]
        # A robot has mobile = 1; its position is that of its charging dock.
        moves = str(node.get("mobile") or "0") == "1"
        found[name] = {"position": tuple(each or 0.0 for each in place), "role": role, "roaming": moves}
    if not found:
        raise source.refuse("a list of nodes with x and y; none has")
    return Motes("IoT-LAB", found, left_out(nowhere, "node", " without a place"))


def _coordinate(value: Any) -> float | None:
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return number if abs(number) < float("inf") else None


# --- Cooja ------------------------------------------------------------------------------------------------------------


def of_cooja(source: FileContent) -> Motes:
    """Return the motes of a simulation of Cooja, with position and role (the description of the mote's type).

    Motes are named by their ids. Heights are left out if all are 0. The radio medium is ignored, because `Deployment`
    defines a medium.
    """
    root = source.xml()
    types = {each.findtext("identifier", "").strip(): _described(each) for each in root.iter("motetype")}
    # Since 2022, Cooja writes motes inside the elements of their types; older versions wrote them outside.
    inside = {id(mote): _described(each) for each in root.iter("motetype") for mote in each.iter("mote")}
    found: dict[Hashable, Mote] = {}
    for number, mote in enumerate(root.iter("mote"), 1):
        name, at = _id_of(source, mote, number), _place_of(source, mote)
        if name in found:
            raise source.refuse(f"a simulation whose motes have ids that differ; {name} are two")
        role = inside.get(id(mote)) or types.get(mote.findtext("motetype_identifier", "").strip(), "")
        found[name] = {"position": at, "role": role}
    if not found:
        raise source.refuse("a simulation with motes")
    if not any(mote["position"][2] for mote in found.values()):
        found = {name: mote | {"position": mote["position"][:2]} for name, mote in found.items()}
    return Motes(
        "Cooja", found, ["left out the radio medium"] if root.find("simulation/radiomedium") is not None else []
    )


def _described(kind: ElementTree.Element) -> str:
    return kind.findtext("description", "").strip() or kind.findtext("identifier", "").strip()


def _settings(mote: ElementTree.Element, interface: str) -> ElementTree.Element | None:
    """Return the settings of a mote's interface, found by the name of its Java class."""
    each = mote.iter("interface_config")
    return next((one for one in each if (one.text or "").strip().endswith(interface)), None)


def _id_of(source: FileContent, mote: ElementTree.Element, number: int) -> int:
    settings = _settings(mote, "MoteID")
    text = None if settings is None else settings.findtext("id")
    if text is None:
        return number
    value = source.number(text, "id of a mote")
    if value != int(value):
        raise source.refuse(f"a simulation whose motes have whole ids; one is {text[:40]!r}")
    return int(value)


def _place_of(source: FileContent, mote: ElementTree.Element) -> tuple[float, float, float]:
    settings = _settings(mote, "Position")
    if settings is None:
        raise source.refuse("a simulation whose motes have positions")
    pos = settings.find("pos")
    texts = [settings.findtext(axis) if pos is None else pos.get(axis) for axis in ("x", "y", "z")]
    x, y = source.number(texts[0], "x"), source.number(texts[1], "y")
    return x, y, 0.0 if texts[2] is None else source.number(texts[2], "z")
