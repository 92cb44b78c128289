"""Write files atomically."""

import errno
import itertools
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from netsim.errors import BadInput, NetsimError, one_line

_FORBIDDEN = (errno.EACCES, errno.EPERM, errno.EROFS)


@contextmanager
def write_whole(path: str | Path) -> Iterator[BinaryIO]:
    """Open a temporary file for writing bytes, and rename it to ``path`` when the block ends without an error.

    Raises BadInput if the folder does not exist or cannot be written, or if ``path`` is a folder; OSError if writing
    fails, for example on a full disk. After an error, an existing file is unchanged.
    """
    path = Path(path)
    if not path.parent.is_dir():
        raise BadInput(f"file = {str(path)!r}: must be in a folder that exists")
    if path.is_dir():
        raise BadInput(f"file = {str(path)!r}: must be a file; it is a folder")
    # The whole name plus a suffix could exceed the file system's maximum length.
    names = (path.with_name(f".{path.name[:40]}.{os.getpid()}-{number}") for number in itertools.count())
    # Another thread may be writing the same file, or a killed process may have left a temporary one.
    temporary = next(name for name in names if not os.path.lexists(name))
    try:
        file = temporary.open("xb")
    except OSError as error:
        if error.errno in _FORBIDDEN:
            raise BadInput(
                f"file = {str(path)!r}: must be in a folder that can be written ({error.strerror})"
            ) from None
        raise
    try:
        with file:
            yield file
        os.replace(temporary, path)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise


def write_pieces(path: str | Path, pieces: Iterable[bytes]) -> Path:
    """Write bytes to a file atomically, and return its path; raises BadInput like `write_whole`, or NetsimError."""
    try:
        with write_whole(path) as file:
            for piece in pieces:
                file.write(piece)
    except OSError as error:
        raise NetsimError(
            f"file = {str(path)!r}: could not be written ({error.strerror or one_line(error)})"
        ) from error
    return Path(path)
