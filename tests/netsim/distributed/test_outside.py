"""The script docs/examples/outside.py: two processes connected by UDP, and a device at a serial port."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.command import ROOT
from tests.parts import pseudo_terminal

SCRIPT = ROOT / "docs" / "examples" / "outside.py"


# Slow: a hundred rounds in real time, in four processes. The test is repeated if a process is suspended for long.
@pytest.mark.slow
def test_the_run_outside_is_the_simulation_and_what_the_page_shows(tmp_path: Path) -> None:
    for end in pseudo_terminal():
        os.close(end)
    page = (ROOT / "docs" / "outside.md").read_text(encoding="utf-8")
    shown = page.partition("docs/examples/outside.py\n")[2].partition("```")[0]
    told = ""
    for _ in range(3):
        done = subprocess.run([sys.executable, SCRIPT], cwd=tmp_path, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr
        told = done.stdout
        if told == shown:
            break
    assert told == shown
    assert "6 of 6 models" in told
    assert (tmp_path / "outside.png").stat().st_size > 10_000
