"""Two unnamed network namespaces, joined by a pair of virtual Ethernet devices.

Only this process refers to the namespaces. So when it ends, in whatever way, the kernel removes them with their
devices, queues and rules, and no cleanup is needed after an interrupt.
"""

import contextlib
import ctypes
import errno
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

SENDER, RECEIVER = "sender", "receiver"
"""The names of the two devices."""

_ADDRESS = {SENDER: "10.0.0.1", RECEIVER: "10.0.0.2"}
_HARDWARE = {SENDER: "02:00:00:00:00:01", RECEIVER: "02:00:00:00:00:02"}
_PORT = 9000
_PATIENCE = 10  # Seconds for one command
_SEND_BUFFER, _RECEIVE_BUFFER, _BUFFER = 32, 33, 1 << 25  # SO_SNDBUFFORCE and SO_RCVBUFFORCE of asm-generic/socket.h
_NEW_NETWORK = 0x40000000  # CLONE_NEWNET of linux/sched.h
_HERE = "/proc/thread-self/ns/net"


class Unavailable(Exception):  # noqa: N818  names that say what happened
    """Something required is missing on this machine; the text names it in one line."""


def tool(name: str) -> str:
    """Return the path of a command; raises Unavailable if there is none.

    Users other than root often lack the folders of such commands in their PATH.
    """
    found = shutil.which(name, path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin")
    if found is None:
        raise Unavailable(f"there is no command {name}")
    return found


def become_root() -> None:
    """Restart this program as root of a new user namespace, if it is not root and the kernel allows it.

    If the kernel does not allow it, nothing happens: `open_ends` then reports the missing right.
    """
    if sys.platform != "linux" or os.geteuid() == 0 or shutil.which("unshare") is None:
        return
    # With a new network namespace, because a process may not return to one that belongs to another user namespace.
    command = ["unshare", "--user", "--map-root-user", "--net"]
    if subprocess.run([*command, "true"], capture_output=True, check=False).returncode == 0:
        sys.stdout.flush()
        os.execvp(command[0], [*command, sys.executable, *sys.orig_argv[1:]])


def _call(name: str, *arguments: int) -> None:
    """Call a function of the C library that Python 3.11 does not wrap."""
    if getattr(ctypes.CDLL(None, use_errno=True), name)(*arguments):
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


@contextlib.contextmanager
def _and_back() -> Iterator[None]:
    """Return to the present namespace at the end of the context."""
    home = os.open(_HERE, os.O_RDONLY)
    try:
        yield
    finally:
        _call("setns", home, _NEW_NETWORK)
        os.close(home)


@dataclass(frozen=True)
class Ends:
    """The two namespaces, ``"sender"`` and ``"receiver"``, each as the descriptor of an open file."""

    files: dict[str, int]

    @contextlib.contextmanager
    def inside(self, end: str) -> Iterator[None]:
        """Enter one end's namespace: sockets opened and commands started inside stay in it."""
        with _and_back():
            _call("setns", self.files[end], _NEW_NETWORK)
            yield

    def run(self, end: str, command: str) -> str:
        """Run a command at one end and return its output; raises Unavailable, with its error, if it fails."""
        name, *words = command.split()
        try:
            with self.inside(end):
                done = subprocess.run(
                    [tool(name), *words],
                    capture_output=True,
                    text=True,
                    check=False,
                    timeout=_PATIENCE,
                    pass_fds=list(self.files.values()),
                    # A Ctrl-C ends this program, but must not interrupt one of its commands.
                    start_new_session=True,
                )
        except subprocess.TimeoutExpired:
            raise Unavailable(f"{command!r}: not done after {_PATIENCE} s") from None
        if done.returncode:
            errors = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
            raise Unavailable(f"{command!r}: {errors[0]}")
        return done.stdout

    def sockets(self) -> tuple[socket.socket, socket.socket]:
        """Return a UDP socket at the sender, connected to one at the receiver, and the latter."""
        with self.inside(SENDER):
            sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        with self.inside(RECEIVER):
            receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        with contextlib.suppress(PermissionError):
            # Frames in a queue count against the socket's buffer, and a full one would block further frames.
            sender.setsockopt(socket.SOL_SOCKET, _SEND_BUFFER, _BUFFER)
            receiver.setsockopt(socket.SOL_SOCKET, _RECEIVE_BUFFER, _BUFFER)
        receiver.bind((_ADDRESS[RECEIVER], _PORT))
        sender.connect((_ADDRESS[RECEIVER], _PORT))
        return sender, receiver


@contextlib.contextmanager
def open_ends() -> Iterator[Ends]:
    """Open two namespaces and join them; raises Unavailable if that is impossible or not allowed."""
    if sys.platform != "linux":
        raise Unavailable(f"network namespaces are Linux's, and this is {sys.platform}")
    tool("ip")
    with contextlib.ExitStack() as stack:
        ends = Ends({})
        for end in (SENDER, RECEIVER):
            ends.files[end] = _new_namespace()
            stack.callback(os.close, ends.files[end])
        _join(ends)
        yield ends


def _new_namespace() -> int:
    """Return an open file of a new namespace."""
    try:
        with _and_back():
            _call("unshare", _NEW_NETWORK)
            return os.open(_HERE, os.O_RDONLY)
    except OSError as error:
        if error.errno == errno.EPERM:
            why = "only root, or who may make user namespaces, may make a network namespace"
            raise Unavailable(why) from None
        raise Unavailable(f"no network namespace could be made: {error.strerror}") from None


def _join(ends: Ends) -> None:
    """Create the two devices, with fixed entries of neighbours, so that only a plan's frames cross them."""
    for end in ends.files:
        with ends.inside(end), contextlib.suppress(OSError):
            # IPv6 would send neighbour discovery. If it cannot be disabled, the counts will not agree.
            Path("/proc/sys/net/ipv6/conf/default/disable_ipv6").write_text("1")
    peer = f"{RECEIVER} address {_HARDWARE[RECEIVER]} netns /proc/self/fd/{ends.files[RECEIVER]}"
    ends.run(SENDER, f"ip link add name {SENDER} address {_HARDWARE[SENDER]} type veth peer name {peer}")
    for end, other in ((SENDER, RECEIVER), (RECEIVER, SENDER)):
        ends.run(end, f"ip addr add {_ADDRESS[end]}/30 dev {end}")
        ends.run(end, f"ip link set {end} up arp off")
        ends.run(end, f"ip neigh replace {_ADDRESS[other]} lladdr {_HARDWARE[other]} dev {end} nud permanent")
