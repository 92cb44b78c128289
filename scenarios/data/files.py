"""Find data sets by a path, or by their name in the folder NETSIM_DATA or in netsim's cache."""

from collections.abc import Sequence
from pathlib import Path

from netsim.datasets.store import in_cache, refuse_missing
from netsim.errors import BadInput
from netsim.util.datafiles import folders, nearest, used

SUFFIXES = (".csv.gz", ".csv", ".npz", ".parquet")
"""The endings of names of files that hold a table."""


def bare(data: str) -> str:
    """Return the name of a data set without its file's suffix; a path with a folder is unchanged."""
    return data if _has_folder(data) else data.removesuffix(_suffix(data))


def find_table(data: str) -> Path:
    """Return the path of a table, given a path or a name in the folder NETSIM_DATA or else in the cache.

    The name has one of the `SUFFIXES` or none; a path has one. Raises BadInput if there is no such file, or several.
    """
    suffix = _suffix(data)
    if _has_folder(data):
        if not suffix:
            raise BadInput(f"data = {data!r}: must be a file that ends in {', '.join(SUFFIXES)}, or a name without /")
        if not Path(data).is_file():
            raise BadInput(f"data = {data!r}: must be a file; there is none")
        return used(Path(data))
    wanted = (suffix,) if suffix else SUFFIXES
    name = data.removesuffix(suffix)
    found = [each / f"{name}{end}" for each in folders(bool(suffix)) for end in wanted]
    found = [each for each in found if each.exists()]
    if len(found) > 1 and not (suffix and found[0].samefile(found[1])):
        how = "its path" if suffix else "the name with its suffix"
        raise BadInput(f"data = {data!r}: must be one file, there are {', '.join(map(str, found))}; give {how}")
    if found:
        return used(found[0], by_name=True)
    if (path := in_cache(name, wanted)) is not None:
        return used(path, by_name=True)
    raise refuse_missing(name, wanted, "; data may also be the path of a file")


def check_data(data: str, known: Sequence[str]) -> None:
    """Raise BadInput unless ``data`` is the name of a ``known`` problem, or an existing table."""
    if data in known:
        return
    try:
        find_table(data)
    except BadInput as error:
        near = nearest(data, known)
        if not near:
            raise
        raise BadInput(f"data = {data!r}: must be {', '.join(known)} or a table{near}; {error}") from None


def _has_folder(data: str) -> bool:
    return Path(data).name != data


def _suffix(data: str) -> str:
    return next((each for each in SUFFIXES if data.endswith(each) and data != each), "")
