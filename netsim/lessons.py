"""Questions of a lesson: the reader guesses before a run shows the answer.

``guess("q1", "How many leaders?", ["none", "one", "two"], right=2)`` at the end of a cell shows the question. On the
documentation's website the reader answers with a click, which opens the cells with the metadata ``{"reveal": "q1"}``.
"""

import html
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from netsim.util import check

__all__ = ["Guess", "guess"]


@dataclass(frozen=True)
class Guess:
    """A question with options, as a notebook shows it.

    Attributes
    ----------
    name : str
        The name in the metadata of cells.
    question : str
        The text of the question.
    options : tuple of str
        The choices.
    right : int
        The index of the right option.
    """

    name: str
    question: str
    options: tuple[str, ...]
    right: int

    def __repr__(self) -> str:
        return "\n".join([self.question, *(f"  {chr(ord('a') + i)}) {each}" for i, each in enumerate(self.options))])

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        options = "".join(f"<li>{html.escape(each)}</li>" for each in self.options)
        answer = f"<summary>The answer, once you have guessed</summary>{html.escape(self.options[self.right])}"
        asked = f"<p><b>{html.escape(self.question)}</b></p><ol type='a'>{options}</ol>"
        return {
            "text/plain": repr(self),
            "text/html": f"{asked}<details>{answer}</details>",
            "application/vnd.netsim.guess+json": vars(self) | {"options": list(self.options)},
        }


def guess(name: str, question: str, options: Sequence[str], *, right: int) -> Guess:
    """Return a question that a notebook's cell shows.

    Parameters
    ----------
    name : str
        The question's identifier, one word. The answer opens the cells with the metadata ``{"reveal": name}``.
    question : str
        The text of the question.
    options : sequence of str
        The two to eight choices.
    right : int
        The index of the correct choice.

    Raises
    ------
    BadInput
        If the name is not one word, the number of options is not 2 to 8, or ``right`` is not the index of an option.
    """
    if not name.isidentifier():
        raise check.refuse("name", name, "a word, such as q1")
    if isinstance(options, str) or not 2 <= len(options) <= 8:
        raise check.refuse("options", options, "a list of two to eight texts")
    right = check.integer("right", right, low=0, high=len(options) - 1)
    return Guess(name, question, tuple(options), right)
