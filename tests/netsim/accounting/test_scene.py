"""The scene of a run: which properties a file may set, and which it may not."""

from typing import Any

import pytest

from netsim.accounting.run_metadata import RunMetadata
from tests.parts import every

PATHS = {0: [(0.0, 1.0, 2.0), (3.5, 4.0, 2.0), (3.5, 0.0, 0.0)]}
SCENE = RunMetadata(1.0, 5.0, "shared", ((1.0, 2.0), (0.0, 0.0)), 5, PATHS)


def test_a_scene_comes_back() -> None:
    assert RunMetadata.from_dict(SCENE.as_dict(), 2) == SCENE
    still = RunMetadata(1.0, 5.0, "wires", None, 5)
    assert "paths" not in still.as_dict()
    assert RunMetadata.from_dict(still.as_dict(), 2) == still


@every(
    "paths",
    [
        [],
        {"2": [[0, 0, 0]]},
        {"x": [[0, 0, 0]]},
        {"-1": [[0, 0, 0]]},
        {"0": []},
        {"0": [[0, 0]]},
        {"0": [[0, 0, "far"]]},
        {"0": [[0, 0, float("inf")]]},
        {"0": [[2, 0, 0], [1, 0, 0]]},
        {"0": 3},
    ],
)
def test_paths_that_are_none_are_refused(paths: Any) -> None:
    with pytest.raises(ValueError, match="its paths are invalid"):
        RunMetadata.from_dict(SCENE.as_dict() | {"paths": paths}, 2)


def test_who_moves_has_a_position() -> None:
    with pytest.raises(ValueError, match="its paths are invalid"):
        RunMetadata.from_dict(SCENE.as_dict() | {"positions": None}, 2)
