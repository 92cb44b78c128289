"""Reserve the place of a run folder before the run starts.

No other run can then take the place, and killed runs leave no files. A lock file and a folder of parts lie beside a new
folder, or inside an existing one. The operating system releases the lock when its process ends, in whatever way;
unlocked leftovers are abandoned, and removed.
"""

import errno
import itertools
import os
import re
import shutil
import socket
import stat
import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from pathlib import Path

from filelock import BaseFileLock, FileLock, SoftFileLock, Timeout

from netsim.errors import BadInput
from netsim.studies.sums import NAME, digest_of, read_sums

LOCK, PARTS = ".netsim-lock", ".netsim-part"

# Folders that the system puts into the topmost folder of a disk; they do not count as content.
_OF_THE_SYSTEM = {"lost+found"}
_LOCK_TIMEOUT_S, _POLL_INTERVAL_S = 0.5, 0.02
# Errors of file systems without locks.
_WITHOUT_LOCKS = {errno.ENOSYS, errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP}
# Locks of this process: if locks belong to processes, as on NFS, reopening a lock file here would release the lock.
_held: set[Path] = set()


class Reservation(AbstractContextManager["Reservation"]):
    """The place of one run folder, held until `close`; a context manager, made by `reserve` and `reserve_next`.

    The run folder will be ``folder``, with links resolved; ``shown`` is its path as the user gave it. Its files are
    written into ``parts`` until it is ``published``.
    """

    def __init__(self, folder: Path, shown: str, parts: Path) -> None:
        self.folder = folder
        self.shown = shown
        self.parts = parts
        self.published = False
        # Actions that `close` takes to undo the reservation.
        self.undone = ExitStack()

    def publish(self) -> None:
        """Turn the parts into the run folder, a new one by one rename, an existing one file by file (SHA256SUMS last).

        Raises OSError on failure, and then leaves the folder unchanged.
        """
        if self.parts.parent != self.folder:
            os.rename(self.parts, self.folder)
        else:
            names = sorted(os.listdir(self.parts), key=lambda name: (name == NAME, name))
            for name in names:
                if os.path.lexists(self.folder / name):
                    raise FileExistsError(errno.EEXIST, f"it has a {name} now", name)
            for name in names:
                os.replace(self.parts / name, self.folder / name)
            self.parts.rmdir()
        self.published = True

    def close(self) -> None:
        """Release the place, and remove unpublished files."""
        self.undone.close()

    def __exit__(self, *error: object) -> None:
        self.close()


def reserve(folder: str | Path) -> Reservation:
    """Reserve a folder that is new or empty, or a symbolic link to one.

    Raises BadInput if the folder has files, cannot be written, or is reserved by another run.
    """
    found = _reserve(folder, _LOCK_TIMEOUT_S)
    if isinstance(found, Reservation):
        return found
    raise BadInput(
        f"out = {str(folder)!r}: must be a folder that no other run writes; "
        f"if none does, one was killed: then remove {str(found)!r}"
    )


def reserve_next(name: str) -> Reservation:
    """Reserve the first free folder ``runs/NAME-n``; raises BadInput if it cannot be written."""
    numbers = itertools.count(1)
    while True:
        folder = Path("runs") / f"{name}-{next(numbers)}"
        with refusals(folder):
            taken = os.path.lexists(folder)
        found = None if taken else _reserve(folder, 0.0, new=True)
        if isinstance(found, Reservation):
            return found


@contextmanager
def held(folder: Path, what: str) -> Iterator[None]:
    """Lock a permanent folder, new or existing, for this process; ``what`` names its use in messages.

    Raises BadInput if the folder cannot be written, or is locked by another process.
    """
    with refusals(folder):
        folder.mkdir(parents=True, exist_ok=True)
        lock = _acquire(folder / LOCK, _LOCK_TIMEOUT_S)
    if lock is None:
        raise BadInput(
            f"out = {str(folder)!r}: must not be in use by another {what}; if none is running, one was killed: "
            f"remove {str(folder / LOCK)!r}"
        )
    try:
        yield
    finally:
        _release(folder / LOCK, lock)


@contextmanager
def running_in(folder: Path, prefix: str) -> Iterator[Path]:
    """Yield a new folder inside a held folder, for the running parts; first remove such folders of killed processes."""
    for left in folder.glob(f"{prefix}*"):
        shutil.rmtree(left, ignore_errors=True)
    with refusals(folder):
        running = Path(tempfile.mkdtemp(prefix=prefix, dir=folder))
    try:
        yield running
    finally:
        shutil.rmtree(running, ignore_errors=True)


def clear_unfinished(*folders: Path) -> None:
    """Remove the temporary files of `netsim.util.files.write_whole` that killed processes left in held folders."""
    for left in (path for folder in folders for path in folder.glob(".*")):
        if re.fullmatch(r"\..+\.\d+-\d+", left.name) and left.is_file():
            left.unlink(missing_ok=True)


def _reserve(folder: str | Path, timeout: float, new: bool = False) -> Reservation | Path | None:
    """Return a reservation, the path of another run's lock, or None if a folder that must be ``new`` exists."""
    with refusals(folder):
        for _ in range(9):
            # Retry: another run that ended may have removed a parent folder.
            with suppress(FileNotFoundError):
                return _try_to_reserve(folder, timeout, new)
        return _try_to_reserve(folder, timeout, new)


def _try_to_reserve(folder: str | Path, timeout: float, new: bool) -> Reservation | Path | None:
    if not str(folder):
        raise BadInput(f"out = {str(folder)!r}: must be a folder's name")
    if os.path.islink(folder) and not os.path.exists(folder):
        raise BadInput(f"out = {str(folder)!r}: must be a new or an empty folder; it is a link that leads nowhere")
    target = Path(os.path.realpath(folder))
    there = os.path.lexists(target)
    if new and there:
        return None
    # A lock file here may belong to a killed run; ignore that run's partial files.
    if there and (not target.is_dir() or (_contents(target) and not (target / LOCK).exists())):
        raise _not_free(folder)
    room, stem = (target, "") if there else (target.parent, f".{target.name}")
    path, place = room / (stem + LOCK), Reservation(target, str(folder), room / (stem + PARTS))
    with ExitStack() as undone:
        if not there:
            _make(room, undone)
        lock = _acquire(path, timeout)
        if lock is None:
            return path
        undone.callback(_release, path, lock)
        undone.callback(lambda: None if place.published else _clear(room, stem))
        _clear(room, stem)
        _sweep(room)
        if os.path.lexists(target) != there or (there and _contents(target)):
            if new:
                return None
            raise _not_free(folder)
        place.parts.mkdir()
        # Try to write: the umask may have removed the rights needed here.
        (place.parts / "trial").touch()
        (place.parts / "trial").unlink()
        place.undone = undone.pop_all()
    return place


def _not_free(folder: str | Path) -> BadInput:
    return BadInput(f"out = {str(folder)!r}: must be a new or an empty folder")


@contextmanager
def refusals(folder: str | Path) -> Iterator[None]:
    """Raise BadInput, in one line, for any error of the operating system inside the context."""
    try:
        yield
    except (OSError, ValueError) as error:
        if isinstance(error, BadInput):
            raise
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise BadInput(f"out = {str(folder)!r}: must be a folder that can be written ({reason})") from None


def _contents(folder: Path) -> set[str]:
    return set(os.listdir(folder)) - {LOCK, PARTS} - _OF_THE_SYSTEM


def _make(folder: Path, undone: ExitStack) -> None:
    """Make a folder and its missing parents; ``undone`` removes new folders again if they are empty."""
    missing = [folder]
    while not missing[-1].exists():
        missing.append(missing[-1].parent)
    for each in reversed(missing[:-1]):
        with suppress(FileExistsError):
            each.mkdir()
            undone.callback(_remove_empty, each)
    if not folder.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))


def _remove_empty(folder: Path) -> None:
    with suppress(OSError):
        folder.rmdir()


# --- locks ------------------------------------------------------------------------------------------------------------


class _NotOurs(Exception):  # noqa: N818  it is no error
    """A lock file belongs to another host, or is not a lock file."""


def _acquire(path: Path, timeout: float) -> BaseFileLock | None:
    """Lock a file that is new or whose process is dead; return the lock, or None if another process holds it."""
    if path in _held:
        return None
    is_new = not os.path.lexists(path)
    lock: BaseFileLock = FileLock(path, timeout, thread_local=False, poll_interval=_POLL_INTERVAL_S, on_acquired=_sign)
    try:
        try:
            lock.acquire()
        except OSError as error:
            if not is_new or error.errno not in _WITHOUT_LOCKS:
                raise
            # The file system has no locks: the existence of the file must serve as the lock.
            path.unlink(missing_ok=True)
            lock = SoftFileLock(path, 0, thread_local=False)
            lock.acquire()
    except (Timeout, _NotOurs):
        return None
    except FileNotFoundError:
        raise
    except OSError:
        if not is_new:
            return None
        # The disk may have been full when the lock was written, so remove the file.
        path.unlink(missing_ok=True)
        raise
    _held.add(path)
    return lock


def _sign(descriptor: int) -> None:
    """Write this host's name into a lock; raise _NotOurs if it has another host's name.

    On a shared disk, locks of other hosts may be invisible.
    """
    here = socket.gethostname().encode()
    if not stat.S_ISREG(os.fstat(descriptor).st_mode) or os.read(descriptor, 300) not in (b"", here):
        raise _NotOurs
    os.lseek(descriptor, 0, os.SEEK_SET)
    os.write(descriptor, here)


def _release(path: Path, lock: BaseFileLock) -> None:
    """Remove a lock file before unlocking it, so that a process that has opened it meanwhile finds it removed."""
    with suppress(OSError):
        # Windows cannot remove an open file; filelock removes it on release.
        path.unlink()
    lock.release()
    _held.discard(path)


# --- what killed runs left --------------------------------------------------------------------------------------------


def _sweep(room: Path) -> None:
    """Remove the leftovers of killed runs in a folder: parts whose lock no process holds."""
    with suppress(OSError):
        for name in os.listdir(room):
            lock = _acquire(room / name, 0.0) if name.endswith(LOCK) and os.path.lexists(room / name) else None
            if lock is not None:
                _clear(room, name.removesuffix(LOCK))
                _release(room / name, lock)


def _clear(room: Path, stem: str) -> None:
    """Remove a run's parts, and the files that the run had already moved into place."""
    parts = room / (stem + PARTS)
    if not stem:
        # SHA256SUMS in the parts lists the files that the run was about to publish.
        with suppress(OSError, ValueError):
            for name, digest in read_sums(parts).items():
                path = room / name
                with suppress(OSError, ValueError):
                    if not os.path.lexists(parts / name) and path.is_file() and digest_of(path) == digest:
                        path.unlink()
    shutil.rmtree(parts, ignore_errors=True)
    # rmtree fails for an unreadable folder, which can be removed if it is empty.
    _remove_empty(parts)
