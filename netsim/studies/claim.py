"""The place of a run folder, claimed before the run starts: no other run takes it, and a killed run leaves nothing.

A lock file and a folder of parts lie beside a folder that is new, and inside one that exists already. The operating
system gives the lock back when its process ends, however it ends; what is found unlocked was abandoned, and is swept.
"""

import errno
import itertools
import json
import os
import shutil
import socket
import stat
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType

from netsim.errors import BadInput

LOCK, PARTS = ".netsim-lock", ".netsim-part"

# What the system itself puts into a disk's topmost folder.
_OF_THE_SYSTEM = {"lost+found"}
_PATIENCE_S = 0.5
# Where locks belong to processes, as on NFS, opening a lock of our own once more would lose it.
_held: set[Path] = set()
_NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)


class Claim:
    """The place of one run folder, held until `close`; a context manager. Made by `claim` and `claim_next`.

    Attributes
    ----------
    folder : Path
        The run folder to be, links followed.
    shown : str
        The same as the user wrote it.
    parts : Path
        Where its files are written before `publish`.
    published : bool
        Whether the run folder is there.
    """

    def __init__(self, folder: Path, shown: str, room: Path, stem: str, descriptor: int, made: list[Path]) -> None:
        self.folder = folder
        self.shown = shown
        self.parts = room / (stem + PARTS)
        self._room = room
        self._stem = stem
        self._descriptor = descriptor
        self._made = made
        self.published = False

    def publish(self) -> None:
        """Make the parts the run folder: a new one by one rename, an old one file by file, summary.json last.

        Raises
        ------
        OSError
            If that cannot be done; the folder is then as it was.
        """
        if self._stem:
            os.rename(self.parts, self.folder)
        else:
            names = sorted(os.listdir(self.parts), key=lambda name: (name == "summary.json", name))
            for name in names:
                if os.path.lexists(self.folder / name):
                    raise FileExistsError(errno.EEXIST, f"it has a {name} now", name)
            for name in names:
                os.replace(self.parts / name, self.folder / name)
            self.parts.rmdir()
        self.published = True

    def close(self) -> None:
        """Give the place back; what was not published is removed."""
        if self._descriptor < 0:
            return
        if not self.published:
            _clear(self._room, self._stem)
        _give_back(self._room / (self._stem + LOCK), self._descriptor)
        self._descriptor = -1
        _unmake(self._made)

    def __enter__(self) -> "Claim":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def claim(folder: str | Path) -> Claim:
    """Claim a folder that is new or empty; a symbolic link to one is followed.

    Raises
    ------
    BadInput
        If it is neither, or cannot be written, or another run has claimed it.
    """
    found = _claim(folder, _PATIENCE_S)
    if isinstance(found, Claim):
        return found
    raise BadInput(
        f"out = {str(folder)!r}: must be a folder that no other run writes; "
        f"if none does, one was killed: then remove {str(found)!r}"
    )


def claim_next(name: str) -> Claim:
    """Claim the first ``runs/NAME-n`` that is free; of several processes each gets its own.

    Raises
    ------
    BadInput
        If it cannot be written.
    """
    for number in itertools.count(1):
        folder = Path("runs") / f"{name}-{number}"
        with _refusals(folder):
            taken = os.path.lexists(folder)
        found = None if taken else _claim(folder, 0.0, new=True)
        if isinstance(found, Claim):
            return found
    raise AssertionError("numbers do not end")


@contextmanager
def locked(folder: Path) -> Iterator[bool]:
    """Lock a folder that stays: whether nobody else has; the lock is given back at the end, or if the process dies.

    Raises
    ------
    BadInput
        If it cannot be written.
    """
    with _refusals(folder):
        descriptor = _take(folder / LOCK, _PATIENCE_S)
    try:
        yield descriptor is not None
    finally:
        if descriptor is not None:
            _give_back(folder / LOCK, descriptor)


def _claim(folder: str | Path, patience: float, new: bool = False) -> Claim | Path | None:
    """Return the claim, or the lock that another run holds, or None if the folder must be ``new`` and no longer is."""
    with _refusals(folder):
        for attempt in itertools.count(1):
            try:
                return _try_to_claim(folder, patience, new)
            except FileNotFoundError:
                # Another run that ended took a folder above away again.
                if attempt == 10:
                    raise
    raise AssertionError("unreachable")


def _try_to_claim(folder: str | Path, patience: float, new: bool) -> Claim | Path | None:
    if not str(folder):
        raise BadInput(f"out = {str(folder)!r}: must be a folder's name")
    if os.path.islink(folder) and not os.path.exists(folder):
        raise BadInput(f"out = {str(folder)!r}: must be a new or an empty folder; it is a link that leads nowhere")
    target = Path(os.path.realpath(folder))
    there = os.path.lexists(target)
    if new and there:
        return None
    # A lock inside: perhaps of a killed run, whose files do not count.
    if there and (not target.is_dir() or (_contents(target) and not (target / LOCK).exists())):
        raise _not_free(folder)
    room, stem = (target, "") if there else (target.parent, f".{target.name}")
    made: list[Path] = []
    try:
        if not there:
            _make(room, made)
        descriptor = _take(room / (stem + LOCK), patience)
        if descriptor is None:
            _unmake(made)
            return room / (stem + LOCK)
    except BaseException:
        _unmake(made)
        raise
    claimed = Claim(target, str(folder), room, stem, descriptor, made)
    try:
        _clear(room, stem)
        _sweep(room)
        if os.path.lexists(target) != there or (there and _contents(target)):
            if not new:
                raise _not_free(folder)
            claimed.close()
            return None
        claimed.parts.mkdir()
        # An umask may have taken rights away that we need ourselves.
        (claimed.parts / "trial").touch()
        (claimed.parts / "trial").unlink()
    except BaseException:
        claimed.close()
        raise
    return claimed


def _not_free(folder: str | Path) -> BadInput:
    return BadInput(f"out = {str(folder)!r}: must be a new or an empty folder")


@contextmanager
def _refusals(folder: str | Path) -> Iterator[None]:
    """Let what the operating system refuses end in one line."""
    try:
        yield
    except (OSError, ValueError) as error:
        if isinstance(error, BadInput):
            raise
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise BadInput(f"out = {str(folder)!r}: must be a folder that can be written ({reason})") from None


def _contents(folder: Path) -> set[str]:
    return set(os.listdir(folder)) - {LOCK, PARTS} - _OF_THE_SYSTEM


def _make(folder: Path, made: list[Path]) -> None:
    """Make a folder and those above it; those that were not there are appended to ``made``."""
    missing = [folder]
    while not missing[-1].exists():
        missing.append(missing[-1].parent)
    for each in reversed(missing[:-1]):
        with suppress(FileExistsError):
            each.mkdir()
            made.append(each)
    if not folder.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))


def _unmake(made: list[Path]) -> None:
    """Remove folders that were made and hold nothing."""
    for folder in reversed(made):
        with suppress(OSError):
            folder.rmdir()


# --- locks ------------------------------------------------------------------------------------------------------------


def _take(path: Path, patience: float) -> int | None:
    """Make a lock file, or take over one whose process is dead; return its open descriptor, or None if it is held."""
    deadline = time.monotonic() + patience
    while path not in _held:
        try:
            descriptor, fresh = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | _NO_FOLLOW, 0o666), True
        except FileExistsError:
            fresh, found = False, _open(path)
            if found is None:
                return None
            if found < 0:
                continue
            descriptor = found
        held = _lock(descriptor)
        if held and _is_still(path, descriptor):
            if fresh or _is_of_this_host(descriptor):
                _sign(path, descriptor)
                return descriptor
            os.close(descriptor)
            return None
        if held is None and fresh:
            # No locks on this file system: that the file was not there must do.
            _sign(path, descriptor)
            return descriptor
        os.close(descriptor)
        if not held:
            # A run that sweeps holds a lock for a moment only.
            if held is None or time.monotonic() >= deadline:
                return None
            time.sleep(0.02)
    return None


def _open(path: Path) -> int | None:
    """Open a lock file that was there: its descriptor, -1 if it has gone, None if it is not for us."""
    try:
        descriptor = os.open(path, os.O_RDWR | _NO_FOLLOW | getattr(os, "O_NONBLOCK", 0))
    except FileNotFoundError:
        return -1
    except OSError:
        return None
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    return None


def _lock(descriptor: int) -> bool | None:
    """Lock an open file; False if another process holds it, None where there are no locks."""
    if sys.platform == "win32":
        return None
    import fcntl

    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


def _is_still(path: Path, descriptor: int) -> bool:
    """Return whether an open file is still the one of that name: its holder may have removed it before we locked it."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.lstat(path))
    except OSError:
        return False


def _sign(path: Path, descriptor: int) -> None:
    """Write into the lock on which host it is held; the first write, so a full disk shows here."""
    try:
        os.ftruncate(descriptor, 0)
        os.lseek(descriptor, 0, os.SEEK_SET)
        os.write(descriptor, socket.gethostname().encode())
        _held.add(path)
    except BaseException:
        _give_back(path, descriptor)
        raise


def _is_of_this_host(descriptor: int) -> bool:
    """Return whether a lock was made here: on a disk that hosts share, locks of the others may not be seen."""
    os.lseek(descriptor, 0, os.SEEK_SET)
    return os.read(descriptor, 300) in (b"", socket.gethostname().encode())


def _give_back(path: Path, descriptor: int) -> None:
    """Remove a lock file, and then only unlock it: who opened it meanwhile must find that it is no longer the one."""
    try:
        path.unlink()
        removed = True
    except OSError:
        removed = False
    os.close(descriptor)
    _held.discard(path)
    if not removed and sys.platform == "win32":
        # Open files cannot be removed there.
        with suppress(OSError):
            path.unlink()


# --- what killed runs left --------------------------------------------------------------------------------------------


def _sweep(room: Path) -> None:
    """Remove what killed runs left in a folder: parts whose lock no process holds."""
    with suppress(OSError):
        for name in os.listdir(room):
            if name.endswith(LOCK) and room / name not in _held:
                descriptor = _open(room / name)
                if descriptor is None or descriptor < 0:
                    continue
                if _lock(descriptor) and _is_still(room / name, descriptor) and _is_of_this_host(descriptor):
                    _clear(room, name.removesuffix(LOCK))
                    _give_back(room / name, descriptor)
                else:
                    os.close(descriptor)


def _clear(room: Path, stem: str) -> None:
    """Remove a run's parts, and the files that it had moved to their place already when it ended."""
    parts = room / (stem + PARTS)
    if not stem:
        for name, size in _planned(parts).items():
            path = room / name
            with suppress(OSError, ValueError):
                if not os.path.lexists(parts / name) and path.is_file() and path.stat().st_size == size:
                    path.unlink()
    shutil.rmtree(parts, ignore_errors=True)
    with suppress(OSError):
        # One that must not be read, but is empty.
        parts.rmdir()


def _planned(parts: Path) -> dict[str, int]:
    """Return the files and sizes of which a summary that is still among the parts tells."""
    try:
        sizes = json.loads((parts / "summary.json").read_text(encoding="utf-8"))["bytes"]
        return {name: size for name, size in sizes.items() if os.path.basename(name) == name}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return {}
