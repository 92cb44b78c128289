"""Read a file of limited size, decompress it, and return its content as text, lines, XML without entities, or JSON."""

import bz2
import gzip
import io
import json
import re
import stat
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any
from xml.etree import ElementTree
from xml.parsers import expat

from netsim.errors import BadInput, one_line
from netsim.util.datafiles import used
from netsim.util.files import text_of

__all__ = ["FileContent"]

# Limit of a file's uncompressed size in bytes: a larger network could not be emulated, and a compressed file of a few
# kilobytes may expand to any size.
_MOST_BYTES = 2**28
# Limit of the nesting depth of XML. No supported format is deeper, and millions of levels would exhaust the memory.
_DEEPEST = 64
_PACKED = (".gz", ".bz2")


@dataclass(frozen=True)
class FileContent:
    """The content of a file.

    Attributes
    ----------
    where : str
        The beginning of error messages about the file: the argument's name and the path.
    path : Path
        The path of the file.
    data : bytes
        The content, decompressed.
    """

    where: str
    path: Path
    data: bytes

    @classmethod
    def read(cls, name: str, path: str | Path) -> "FileContent":
        """Read a file, possibly compressed by gzip or bzip2; ``name`` is the name of the argument with the path.

        Raises
        ------
        BadInput
            If the file is missing, too large, not a regular file, or compressed but damaged.
        """
        where, path = f"{name} = {str(path)!r}", used(Path(path))
        return cls(where, path, _uncompressed(where, _bytes_of(where, path)))

    def refuse(self, allowed: str, line: int | None = None) -> BadInput:
        """Return a BadInput which reports that the file, or this line of it, must be ``allowed``."""
        return BadInput(f"{self.where}{'' if line is None else f', line {line}'}: must be {allowed}")

    @cached_property
    def suffix(self) -> str:
        """The suffix of the file's name in lower case, ignoring a suffix of compression such as .gz."""
        ends = [each.lower() for each in self.path.suffixes if each.lower() not in _PACKED]
        return ends[-1] if ends else ""

    @cached_property
    def start(self) -> bytes:
        """The first 64 bytes after leading blanks."""
        return self.data[:1024].removeprefix(b"\xef\xbb\xbf").lstrip()[:64]

    @cached_property
    def text(self) -> str:
        """The content as text, with line feeds as line ends; raises BadInput for bytes that are not text."""
        return text_of(self.data, self.where).replace("\r\n", "\n").replace("\r", "\n")

    def lines(self, comment: str = "#") -> Iterator[tuple[int, str]]:
        """Yield (line number, text) for each line that is neither empty nor a comment."""
        for number, line in enumerate(self.text.split("\n"), 1):
            if (kept := line.strip()) and not kept.startswith(comment):
                yield number, kept

    @cached_property
    def is_xml(self) -> bool:
        """Whether the content begins as XML does."""
        return self.start[:1] == b"<"

    @cached_property
    def xml_root(self) -> str:
        """The name of the first element without its namespace, after checking that the XML is harmless.

        Raises
        ------
        BadInput
            If the content is not XML, declares an entity, or is nested too deeply. A few declared entities can stand
            for gigabytes of text ("billion laughs"), or for other files; no supported format needs entities.
        """
        parser, depth, root = expat.ParserCreate(), 0, ""

        def begin(name: str, _: Any) -> None:
            nonlocal depth, root
            depth, root = depth + 1, root or name
            if depth > _DEEPEST:
                raise self.refuse(f"XML of at most {_DEEPEST} levels", parser.CurrentLineNumber)

        def end(_: str) -> None:
            nonlocal depth
            depth -= 1

        def entity(name: str, *_: Any) -> None:
            raise self.refuse(f"XML without entities; it declares {name[:40]!r}", parser.CurrentLineNumber)

        parser.StartElementHandler, parser.EndElementHandler, parser.EntityDeclHandler = begin, end, entity
        try:
            parser.Parse(self.data.lstrip(), True)
        except expat.ExpatError as error:
            raise BadInput(f"{self.where}, line {error.lineno}: must be XML ({one_line(error)[:200]})") from None
        except (ValueError, LookupError) as error:
            # A ValueError other than BadInput, or a LookupError: the XML declares an encoding that Python lacks.
            if isinstance(error, BadInput):
                raise
            raise self.refuse(f"XML ({one_line(error)[:200]})") from None
        return re.split("[:}]", root)[-1]

    def xml(self) -> ElementTree.Element:
        """Return the root of the XML, with namespaces removed from element names."""
        assert self.xml_root
        root = ElementTree.fromstring(self.data.lstrip())
        for element in root.iter():
            element.tag = str(element.tag).rpartition("}")[2]
        return root

    def json(self) -> Any:
        """Return the content, parsed as JSON."""
        try:
            return json.loads(self.text)
        except json.JSONDecodeError as error:
            raise BadInput(f"{self.where}, line {error.lineno}: must be JSON ({error.msg})") from None
        except (ValueError, RecursionError) as error:
            raise self.refuse(f"JSON ({one_line(error)[:80]})") from None

    def number(self, text: str | None, name: str, line: int | None = None) -> float:
        """Convert a text to a finite number; raises BadInput, which shows the text and its line, if this fails."""
        try:
            value = float(text or "")
        except ValueError:
            value = float("nan")
        if abs(value) == float("inf") or value != value:
            given = "missing" if text is None else repr(text[:40])
            raise self.refuse(f"a file whose {name} is a finite number; it is {given}", line)
        return value


def _bytes_of(where: str, path: Path) -> bytes:
    try:
        kind = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        raise BadInput(f"{where}: must be an existing file") from None
    except (OSError, ValueError) as error:
        raise BadInput(f"{where}: must be a file that can be read ({one_line(error)})") from None
    if not stat.S_ISREG(kind.st_mode):
        # Refuse pipes, because reading one would block until another process writes to it.
        raise BadInput(
            f"{where}: must be a regular file; it is {'a folder' if stat.S_ISDIR(kind.st_mode) else 'a device or pipe'}"
        )
    if kind.st_size > _MOST_BYTES:
        raise BadInput(f"{where}: must be at most {_MOST_BYTES:,} bytes; it has {kind.st_size:,}")
    try:
        return path.read_bytes()
    except OSError as error:
        raise BadInput(f"{where}: must be a file that can be read ({one_line(error)})") from None


def _uncompressed(where: str, data: bytes) -> bytes:
    """Decompress gzip or bzip2; return other data unchanged."""
    module: Any
    if data[:2] == b"\x1f\x8b":
        name, module = "gzip", gzip
    elif data[:3] == b"BZh":
        name, module = "bzip2", bz2
    else:
        return data
    try:
        with module.open(io.BytesIO(data)) as file:
            found: bytes = file.read(_MOST_BYTES + 1)
    except EOFError:
        raise BadInput(f"{where}: must be a whole {name} file; it is cut short") from None
    except (zlib.error, OSError, ValueError) as error:
        raise BadInput(f"{where}: must be a whole {name} file ({one_line(error)})") from None
    if len(found) > _MOST_BYTES:
        raise BadInput(f"{where}: must be at most {_MOST_BYTES:,} bytes, uncompressed")
    return found
