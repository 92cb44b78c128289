from . import latency, loss, measured, rate
from .link import Budget, Link
from .measured import (
    Measured,
    cellular,
    from_graph,
    from_reception,
    from_table,
    grenoble,
    intel_lab,
    rutgers,
    synthetic_lab,
    ulb_library,
)
from .reliability import Reliability

__all__ = [
    "Budget",
    "Link",
    "Measured",
    "Reliability",
    "cellular",
    "from_graph",
    "from_reception",
    "from_table",
    "grenoble",
    "intel_lab",
    "latency",
    "loss",
    "measured",
    "rate",
    "rutgers",
    "synthetic_lab",
    "ulb_library",
]
