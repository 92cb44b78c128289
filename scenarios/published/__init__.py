"""Published numbers for comparison. The first line of each file names its source."""

from functools import cache
from importlib.resources import files

import pandas as pd


@cache
def published(name: str) -> pd.DataFrame:
    """Return the table ``<name>.csv`` of this package."""
    with files(__name__).joinpath(f"{name}.csv").open() as file:
        return pd.read_csv(file, comment="#")
