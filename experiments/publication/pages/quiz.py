"""The questions of quiz.yaml, with numbers from theory and from the card on training."""

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import NamedTuple

import yaml

from experiments.kinds.support import significant
from experiments.publication.pages import explorer
from experiments.publication.pages.cards import Card
from sdpa import softmax
from sdpa.theory import attention_expectations, attention_medians, score_variance

_PATH = Path(__file__).parent / "quiz.yaml"
_CASES = {"unscaled": 0.0, "third": 1 / 3, "root": 1 / 2, "two_thirds": 2 / 3}  # powers of d_k


class Question(NamedTuple):
    """A question with its choices, the right one, and the reason."""

    text: str
    choices: list[str]
    right: str
    why: str


def questions(cards: Collection[Card]) -> Iterator[Question]:
    """The questions; one `of` the subject of a card is left out without this card."""
    record = yaml.safe_load(_PATH.read_text(encoding="utf-8"))
    numbers = _in_theory(**record["sizes"])
    known = {card.subject: card for card in cards}
    for entry in record["questions"]:
        subject = entry.get("of")
        if subject and subject not in known:
            continue
        said = numbers | {"card": known.get(subject)}
        choices = [choice.format(**said) for choice in entry["choices"]]
        text, why = (entry[name].format(**said) for name in ("question", "why"))
        yield Question(text, choices, choices[entry["right"] - 1], why)


def _in_theory(
    wide: int, usual: int, n_keys: int, scores: list[float], times: int
) -> dict[str, object]:
    """The numbers of the questions on textbook rows of two widths, on one softmax, and on cost."""
    rows = {
        name: attention_expectations(wide, n_keys, wide**power) for name, power in _CASES.items()
    }
    gradients = [attention_medians(usual, n_keys, c).query_gradient_norm for c in (1, usual**0.5)]
    largest = max(scores)
    return {
        "wide": wide,
        "usual": usual,
        "n_keys": n_keys,
        "largest": {name: row.max_weight for name, row in rows.items()},
        "variance": {name: score_variance(wide, wide**power) for name, power in _CASES.items()},
        "gradients": gradients,
        "crossing": significant(explorer.EXACT_CROSSINGS["query_gradient"](n_keys), 2),
        "scores": ", ".join(map(str, scores)),
        "weight": softmax(scores).max(),
        "share": largest / sum(scores),
        "even": 1 / len(scores),
        "times": times,
        "square": times**2,
        "cube": times**3,
    }
