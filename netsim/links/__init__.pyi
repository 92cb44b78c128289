from . import latency, loss, rate
from .link import Budget, Link
from .measured import (
    LinkedGraph,
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
    "LinkedGraph",
    "Reliability",
    "cellular",
    "from_graph",
    "from_reception",
    "from_table",
    "grenoble",
    "intel_lab",
    "latency",
    "loss",
    "rate",
    "rutgers",
    "synthetic_lab",
    "ulb_library",
]
