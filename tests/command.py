"""Functions that run the command line, in this process or in a separate one."""

import functools
import io
import json
import os
import subprocess
import sys
import textwrap
import warnings
from contextlib import ExitStack, chdir, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any
from unittest import mock

from netsim import core
from netsim.studies.cli import main

ROOT = Path(__file__).parents[1]
MAIN = "from netsim.studies.cli import main; main()"

DEPRECATIONS = (DeprecationWarning, PendingDeprecationWarning, FutureWarning)
"""Categories of warnings about future changes in numpy, pandas, networkx and asyncio; they are errors in all tests."""

OTHER = {"python": "", "compiled": "python"}[core.NAME]
"""The value of NETSIM_CORE that makes a process use the other core than this process does."""

Done = subprocess.CompletedProcess[str]


def environment(**more: str) -> dict[str, str]:
    """Return this process's environment without NETSIM_DATA, the folder of real data, plus ``more``."""
    return {name: value for name, value in os.environ.items() if name != "NETSIM_DATA"} | more


def shown(message: Warning | str, category: type[Warning], filename: str, lineno: int, *_: Any) -> None:
    """Print a warning to stderr; otherwise pytest would collect it."""
    sys.stderr.write(warnings.formatwarning(message, category, filename, lineno))


def call(*words: str, cwd: Path, **env: str) -> Done:
    """Run the command in this process, because a new process would need a second for its imports."""
    out, err = io.BytesIO(), io.BytesIO()
    status: Any = 0
    with ExitStack() as stack:
        for each in (
            chdir(cwd),
            redirect_stdout(io.TextIOWrapper(out, encoding="utf-8", write_through=True)),
            redirect_stderr(io.TextIOWrapper(err, encoding="utf-8", write_through=True)),
            mock.patch.object(sys, "argv", ["netsim", *words]),
            mock.patch.dict(os.environ, environment(**env), clear=True),
            warnings.catch_warnings(),
        ):
            stack.enter_context(each)
        # The command prints warnings, whereas pytest turns them into errors.
        warnings.simplefilter("default")
        for category in DEPRECATIONS:
            warnings.simplefilter("error", category)
        warnings.showwarning = shown
        try:
            main()
        except SystemExit as stop:
            status = stop.code or 0
        return subprocess.CompletedProcess(words, status, out.getvalue().decode(), err.getvalue().decode())


def python(code: str, *words: str, **env: str) -> str:
    """Run code in a new Python process with the default core; return its output. The code must succeed."""
    inherited = {name: value for name, value in os.environ.items() if name not in ("NETSIM_CORE", "PYTHONHASHSEED")}
    command = [sys.executable, "-c", textwrap.dedent(code), *words]
    done = subprocess.run(
        command, cwd=ROOT, env=inherited | env, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


_SERVES = """
import json, os, sys, tempfile, traceback
import hypothesis, pandas, pytest, netsim.parallel, netsim.agents, tests.fuzzers.networks
for line in sys.stdin:
    with tempfile.TemporaryFile() as shown:
        if not (child := os.fork()):
            for number in (1, 2):
                os.dup2(shown.fileno(), number)
            status = 1
            try:
                exec(json.loads(line), {"__name__": "__main__"})
                status = 0
            except SystemExit as stop:
                status = stop.code or 0
            except BaseException:
                traceback.print_exc()
            finally:
                sys.stdout.flush()
                os._exit(status)
        status = os.waitpid(child, 0)[1]
        shown.seek(0)
        print(json.dumps([status, shown.read().decode()]), flush=True)
"""


@functools.cache
def _server(core: str) -> "subprocess.Popen[str]":
    """Start a process with a core and another hash seed; it runs each line of code that it reads in a fork."""
    variables = os.environ | {"NETSIM_CORE": core, "OPENBLAS_NUM_THREADS": "1", "PYTHONHASHSEED": "2"}
    return subprocess.Popen(
        [sys.executable, "-c", _SERVES],
        cwd=ROOT,
        env=variables,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def forked(code: str, of_core: str = os.environ.get("NETSIM_CORE", "")) -> tuple[int, str]:
    """Run code in a forked process; return its wait status and its output.

    It is forked from a process that has already imported netsim, pandas and pytest, because these imports take more
    than a
    second.
    """
    process = _server(of_core)
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(json.dumps(textwrap.dedent(code)) + "\n")
    process.stdin.flush()
    status, printed = json.loads(process.stdout.readline())
    return int(status), str(printed)


def on_the_other_core(code: str) -> str:
    """Run code in a process with the core that this process does not use, and return its output."""
    if not hasattr(os, "fork"):
        return python(code, NETSIM_CORE=OTHER, PYTHONHASHSEED="2")
    status, printed = forked(code, OTHER)
    assert status == 0, printed
    return printed


def call_apart(*words: str, cwd: Path, **env: str) -> Done:
    """Run the command in a new process, for variables that are only read at the start of a process."""
    command = [sys.executable, "-c", MAIN, *words]
    return subprocess.run(command, cwd=cwd, env=environment(**env), capture_output=True, text=True, check=False)
