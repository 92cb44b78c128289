from . import (
    accounting,
    agents,
    clock,
    coders,
    core,
    datasets,
    distributed,
    draw,
    errors,
    export,
    faults,
    ipv6,
    links,
    live,
    mobility,
    radio,
    replay,
    scenarios,
    strategies,
    studies,
    testing,
    topology,
    transport,
    util,
    wire,
)
from ._version import __version__
from .agent import Agent
from .core import Frame
from .deployment import Deployment
from .errors import AgentError, BadInput, NetsimError, RunOver, Stalled, WireError
from .faults import Faults
from .ipv6 import SixLowpan
from .links import Link, latency, loss, rate
from .mote import Mote, Part
from .network import Network
from .profile import Profile
from .radio import Energy, Radio, presets
from .recorder import Recorder
from .round_agent import RoundAgent, StateAgent
from .run import Run
from .studies import results
from .studies.experiment import (
    Between,
    Ending,
    Ends,
    Experiment,
    Grid,
    Links,
    Method,
    OneOf,
    Problem,
    Setup,
    product,
    vary,
)
from .studies.laboratory.notebook import lab
from .wire import payloads

__all__ = [
    "Agent",
    "AgentError",
    "BadInput",
    "Between",
    "Deployment",
    "Ending",
    "Ends",
    "Energy",
    "Experiment",
    "Faults",
    "Frame",
    "Grid",
    "Link",
    "Links",
    "Method",
    "Mote",
    "NetsimError",
    "Network",
    "OneOf",
    "Part",
    "Problem",
    "Profile",
    "Radio",
    "Recorder",
    "RoundAgent",
    "Run",
    "RunOver",
    "Setup",
    "SixLowpan",
    "Stalled",
    "StateAgent",
    "WireError",
    "__version__",
    "accounting",
    "agents",
    "clock",
    "coders",
    "core",
    "datasets",
    "distributed",
    "draw",
    "errors",
    "export",
    "faults",
    "ipv6",
    "lab",
    "latency",
    "links",
    "live",
    "loss",
    "mobility",
    "payloads",
    "presets",
    "product",
    "radio",
    "rate",
    "replay",
    "results",
    "scenarios",
    "strategies",
    "studies",
    "testing",
    "topology",
    "transport",
    "util",
    "vary",
    "wire",
]
