"""The questions of quiz.yaml, with numbers from theory and from the card on training."""

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from experiments.kinds.support import BOTH, significant
from experiments.page import explorer
from experiments.page.cards import Card
from sdpa import softmax
from sdpa.theory import attention_expectations, attention_medians, score_variance

_PATH = Path(__file__).parent / "quiz.yaml"


class Question(NamedTuple):
    """A question with its choices, the right one, and the reason; and the card that it is about."""

    text: str
    choices: list[str]
    right: str
    why: str
    shapes: list[str]  # paths of curves to choose from, if any
    card: Card | None


def questions(cards: Collection[Card]) -> Iterator[Question]:
    """The questions; one `of` the subject of a card is left out without this card."""
    record = yaml.safe_load(_PATH.read_text(encoding="utf-8"))
    numbers = _in_theory(record["sizes"])
    numbers["scores"] = record["scores"]
    numbers["weight"] = softmax(record["scores"]).max()
    numbers |= {"count": len(record["scores"]), "total": sum(record["scores"])}
    known = {card.subject: card for card in cards}
    for entry in record["questions"]:
        subject = entry.get("of")
        if subject and subject not in known:
            continue
        said = numbers | {"card": known.get(subject)}
        choices = [choice.format(**said) for choice in entry["choices"]]
        text, why = (entry[name].format(**said) for name in ("question", "why"))
        right = choices[_place(entry["right"], said) - 1]
        yield Question(text, choices, right, why, entry.get("shapes", []), known.get(subject))


def _place(right: int | str, said: Mapping[str, Any]) -> int:
    """The place of the right choice, from 1."""
    if isinstance(right, int):
        return right
    first, second = said["gradients"] if right == "gradients" else said["card"].curves.pair
    return 1 + [first > second, first < second, first == second].index(True)


def _in_theory(sizes: Mapping[str, int]) -> dict[str, object]:
    """Sizes, and what theory says of textbook rows of these sizes."""
    wide, n_keys = sizes["wide"], sizes["n_keys"]
    means = [attention_expectations(wide, n_keys, rule) for rule in BOTH]
    medians = [attention_medians(sizes["narrow"], n_keys, rule) for rule in BOTH]
    return {
        **sizes,
        "powers": [score_variance(wide, wide**p) for p in (1 / 3, 2 / 3)],
        "weights": [mean.max_weight for mean in means],
        "gradients": [median.query_gradient_norm for median in medians],
        "crossing": significant(explorer.EXACT_CROSSINGS["query_gradient"](n_keys), 2),
    }
