"""Names that netsim had before: each still works for one version, with a DeprecationWarning that gives the new name."""

import importlib
import importlib.machinery
import sys
import warnings
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

__all__ = ["SETTINGS", "former_names", "must_be_current", "with_former_names"]

ATTRIBUTES = {
    "Budget": "links.Budget",
    "Copies": "core.Copies",
    "Heard": "transport.Heard",
    "Ledger": "accounting.Ledger",
    "MQTT": "distributed.MQTT",
    "Reliability": "links.Reliability",
    "Study": "studies.Study",
    "Trace": "accounting.Trace",
    "Transport": "distributed.Transport",
    "UDP": "distributed.UDP",
    "find": "studies.find_study",
    "gather": "distributed.merge_parts",
    "new_loop": "clock.new_loop",
    "sweep": "studies.sweep",
    "verify": "studies.verify",
    "watching": "live.live_view",
}
"""Names of the package ``netsim``."""

MODULES = {
    "budget": "links.link",
    "check": "util.check",
    "coders.coded": "wire.coded",
    "coders.inputs": "wire.inputs",
    "coders.registry": "wire.registry",
    "coders.shapes": "wire.packing",
    "count": "accounting",
    "count.ledger": "accounting.ledger",
    "count.records": "core.records",
    "count.scene": "accounting.scene",
    "count.tally": "core.tally",
    "count.trace": "accounting.trace",
    "count.trace_file": "accounting.trace",
    "datafiles": "util.datafiles",
    "draws": "util.draws",
    "files": "util.files",
    "export.blocks": "export.pcapng",
    "export.packets": "export.pcapng",
    "latency": "links.latency",
    "link": "links.link",
    "live.pending": "live.view",
    "live.reel": "live.view",
    "live.rows": "live.view",
    "live.session": "live.server",
    "live.show": "live.view",
    "links.budget": "links.link",
    "loss": "links.loss",
    "packing": "wire.packing",
    "presets": "radio.presets",
    "radio.access": "radio.mac",
    "radio.agenda": "radio.medium",
    "radio.battery": "radio.energy",
    "radio.book": "radio.airtime",
    "radio.job": "radio.mac",
    "radio.lora": "radio.settings",
    "radio.sleep": "radio.energy",
    "radio.station": "radio.mac",
    "rate": "links.rate",
    "reliability": "links.reliability",
    "replay.layout": "replay.render",
    "replay.stream": "replay.frames",
    "replay.thinning": "replay.frames",
    "results": "studies.results",
    "sockets": "distributed",
    "sockets.envelope": "distributed.envelope",
    "sockets.job": "distributed.node",
    "sockets.journal": "distributed.journal",
    "sockets.merge": "distributed.merge",
    "sockets.mqtt": "distributed.mqtt",
    "sockets.node": "distributed.node",
    "sockets.objects": "distributed.states",
    "sockets.pacing": "clock.pacing",
    "sockets.post": "distributed.relay",
    "sockets.restoring": "distributed.states",
    "sockets.scribe": "distributed.journal",
    "sockets.session": "distributed.membership",
    "sockets.states": "distributed.states",
    "sockets.transport": "distributed.transport",
    "sockets.udp": "distributed.udp",
    "studies.claim": "studies.reserve",
    "studies.cli_scenarios": "studies.cli",
    "studies.cli_traces": "studies.cli",
    "studies.deploy.cli": "studies.cli",
    "studies.exporting": "studies.traces",
    "studies.replaying": "studies.traces",
    "studies.sources": "studies.origin",
    "studies.sweep": "studies.sweeps",
    "studies.verify": "studies.verification",
    "transport.account": "radio.energy",
    "transport.arrivals": "core.arrival_queue",
    "transport.bursts": "transport.path",
    "transport.clock": "clock.clock",
    "transport.copies": "core.copies",
    "transport.fan": "core.link_draws",
    "transport.frame": "core.frame",
    "transport.framing": "core.framing",
    "transport.gate": "core.round_barrier",
    "transport.instants": "clock.virtual_clock",
    "transport.jobs": "clock.clock",
    "transport.offered": "transport.transmitter",
    "transport.port": "transport.transmitter",
    "transport.rounds": "clock.rounds",
    "transport.skew": "clock.clock",
    "transport.spreader": "core.broadcast_path",
    "transport.task": "clock.task",
    "transport.wire": "wire.codec",
    "transport.wiring": "transport.outbox",
    "typing": "util.typing",
    "vectors": "core.vectors",
}
"""Modules below the package ``netsim``."""

NAMES = {
    "netsim.clock.rounds.told_apart": "distinguishable",
    "netsim.clock.virtual_clock.InstantSelector": "ClockSelector",
    "netsim.core.Arrivals": "ArrivalQueue",
    "netsim.core.Gate": "RoundBarrier",
    "netsim.core.Spreader": "BroadcastPath",
    "netsim.core.arrival_queue.Arrivals": "ArrivalQueue",
    "netsim.core.broadcast_path.Spreader": "BroadcastPath",
    "netsim.core.link_draws.Fan": "LinkDraws",
    "netsim.core.records.EXIT": "OUTCOME",
    "netsim.core.round_barrier.Gate": "RoundBarrier",
    "netsim.distributed.envelope.Beat": "Heartbeat",
    "netsim.distributed.journal.Scribe": "JournalWriter",
    "netsim.distributed.membership.Session": "Membership",
    "netsim.distributed.merge.Gathered": "MergedRun",
    "netsim.distributed.merge.Part": "RunPart",
    "netsim.distributed.merge.gather": "merge_parts",
    "netsim.distributed.merge.gathered": "merge_run",
    "netsim.distributed.relay.Far": "RemoteEndpoint",
    "netsim.distributed.relay.Post": "Relay",
    "netsim.links.latency.Trace": "TracedDelays",
    "netsim.links.loss.Trace": "TracedLosses",
    "netsim.live.server.Session": "ViewServer",
    "netsim.live.server.watching": "live_view",
    "netsim.live.view.Changes": "ShownChanges",
    "netsim.live.view.Rows": "ShownRows",
    "netsim.radio.airtime.AirBook": "AirtimeLog",
    "netsim.radio.energy.Account": "EnergyAccount",
    "netsim.radio.energy.Hearing": "Reception",
    "netsim.radio.mac.Job": "PendingFrame",
    "netsim.radio.mac.Station": "Mac",
    "netsim.radio.medium.Agenda": "EventQueue",
    "netsim.radio.medium.Hearer": "RadioLink",
    "netsim.radio.signals.Ear": "Receiver",
    "netsim.studies.catalogue.Listed": "Entry",
    "netsim.studies.catalogue.Shelf": "Registry",
    "netsim.studies.deploy.plan.Settings": "Connection",
    "netsim.studies.figures.told_apart": "line_style",
    "netsim.studies.folder.told_partial": "partial_text",
    "netsim.studies.results.told_interval": "interval_text",
    "netsim.studies.sweeps.point.Work": "SweepRun",
    "netsim.studies.terminal.Tally": "Countdown",
    "netsim.studies.traces.Found": "TracedRun",
    "netsim.transport.outbox.SENDS_AT_ONCE": "MAX_SENDS_PER_INSTANT",
    "netsim.transport.transmitter.Port": "Transmitter",
    "netsim.transport.transmitter.ports_of": "transmitters_of",
}
"""Names in modules; such a module has a ``__getattr__`` that `former_names` returns."""

SETTINGS = {"collisions": "left out; transmissions collide on a network with medium=netsim.Radio(access='aloha')"}
"""Parameters of networks and studies that are gone, and what must be done instead."""


def must_be_current(name: str, value: object) -> None:
    """Raise BadInput for a parameter of earlier versions, with what must be done instead."""
    if name in SETTINGS:
        from netsim.util import check

        raise check.refuse(name, value, SETTINGS[name])


def with_former_names(current: Callable[[str], Any]) -> Callable[[str], Any]:
    """Return the package's ``__getattr__``, which knows the former names of attributes and modules, too."""

    def attribute(name: str) -> Any:
        try:
            return current(name)
        except AttributeError:
            pass
        if name in ATTRIBUTES:
            home, _, new = ATTRIBUTES[name].rpartition(".")
            _warn(f"netsim.{name}", f"netsim.{ATTRIBUTES[name]}")
            return getattr(importlib.import_module(f"netsim.{home}"), new)
        if name in MODULES:
            return importlib.import_module(f"netsim.{name}")
        raise AttributeError(f"module 'netsim' has no attribute {name!r}")

    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        # First: the path of a room under its former name finds its files, too, and would load them twice.
        sys.meta_path.insert(0, _Finder())
    return attribute


def former_names(module: str) -> Callable[[str], Any]:
    """Return the ``__getattr__`` of a module of which `NAMES` has former names."""

    def attribute(name: str) -> Any:
        former = f"{module}.{name}"
        if former not in NAMES:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        _warn(former, f"{module}.{NAMES[former]}")
        return getattr(sys.modules[module], NAMES[former])

    return attribute


class _Finder:
    """Imports a module under its former name as the module that it is now."""

    # Not derived from importlib.abc, whose import takes as long as that of this package.

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        package, _, rest = name.partition(".")
        loader: Any = self
        return importlib.machinery.ModuleSpec(name, loader) if package == "netsim" and rest in MODULES else None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        new = f"netsim.{MODULES[module.__name__.removeprefix('netsim.')]}"
        _warn(module.__name__, new)
        home = sys.modules[module.__name__] = importlib.import_module(new)
        vars(home).setdefault("__getattr__", former_names(new))


def _warn(former: str, new: str) -> None:
    """Warn at the line outside of the import system that uses a former name."""
    frame = sys._getframe(1)
    while frame.f_back and ("importlib" in frame.f_code.co_filename or frame.f_code.co_filename == __file__):
        frame = frame.f_back
    place = frame.f_code.co_filename, frame.f_lineno, frame.f_globals.get("__name__")
    warnings.warn_explicit(f"{former} is now {new}", DeprecationWarning, *place)
