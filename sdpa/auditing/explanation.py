"""The facts and the mistake with which an attention has all outputs of an audited function."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import product

from sdpa.auditing.facts import described, fit
from sdpa.auditing.mistakes import CHANGES, MISTAKES
from sdpa.auditing.model import Array, Attention
from sdpa.auditing.probes import Audited, Case, Precision

Base = tuple[list[str], list[Attention], float]  # findings, attentions, and their precision
Explanation = tuple[list[str], dict[str, str], list[Case]]


def explain(audited: Audited, cases: list[Case], precision: Precision) -> Explanation:
    """What is wrong, the facts, and cases that these do not explain, which are none if a change, the
    facts and a mistake give all outputs; else of what gives more outputs, the facts or nothing.
    """
    # Those that tell come first.
    cases = sorted(cases, key=lambda c: c.errors(c.expected.output).max() <= precision.rounding)
    weights = audited.weights(precision.spread)
    partly: list[Explanation] = []
    for words, change in CHANGES.items():
        try:
            usual = [change(case.expected) for case in cases]
            changed = [(change(a), found) for a, found in weights]
        except (ValueError, IndexError):  # shapes that do not fit
            continue
        facts, others, fitted = _facts(usual, changed, precision.near)
        # A soft cap bends scores.
        limit = precision.rounding / precision.spread + (usual[0].cap and precision.near)
        bases: list[Base] = [([], usual, precision.rounding)]
        bases += [(others, fitted, limit)] * bool(others)
        for (mistake, output), (told, attentions, near) in product(MISTAKES.items(), bases):
            wrong = _wrong(cases, attentions, output, near)
            if not any(wrong):
                return [one for one in (words, *told, mistake) if one], facts, []
            if not words and not mistake:
                partly.append((told, facts, [*_wrong(cases, attentions, output, near)]))
    return min(partly, key=lambda part: len(part[2]))


def _wrong(
    cases: list[Case],
    attentions: list[Attention],
    output: Callable[[Attention], Array],
    near: float,
) -> Iterator[Case]:
    """The cases that have another output, or another shape."""
    for case, a in zip(cases, attentions, strict=True):
        with contextlib.suppress(ValueError):
            if case.errors(output(a)).max() <= near:
                continue
        yield case


def _facts(
    usual: list[Attention], weights: list[tuple[Attention, Array]], near: float
) -> tuple[dict[str, str], list[str], list[Attention]]:
    """The facts of weights, those that differ from the expected, and the attentions with them."""
    pairs = []
    for a, found in weights:
        if fitted := fit(a, found, near):
            pairs.append((a, fitted))
        elif not pairs:
            break
    if all(f.hidden.all() for _, f in pairs):
        return {}, [], usual
    facts = described(pairs, near)
    expected = described([(a, a) for a, _ in pairs], near)
    others = [f"{x}: {facts[x]}, expected {expected[x]}" for x in facts if facts[x] != expected[x]]
    by_size = {str(f.sizes): f for _, f in pairs}
    fits = [replace(by_size.get(str(a.sizes), a), q=a.q, k=a.k, v=a.v) for a in usual]
    return facts, others, fits
