"""Conventions of all classics: a module is short, its agents cite their paper, and the package exports its names."""

import ast
import importlib
import inspect
import io
import tokenize
from pathlib import Path

import netsim
from netsim.agents import classics
from netsim.agents.papers import Cited
from tests.parts import every

FOLDER = Path(classics.__file__).parent
MODULES = sorted(path for path in FOLDER.glob("*.py") if path.name != "__init__.py")
AGENTS = [kind for name in classics.__all__ if issubclass(kind := getattr(classics, name), netsim.Agent)]
LONGEST = 80


def code_lines(text: str) -> int:
    """Return the number of lines of code, without docstrings, comments, empty lines and drawing instructions."""
    strings = [
        node.body[0] for node in ast.walk(ast.parse(text)) if hasattr(node, "body") and isinstance(node.body, list)
    ]
    docs = {
        line
        for part in strings
        if isinstance(part, ast.Expr) and isinstance(part.value, ast.Constant) and isinstance(part.value.value, str)
        for line in range(part.lineno, (part.end_lineno or part.lineno) + 1)
    }
    skipped = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)
    tokens = [token for token in tokenize.generate_tokens(io.StringIO(text).readline) if token.type not in skipped]
    # Lines that describe how an agent is drawn in replays do not count, because they are not part of the algorithm.
    drawn = {
        line
        for part in ast.walk(ast.parse(text))
        if (isinstance(part, ast.AnnAssign) and ast.unparse(part.target) == "draw")
        or (isinstance(part, ast.ImportFrom) and part.module == "netsim.draw")
        for line in range(part.lineno, (part.end_lineno or part.lineno) + 1)
    }
    return len({line for token in tokens for line in range(token.start[0], token.end[0] + 1)} - docs - drawn)


@every("path", MODULES)
def test_a_classic_is_short(path: Path) -> None:
    assert code_lines(path.read_text()) <= LONGEST


@every("kind", AGENTS)
def test_a_classic_names_its_paper(kind: type[netsim.Agent]) -> None:
    assert issubclass(kind, Cited)
    assert kind.citation()
    assert inspect.getdoc(kind)


@every("path", MODULES)
def test_the_room_offers_what_its_modules_offer(path: Path) -> None:
    module = importlib.import_module(f"netsim.agents.classics.{path.stem}").__all__
    assert set(module) <= set(classics.__all__)
