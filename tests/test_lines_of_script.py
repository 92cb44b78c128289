"""The script lengths stated in docs/lines_of_script.md equal those of the scripts on the pages."""

import re

from tests.command import ROOT

SCRIPT = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def lines(script: str) -> int:
    return sum(bool(line.strip()) and not line.lstrip().startswith("#") for line in script.splitlines())


def test_our_lines_are_those_of_the_scripts_that_are_shown() -> None:
    page, coap = ((ROOT / "docs" / name).read_text() for name in ("lines_of_script.md", "coap.md"))
    ours = [int(number) for number in re.findall(r"^\| .*? \| (\d+)", page, re.MULTILINE)]
    assert ours == [lines(script) for script in (*SCRIPT.findall(page), SCRIPT.findall(coap)[0])]
    # The lengths stated for other simulators must be the sums of their files' lengths.
    for row in re.findall(r"^\| .*? \| \d+.*? \| (\d+) \| (.*) \|$", page, re.MULTILINE):
        files = [int(number) for number in re.findall(r"\.?[a-zA-Z]+` (\d+)", row[1].split(".csc`")[0])]
        assert not files or sum(files) == int(row[0])
