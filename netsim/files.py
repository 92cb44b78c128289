"""Files that are written whole or not at all."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from netsim.errors import BadInput


@contextmanager
def write_whole(path: str | Path) -> Iterator[BinaryIO]:
    """Open a file for writing bytes; it appears under ``path`` only once the block has ended without an error.

    Raises
    ------
    BadInput
        If the folder does not exist.
    """
    path = Path(path)
    if not path.parent.is_dir():
        raise BadInput(f"file = {str(path)!r}: must be in a folder that exists")
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
        # mkstemp makes private files; give this one what open() would have given it.
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(name, 0o666 & ~mask)
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise
