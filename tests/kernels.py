"""Notebook kernels forked from a process that has already made the lessons' imports, which take two seconds."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

# pyplot is missing: a kernel must import it itself, because the import sets up how the kernel shows figures.
_MODULES = ("ipykernel.kernelapp", "matplotlib.backends.backend_agg", "matplotlib.figure", "pandas", "anywidget")
_MODULES += ("netsim.agents.classics", "netsim.replay.render", "netsim.scenarios", "netsim.testing", "tests.parts")

# Jupyter starts this script instead of a kernel. It sends the fork server the kernel's file and folder, and ends when
# the kernel does.
_STARTER = """
import os, signal, socket, sys
signal.signal(signal.SIGINT, signal.SIG_IGN)
with socket.socket(socket.AF_UNIX) as server:
    server.connect(sys.argv[1])
    server.sendall(f"{sys.argv[2]}\\n{os.getcwd()}\\n".encode())
    server.recv(1)
"""


@contextmanager
def forked_kernels(folder: Path) -> Iterator[str]:
    """Start the fork server with a socket in ``folder``; yield the JUPYTER_PATH that makes Jupyter use it."""
    address = str(folder / "socket")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(address)
        listening.listen()
        command = [sys.executable, "-c", f"from {__name__} import serve; serve({listening.fileno()})"]
        server = subprocess.Popen(command, cwd=Path(__file__).parents[1], pass_fds=[listening.fileno()])
    kernel = folder / "kernels" / "python3" / "kernel.json"
    kernel.parent.mkdir(parents=True)
    starter = [sys.executable, "-S", "-E", "-c", _STARTER, address, "{connection_file}"]
    kernel.write_text(json.dumps({"argv": starter, "display_name": "Python 3", "language": "python"}))
    try:
        yield str(folder)
    finally:
        server.kill()
        server.wait()


def serve(number: int) -> None:
    """Fork a kernel for each connection to the listening socket with this descriptor."""
    # A normal kernel sets these two: matplotlib reads the first; the second makes the kernel end with its parent.
    os.environ["MPLBACKEND"] = "module://matplotlib_inline.backend_inline"
    os.environ["JPY_PARENT_PID"] = str(os.getpid())
    for name in _MODULES:
        __import__(name)
    # Ended kernels are reaped automatically, because the server waits for none.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    with socket.socket(fileno=number) as listening:
        while True:
            # The child keeps its copy of the connection open until it ends, which tells the starter script.
            connection, _ = listening.accept()
            file, folder, _ = connection.recv(10_000).decode().split("\n")
            if os.fork() == 0:
                break
            connection.close()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.chdir(folder)
    from ipykernel import kernelapp

    kernelapp.launch_new_instance(argv=["-f", file])
