"""Declarations of published statements: each is a call, or a function under a decorator.

An entry has ids (SOURCE-NUMBER of every place of publication, with a letter for a part), the
statement in our words, the claimed numbers with the digits that the source prints, and what
answers it: numbers, or tested cases.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt

from experiments.claims.judge import CONCEPTUAL_ERROR, OVERSTATEMENT, SLIP, WRONG_NUMBER, Answer
from experiments.claims.measured import Given

Answering = Callable[[Given], Answer]
Cases = tuple[Mapping[str, object], str]  # cases in words, each with its truth; and the note
Testing = Callable[[Given], Cases]
Noting = Callable[[Given], str]


@dataclass(frozen=True)
class Claim:
    """An entry. `severity` is that of a mistake in it; an open statement has no rule."""

    id: str
    statement: str
    claimed: str
    rule: str
    severity: str
    answer: Answering


CLAIMS: list[Claim] = []  # in the order of declaration


def numbers(values: npt.ArrayLike, note: str = "", p_value: float | None = None) -> Answer:
    """The answer to a statement about numbers, which an array of any shape holds in its order."""
    return Answer(tuple(map(float, np.ravel(values))), p_value=p_value, note=note)


def _numbers(
    rule: str,
    ids: str,
    statement: str,
    claimed: str,
    found: npt.ArrayLike | Answering,
    note: str = "",
    severity: str = WRONG_NUMBER,
) -> None:
    """Declare a statement about numbers: by the right ones, or by a function if they take time."""

    def answer(given: Given) -> Answer:
        return found(given) if callable(found) else numbers(found, note)

    CLAIMS.append(Claim(ids, statement, claimed, rule, severity, answer))


digits = partial(_numbers, "digits")
about = partial(_numbers, "about")
count = partial(_numbers, "count")
shape = partial(_numbers, "shape")
draw = partial(_numbers, "draw")


def _cases(severity: str, ids: str) -> Callable[[Testing], Testing]:
    """Declares a statement that is true or not: the docstring of the function that tests it."""

    def declare(test: Testing) -> Testing:
        def answer(given: Given) -> Answer:
            cases, note = test(given)
            truths = {words: bool(true) for words, true in cases.items()}
            return Answer(cases=truths, note=note)

        CLAIMS.append(Claim(ids, _docstring(test), "", "true", severity, answer))
        return test

    return declare


in_general = partial(_cases, CONCEPTUAL_ERROR)  # about attention in general
in_example = partial(_cases, WRONG_NUMBER)  # about one example or result
of_training = partial(_cases, OVERSTATEMENT)
in_a_word = partial(_cases, SLIP)  # off in a word


def undecided(ids: str) -> Callable[[Noting], Noting]:
    """Declares an open statement: the docstring of the function that writes its note."""

    def declare(note: Noting) -> Noting:
        def answer(given: Given) -> Answer:
            return Answer(note=note(given))

        CLAIMS.append(Claim(ids, _docstring(note), "", "", "", answer))
        return note

    return declare


def _docstring(function: Callable[..., object]) -> str:
    """The docstring in one line."""
    return " ".join((function.__doc__ or "").split())
