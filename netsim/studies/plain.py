"""Run a Python file that is not a study: a function `make`, a network with agents, or a script that runs them.

* ``def make(*, loss: float = 0.1, seed: int = 1)`` returns ``(network, agents)``, optionally with a third value, a
  mapping of arguments of `Network.run`; its parameters are those of the study.
* ``network`` and ``agents`` at the file's top are run.
* A script that calls `Network.run` itself is executed, and each of its runs is one of the study's.
"""

import dataclasses
import hashlib
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from netsim.errors import BadInput
from netsim.studies import script

if TYPE_CHECKING:
    from netsim.engine.build import Settings
    from netsim.network import Network
    from netsim.run import Run
    from netsim.studies.catalogue import StudyDefinition
    from netsim.studies.study import Study

__all__ = ["definition_of", "execute_up_to_a_run", "run_made"]

FORMS = "one function whose first parameter is `study`, an `experiment`, a function `make`, or a network that it runs"
"""What a file must define."""


class _Runs(BaseException):
    """Raised when a script runs a network, to stop it before the run."""


def execute_up_to_a_run(file: str, module: ModuleType) -> tuple[str, bool]:
    """Execute a file as a module, up to its first run of a network.

    Return the file's SHA-256, and whether it runs a network.
    """
    from netsim.network import played_by

    def stop(network: "Network", settings: "Settings", result: "Run") -> "Run":
        raise _Runs

    with played_by(stop):
        try:
            return script.execute("study", file, module), False
        except _Runs:
            return hashlib.sha256(Path(file).read_bytes()).hexdigest(), True


def definition_of(
    file: str, module: ModuleType, runs: bool, describe: Callable[[str, Callable[..., Any]], "StudyDefinition"]
) -> "StudyDefinition | None":
    """Return a study made from a file without a study function; None if the file has none of the forms above."""
    make = script.defined(module).get("make")
    play: Callable[..., Any]
    if runs:
        make, play = _without_parameters, lambda: _executed(file)
    elif callable(make):
        play = partial(_run_made_by, file, make)
    elif {"network", "agents"} <= vars(module).keys():
        make, play = _without_parameters, partial(_run_defined, file)
    else:
        return None

    def captured(study: "Study", **parameters: Any) -> None:
        with study.capture():
            play(**parameters)

    found = describe(file, make)
    title = found.title or (module.__doc__ or "").strip().partition("\n")[0]
    return dataclasses.replace(found, function=captured, title=title)


def _without_parameters() -> None: ...


def _run_made_by(file: str, make: Callable[..., Any], **parameters: Any) -> None:
    run_made(file, "make", make(**parameters))


def _run_defined(file: str) -> None:
    # Execute the file again, because each run needs new agents.
    found = vars(_executed(file))
    run_made(file, "network, agents", (found["network"], found["agents"]))


def _executed(file: str) -> ModuleType:
    module = script.new_module(file)
    with script.known(module):
        script.execute("study", file, module)
    return module


def run_made(file: str, what: str, made: Any) -> None:
    """Run the network that a file made."""
    from netsim.network import Network

    more: Any = made[2] if isinstance(made, tuple) and len(made) == 3 else {}
    if not (isinstance(made, tuple) and len(made) in (2, 3) and isinstance(more, Mapping)):
        raise BadInput(f"{file}: {what} must be (network, agents), or with a mapping of arguments of Network.run")
    if not isinstance(made[0], Network):
        raise BadInput(f"{file}: {what} must begin with a netsim.Network, not {type(made[0]).__name__}")
    made[0].run(made[1], **more)
