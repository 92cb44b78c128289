"""Marks: ``pytest --submission FILE`` tests a submission, prints its marks and writes them to results.json."""

import json
import signal
import sys
from pathlib import Path
from types import ModuleType

import pytest

from netsim.testing import KnowsUnheard, isolated

SECONDS = 10
"""Seconds of processor time that a test, or the import of a submission, may take: a busy machine costs no marks."""


class TooLong(KeyboardInterrupt):
    """Raised within ``while True: pass``. No Exception, which the submission might catch."""


def too_long(*_):
    raise TooLong(f"took more than {SECONDS} s of the processor: does a loop never wait?")


def alarm(seconds):
    """Raise TooLong in so many seconds, and then each second until it is heard; 0 stops it. Windows has none."""
    if hasattr(signal, "setitimer"):
        signal.signal(signal.SIGPROF, too_long)
        signal.setitimer(signal.ITIMER_PROF, seconds, 1)


class Submission:
    """The classes of a submission, by name; each agent that is made of one is isolated from the others."""

    def __init__(self, path):
        # Imported by hand, because an import would write its bytecode beside the student's file.
        self.module = sys.modules["submission"] = ModuleType("submission")
        self.module.__file__ = str(path)
        exec(compile(path.read_bytes(), str(path), "exec"), vars(self.module))

    def __getitem__(self, name):
        return isolated(getattr(self.module, name))


def pytest_addoption(parser):
    parser.addoption("--submission", type=Path, required=True, help="The student's file.")
    parser.addoption("--results", type=Path, default=Path("results.json"), help="The file for the marks.")


def pytest_configure(config):
    config.addinivalue_line("markers", "marks(count): what a test is worth")
    config.marks, config.remark, config.cheat = {}, "The grading was cut off.", ""


def pytest_collection_modifyitems(config, items):
    """Give each test 0 marks, and import the submission; if that fails, no test runs."""
    for item in items:
        marker = item.get_closest_marker("marks")
        if marker is None or len(marker.args) != 1:
            raise pytest.UsageError(f"{item.name}: must say what it is worth, as @pytest.mark.marks(2)")
        (most,) = marker.args
        name = (item.function.__doc__ or item.name).partition("\n")[0]
        config.marks[item.nodeid] = {"name": name, "score": 0, "max_score": most, "output": ""}
    save(config)
    try:
        alarm(SECONDS)
        config.submission = Submission(config.option.submission)
    except BaseException as error:
        config.failed = f"The file cannot be imported: {type(error).__name__}: {error}"
        items.clear()
    finally:
        alarm(0)


@pytest.fixture
def submission(request):
    """The classes of the student's file, by name; each agent is isolated from the others."""
    return request.config.submission


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    try:
        alarm(SECONDS)
        return (yield)
    except TooLong as error:
        pytest.fail(str(error))
    finally:
        alarm(0)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    marks = item.config.marks[item.nodeid]
    if report.failed:
        # Without pytest's own explanation of an assertion.
        marks.update(score=0, output=str(call.excinfo.value).partition("\nassert ")[0])
        if isinstance(call.excinfo.value, KnowsUnheard):
            item.config.cheat = f"No marks, for the agents share more than frames: {call.excinfo.value}"
    elif report.when == "call":
        marks["score"] = marks["max_score"]
    save(item.config)
    return report


def save(config):
    """Write what is known, in the form of Gradescope: whatever the submission does next, it stays."""
    if config.cheat:
        for each in config.marks.values():
            each["score"] = 0
    tests = list(config.marks.values())
    score = sum(each["score"] for each in tests)
    config.option.results.write_text(json.dumps({"score": score, "output": config.remark, "tests": tests}, indent=2))


def pytest_terminal_summary(terminalreporter, config):
    config.remark = getattr(config, "failed", config.cheat)
    save(config)
    tests = config.marks.values()
    lines = [config.remark] if config.remark else []
    for each in tests:
        lines += [f"{each['score']:2} of {each['max_score']:2}  {each['name']}"]
        lines += [f"          {line}" for line in each["output"].splitlines()]
    lines += [f"{sum(each['score'] for each in tests):2} of {sum(each['max_score'] for each in tests):2}  in all"]
    terminalreporter.write("\n" + "\n".join(lines) + "\n")
