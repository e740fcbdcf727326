"""The facts and the mistake with which an attention has all outputs of an audited function."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import product
from typing import NamedTuple

from sdpa.auditing.facts import FITTED, described, fit
from sdpa.auditing.mistakes import CHANGES, MISTAKES
from sdpa.auditing.model import Array, Attention
from sdpa.auditing.probes import Audited, Case, Precision

Output = Callable[[Attention], Array]
Weights = list[tuple[Attention, Array]]


class Explanation(NamedTuple):
    """What is wrong, the facts, and attentions with the outputs of all cases, to a precision."""

    findings: list[str]
    facts: dict[str, str]
    attentions: list[Attention]
    near: float

    def wrong(self, cases: list[Case], output: Output) -> Iterator[Case]:
        """The cases that have other outputs."""
        for case, a in zip(cases, self.attentions, strict=True):
            if case.errors(output(a)).max() > self.near:
                yield case

    def gives(self, cases: list[Case], output: Output) -> bool:
        """Whether these are all outputs; not if shapes do not fit."""
        with contextlib.suppress(ValueError):
            return not any(self.wrong(cases, output))
        return False


def explain(
    audited: Audited, cases: list[Case], precision: Precision
) -> tuple[Explanation, list[Case]]:
    """The first explanation of all outputs; else the facts if they give more of them than what is
    expected, and the cases that stay wrong.
    """
    # Those that tell come first.
    cases = sorted(cases, key=lambda c: c.errors(c.expected.output).max() <= precision.rounding)
    weights = audited.weights(precision.spread)
    for words, change in CHANGES.items():
        with contextlib.suppress(ValueError, IndexError):  # shapes that do not fit
            attentions = [change(case.expected) for case in cases]
            changed = [(change(a), found) for a, found in weights]
            bases = [*_explanations(attentions, changed, precision)]
            for (mistake, output), base in product(MISTAKES.items(), bases):
                if base.gives(cases, output):
                    findings = [one for one in (words, *base.findings, mistake) if one]
                    return base._replace(findings=findings), []
            if not words:
                parts = [(base, [*base.wrong(cases, MISTAKES[""])]) for base in bases]
    return min(parts, key=lambda part: len(part[1]))


def _explanations(
    usual: list[Attention], weights: Weights, precision: Precision
) -> Iterator[Explanation]:
    """By attentions as they are, and by the facts of weights, if these are others."""
    near = precision.near
    pairs = []
    for a, found in weights:
        if fitted := fit(a, found, near):
            pairs.append((a, fitted))
        elif not pairs:
            break
    if all(f.hidden.all() for _, f in pairs):
        pairs = []
    facts = described(pairs, near)
    yield Explanation([], facts, usual, precision.rounding)
    expected = described([(a, a) for a, _ in pairs], near)
    others = [
        f"{name}: {words}, expected {expected[name]}"
        for name, words in facts.items()
        if words != expected[name]
    ]
    if others:
        by_size = {str(f.sizes): {name: getattr(f, name) for name in FITTED} for _, f in pairs}
        attentions = [replace(a, **by_size.get(str(a.sizes), {})) for a in usual]
        # A soft cap bends scores.
        limit = precision.rounding / precision.spread + (usual[0].cap and near)
        yield Explanation(others, facts, attentions, limit)
