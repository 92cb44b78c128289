"""What stands at the axes of measures."""

from netsim.studies.figures import Axis

MEASURES = {
    "train_mse": "training MSE",
    "test_mse": "test MSE",
    "train_loss": "training loss",
    "consensus_error": "consensus error",
    "running_mse": "running MSE",
    "static_regret": "static regret",
    "dynamic_regret": "dynamic regret",
    "tracking_error": "MSE against the true function",
}
"""The labels of the measures' columns."""


def measure(column: str, log: bool = False) -> Axis:
    """Return the axis of a measure."""
    return Axis(column, log, MEASURES[column])
