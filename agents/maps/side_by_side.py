"""Concatenate the features of several maps."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from netsim.agents.maps.features import FeatureMap
from netsim.util import check


class SideBySide:
    """The concatenated features of several maps, one for each kernel: z(x) = [z_1(x), …, z_P(x)].

    Parameters
    ----------
    maps : sequence of FeatureMap
        One map for each kernel; all have the same inputs and the same number of features.

    Attributes
    ----------
    inputs, size : int
        Length of one input, and of one feature vector, which is P times that of a map.

    Raises
    ------
    BadInput
        If there is no map, or the maps have different lengths.
    """

    def __init__(self, maps: Sequence[FeatureMap]) -> None:
        if not maps:
            raise check.refuse("maps", maps, "at least one feature map")
        for number, each in enumerate(maps):
            for name in ("inputs", "size"):
                if getattr(each, name) != getattr(maps[0], name):
                    raise check.refuse(
                        f"maps[{number}].{name}", getattr(each, name), f"{getattr(maps[0], name)}, as of maps[0]"
                    )
        self.maps = tuple(maps)
        self.inputs = maps[0].inputs
        self.size = len(maps) * maps[0].size

    def __call__(self, x: NDArray[np.float64], /) -> NDArray[np.float64]:
        """Map inputs of shape (n, inputs) to features of shape (n, size); raises BadInput as the first map does."""
        return np.hstack([each(x) for each in self.maps])
