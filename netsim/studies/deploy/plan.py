"""The plan of a deployment: study, processes, and connections; read from and written to a folder."""

import dataclasses
import hashlib
import itertools
import json
import os
import re
import secrets
import stat
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from netsim._version import __version__
from netsim.distributed.transport import TRANSPORTS, Transport, transport_of
from netsim.errors import BadInput, one_line
from netsim.studies import catalogue
from netsim.studies.catalogue import StudyDefinition
from netsim.studies.verification import parameters_of
from netsim.util import check
from netsim.util.files import write_pieces

PLAN, KEY, PARTS = "deployment.json", "key", "parts"
"""What a deployment's folder holds: the plan, the key, what processes write."""

_MOST_PROCESSES = 1000


@dataclass(frozen=True)
class Host:
    """A process of a deployment.

    A process has a name, used to start it; an address ("host:port" over UDP, a name over MQTT); and the names of its
    agents, as text. None for the agents gives it a share of those that no process names.
    """

    name: str
    address: str
    agents: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        # The name is also used in file names.
        if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}", self.name):
            raise check.refuse("hosts", self.name, "names of at most 64 letters, digits, '_', '.' and '-'")


@dataclass(frozen=True)
class Connection:
    """The transport between processes: a name in `TRANSPORTS`, a broker's "host:port", and timeouts in real seconds."""

    carrier: str = "udp"
    broker: str = "127.0.0.1:1883"
    round_time: float = 0.1
    patience: float = 60.0
    silence: float = 5.0

    def __post_init__(self) -> None:
        check.one_of("transport", self.carrier, TRANSPORTS)
        for name in ("round_time", "patience", "silence"):
            check.finite(name, getattr(self, name), above=0)


@dataclass(frozen=True)
class Plan:
    """A deployment: a study by name or file, the file's hash, the number of its runs, and a key for datagrams."""

    study: str
    parameters: Mapping[str, Any]
    settings: Connection
    hosts: tuple[Host, ...]
    runs: int = 0
    trace: bool = False
    key: bytes = field(default_factory=lambda: secrets.token_bytes(32), repr=False)
    sha256: str = ""

    @classmethod
    def of(cls, definition: StudyDefinition, parameters: Mapping[str, Any], **more: Any) -> "Plan":
        """Return the plan of a study with these parameters."""
        # Store the absolute path, which is valid in any working folder.
        name = str(Path(definition.name).resolve()) if definition.sha256 else definition.name
        return cls(name, dict(parameters), sha256=definition.sha256, **more)

    @property
    def is_here(self) -> bool:
        """Whether all processes are on this machine."""
        settings = self.settings
        return transport_of(settings.carrier).is_local([host.address for host in self.hosts], settings.broker)

    def find(self) -> tuple[StudyDefinition, dict[str, Any]]:
        """Return the study and its parameters; raises BadInput if the study's file has changed since it was planned."""
        definition = catalogue.find_study(self.study)
        if definition.sha256 != self.sha256:
            raise BadInput(f"study = {self.study!r}: must be the file of the deployment; it has changed since")
        return definition, parameters_of(f"deployment of {self.study!r}", definition, self.parameters)

    def places(self, agents: Iterable[Any]) -> dict[str, list[Any]]:
        """Return the agents of each process, keyed by address; raises BadInput if a process would have none."""
        known = {str(name): name for name in agents}
        mine: dict[str, list[Any]] = {host.address: [] for host in self.hosts}
        left = dict(known)
        for host in self.hosts:
            for name in host.agents or ():
                if left.pop(name, None) is None:
                    why = "is in two processes" if name in known else f"is none of {len(known)} agents"
                    raise BadInput(f"hosts.{host.name}.agents = {name!r}: must be an agent's name, once; it {why}")
                mine[host.address].append(known[name])
        open_to = [host.address for host in self.hosts if host.agents is None]
        for place, share in zip(open_to, _shares(list(left.values()), len(open_to)), strict=True):
            mine[place] += share
        if left and not open_to:
            raise BadInput(f"hosts: must name every agent, or leave one process open; {next(iter(left))!r} is nowhere")
        for host in self.hosts:
            if not mine[host.address]:
                raise BadInput(f"processes = {len(self.hosts)}: must be at most one for each of {len(known)} agents")
        return mine

    def transport(self, host: Host, agents: Iterable[Any], period: float, folder: Path) -> Transport:
        """Return the transport of a process, for a network with these agents and this round period (s)."""
        places = self.places(agents)
        peers = {place: names for place, names in places.items() if place != host.address}
        return self._carrier(host, peers, pace=period / self.settings.round_time, folder=folder)

    def _carrier(self, host: Host, peers: Mapping[str, Iterable[Any]], **more: Any) -> Transport:
        settings = self.settings
        more |= {"key": self.key, "patience": settings.patience, "silence": settings.silence}
        # Deployments on the same broker use separate topics.
        topic = f"netsim/{hashlib.blake2b(self.key, digest_size=8).hexdigest()}"
        return transport_of(settings.carrier).of_deployment(host.address, peers, settings.broker, topic, **more)

    async def try_out(self) -> None:
        """Open and close each process's transport on this machine; raises NetsimError if one cannot be opened."""
        addresses = [host.address for host in self.hosts]
        for host in self.hosts:
            transport = self._carrier(host, {address: () for address in addresses if address != host.address})
            await transport.open()
            await transport.close()

    # --- as a folder --------------------------------------------------------------------------------------------------

    def write(self, folder: Path) -> None:
        """Write the plan into an existing folder, and the key, with permissions for the owner only."""
        content = {"netsim": __version__, **dataclasses.asdict(self)}
        del content["key"]
        key = folder / KEY
        key.touch(mode=0o600)
        key.write_text(self.key.hex() + "\n", encoding="ascii")
        write_pieces(folder / PLAN, [(json.dumps(content, indent=2, default=str) + "\n").encode()])

    @classmethod
    def read(cls, folder: Path) -> "Plan":
        """Return the plan in a folder; raises BadInput if there is none, or if it is from another version."""
        _must_be_private(folder / KEY)
        try:
            content = json.loads((folder / PLAN).read_text(encoding="utf-8"))
            key = bytes.fromhex((folder / KEY).read_text(encoding="ascii"))
            version = content.pop("netsim")
            connection, hosts = Connection(**content.pop("settings")), map(_host, content.pop("hosts"))
            plan = cls(settings=connection, hosts=tuple(hosts), key=key, **content)
        except BadInput:
            raise
        except Exception as error:
            lacks = f"it lacks {one_line(error)}"
            why = lacks if isinstance(error, KeyError) else f"{type(error).__name__}: {one_line(error)}"
            raise BadInput(f"folder = {str(folder)!r}: must be what `netsim deploy` wrote ({why[:200]})") from None
        if version != __version__:
            raise BadInput(f"folder = {str(folder)!r}: must be of netsim {__version__}, as this; it is of {version}")
        return plan

    def host(self, name: str) -> Host:
        """Return a process by its name; raises BadInput if there is none."""
        known = {host.name: host for host in self.hosts}
        return known[check.one_of("host", name, known)]


def _host(content: Mapping[str, Any]) -> Host:
    agents = content["agents"]
    return Host(**{**content, "agents": None if agents is None else tuple(map(str, agents))})


def _shares(agents: Sequence[Any], count: int) -> list[list[Any]]:
    """Return the agents in ``count`` consecutive parts, as even as possible."""
    bounds = [round(i * len(agents) / count) for i in range(count + 1)] if count else []
    return [list(agents[low:high]) for low, high in itertools.pairwise(bounds)]


def local_hosts(processes: int, carrier: str) -> tuple[Host, ...]:
    """Return ``processes`` processes on this machine."""
    count = check.integer("processes", processes, low=2)
    if count > _MOST_PROCESSES:
        raise check.refuse("processes", processes, f"at most {_MOST_PROCESSES}")
    addresses = transport_of(carrier).local_addresses(count)
    return tuple(Host(f"p{number}", address) for number, address in enumerate(addresses, start=1))


def hosts_in(file: str) -> tuple[tuple[Host, ...], dict[str, Any]]:
    """Return the processes and the connection's settings in a TOML file; raises BadInput for an invalid file."""
    path = Path(file)
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise check.refuse("nodes", file, "an existing TOML file") from None
    except (OSError, ValueError) as error:
        raise BadInput(f"nodes = {file!r}: must be a TOML file ({one_line(error)})") from None
    for name in content:
        check.one_of(f"{file}: entry", name, ("hosts", "broker"))
    listed = content.get("hosts")
    if not isinstance(listed, dict) or len(listed) < 2:
        raise BadInput(f"nodes = {file!r}: must have two tables [hosts.NAME] at least")
    hosts = tuple(_listed(file, name, each) for name, each in listed.items())
    if len({host.address for host in hosts}) < len(hosts):
        raise BadInput(f"nodes = {file!r}: must give each process an address of its own")
    more = {"broker": content["broker"]} if "broker" in content else {}
    return hosts, more


def _listed(file: str, name: str, content: Any) -> Host:
    where = f"{file}: hosts.{name}"
    check.instance(where, content, dict, "a table")
    for key in content:
        check.one_of(f"{where}: entry", key, ("address", "agents"))
    address, agents = content.get("address"), content.get("agents")
    check.instance(f"{where}.address", address, str, "text")
    if agents is not None and not (isinstance(agents, list) and agents):
        raise check.refuse(f"{where}.agents", agents, "a list of agents' names")
    return _host({"name": name, "address": address, "agents": agents})


def _must_be_private(key: Path) -> None:
    """Raise BadInput if users other than the owner may read or write an existing key."""
    try:
        mode = stat.S_IMODE(key.stat().st_mode)
    except OSError:
        return
    if os.name == "posix" and mode & 0o077:
        raise BadInput(
            f"key = {str(key)!r}: must be readable only by its owner (mode 600), because it admits processes; "
            f"its mode is {mode:o}"
        )
