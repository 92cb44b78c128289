"""Write files atomically; decode text files."""

import errno
import itertools
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from netsim.errors import BadInput, NetsimError, one_line

_FORBIDDEN = (errno.EACCES, errno.EPERM, errno.EROFS)
# Control bytes that no text file contains. They reveal binary files, some of which are valid UTF-8 by chance.
_CONTROL = bytes((*range(9), *range(14, 32)))


@contextmanager
def write_whole(path: str | Path) -> Iterator[BinaryIO]:
    """Open a temporary file for writing bytes, and rename it to ``path`` when the block ends without an error.

    Raises BadInput if the folder does not exist or cannot be written, or if ``path`` is a folder; OSError if writing
    fails, for example on a full disk. After an error, an existing file at ``path`` is unchanged.
    """
    path = Path(path)
    if not path.parent.is_dir():
        raise BadInput(f"file = {str(path)!r}: must be in a folder that exists")
    if path.is_dir():
        raise BadInput(f"file = {str(path)!r}: must be a file; it is a folder")
    # Shorten the file's name, because the whole name with a suffix could exceed the file system's maximum length.
    names = (path.with_name(f".{path.name[:40]}.{os.getpid()}-{number}") for number in itertools.count())
    # A name may be in use, by another thread that writes the same file, or by a file that a killed process left behind.
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
    """Write bytes to a file atomically, and return its path.

    Raises BadInput like `write_whole`, and NetsimError if writing fails.
    """
    try:
        with write_whole(path) as file:
            for piece in pieces:
                file.write(piece)
    except OSError as error:
        raise NetsimError(
            f"file = {str(path)!r}: could not be written ({error.strerror or one_line(error)})"
        ) from error
    return Path(path)


def text_of(data: bytes, where: str, allowed: str = "text in UTF-8") -> str:
    """Decode a file's bytes; if they are not text in UTF-8, raise BadInput that begins with ``where`` and the line."""
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise BadInput(f"{where}: must be text in UTF-8; it is in UTF-16")
    try:
        text = data.decode("utf-8-sig")
        # `translate` deletes control bytes, so equal lengths mean that there are none. This is six times as fast as a
        # regular expression.
        if len(data.translate(None, _CONTROL)) == len(data):
            return text
        at = next(place for place, byte in enumerate(data) if byte in _CONTROL)
    except UnicodeDecodeError as error:
        # `error.start` does not count the bytes of a byte order mark.
        at = error.start + len(data) - len(error.object)
    line = data.count(b"\n", 0, at) + 1
    raise BadInput(f"{where}, line {line}: must be {allowed}; it has a byte {data[at]:#04x}")
