"""An audited function: its outputs for inputs that tell attentions apart, and facts of its weights."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from sdpa.auditing.computation import SIZES, Array, Case, Fact, Facts, Steps
from sdpa.masks import Reach

# Of types: what rounding does to scores, with some room; the spread of scores from which facts are
# read, small so that a soft cap is nothing; and the precision of these facts.
TYPES = {
    "float64": (2**-49, 1e-3, 1e-4),
    "float32": (2**-20, 0.05, 1e-3),
    "float16": (2**-10, 1, 0.05),
    "bfloat16": (2**-7, 1, 0.05),
}
_POWERS = {"1/2": 0.5, "1": 1, "-1/2": -0.5, "-1": -1, "1/4": 0.25}
_FORMULAS = [
    *(
        Fact(f"{name}^{words}", lambda c, name=name, power=power: c.sizes[name] ** power)
        for (words, power), name in itertools.product(_POWERS.items(), SIZES)
    ),
    Fact("(n_heads d_k)^1/2", lambda c: math.sqrt(c.sizes["n_heads"] * c.sizes["d_k"])),
    Fact("d_k^1/2/ln(n_keys)", lambda c: c.sizes["d_k"] ** 0.5 / math.log(c.sizes["n_keys"])),
    Fact("1 + d_k^1/2", lambda c: 1 + c.sizes["d_k"] ** 0.5),
    Fact("(d_k up to whole 128s)^1/2", lambda c: math.sqrt(-(-c.sizes["d_k"] // 128) * 128)),
]
Sample = tuple[Steps, Array]  # of the expected attention, and what was found


@dataclass(frozen=True)
class Audited:
    """A function, the facts that it should have, the type and usual width of its arrays, and the
    sizes that a mask or numbers by head decide.
    """

    function: Callable[..., Any]
    facts: Facts
    dtype: str
    d_k: int
    fixed: dict[str, int]

    def case(self, spread: float, at: float = 0, **other: int) -> Case:
        """Random arrays whose scores have a spread about a number, and minus it in every other row
        if it is above 0."""
        usual = 2, 3 * self.facts.groups, 16, self.d_k, 16, max(self.d_k, 24)
        sizes = dict(zip(("batch", *SIZES), usual, strict=True)) | other | self.fixed
        batch, heads, n_queries, d_k, n_keys, d_v = sizes.values()
        rng = np.random.default_rng(n_keys)
        q = rng.standard_normal((batch, heads, n_queries, d_k))
        k = rng.standard_normal((batch, heads // self.facts.groups, n_keys, d_k))
        v = rng.standard_normal((*k.shape[:3], d_v))
        divisor = self.facts.divisor.of(Case(q, k, v))
        q *= spread * divisor / d_k**0.5
        if at:
            k[..., 0] = math.sqrt(abs(at) * divisor)
            q[..., 0] = k[0, 0, 0, 0] * ((-1) ** np.arange(n_queries) if at > 0 else -1)
        q, k, v = (x.astype(self.dtype).astype(float) for x in (q, k, v))
        unusual = ", ".join(f"{name} {n}" for name, n in other.items())
        return Case(q, k, v, unusual or f"scores {at:g}, spread {spread:g}")

    def cases(self, spread: float) -> list[Case]:
        """Cases of several sizes."""
        sizes: list[dict[str, int]] = [
            *({"n_queries": n} for n in (16, 5, 1, 20)),
            {"n_queries": 24, "n_keys": 24},
            {"n_heads": 2 * self.facts.groups},
            {"d_k": 3 * self.d_k},
            {"d_v": 2 * self.d_k + 24},
        ]
        return [self.case(spread, **other) for other in sizes]

    def far_cases(self) -> list[Case]:
        """Cases of long rows, and of scores beyond usual ones."""
        far = 800 if self.dtype == "float64" else 110
        return [
            *(self.case(3, n_queries=3, n_keys=n) for n in (517, 520)),
            *(self.case(1, at) for at in (0, far, -far, -110)),
            *(
                self.case(spread)
                for spread in (10, 3e3, 2e4, 1e5)
                if spread < 0.05 / TYPES[self.dtype][0]
            ),
        ]

    def output(self, case: Case) -> Array | str:
        """The output for a case, in double precision; or why there is none."""
        try:
            found = np.asarray(self.function(*(x.astype(self.dtype) for x in case[:3]))).astype(
                float
            )
        except Exception as error:  # whatever it raises is a result of the audit
            return f"arrays of {self.dtype} raise {type(error).__name__}: {error}"
        wanted = *case.q.shape[:3], case.v.shape[3]
        return found if found.shape == wanted else f"expected shape {wanted}, got {found.shape}"

    def read(self) -> dict[str, Fact]:
        """Facts of the weights, which are outputs of one-hot values."""
        _, spread, near = TYPES[self.dtype]
        samples: list[Sample] = []
        for case in self.cases(spread):
            n_keys, d_v = case.v.shape[2:]
            w = self.output(case._replace(v=np.broadcast_to(np.eye(n_keys, d_v), case.v.shape)))
            if not isinstance(w, str):  # of a size that it refuses
                samples.append((Steps(case, self.facts), np.nan_to_num(w)[..., :n_keys]))
        if not samples:
            return {}
        steps, (a, w) = [a for a, _ in samples], samples[0]
        sums = [(w.sum(axis=-1) / a.w.sum(axis=-1))[a.visible.any(axis=-1)] for a, w in samples]
        types = (name for name in ("float16", "float32") if w.any() and (w == w.astype(name)).all())
        return {
            "divisor": _divisor(samples, near),
            "keys": _keys(samples),
            "sums": named(steps, [x.mean() for x in sums], a.facts.sums, near)
            if np.ptp(sums[0]) < near
            else Fact(f"{sums[0].min():.4g} to {sums[0].max():.4g}", None),
            "precision": Fact(next(types, self.dtype), None),
        }


def _keys(samples: list[Sample]) -> Fact:
    """The keys that have a weight; rows without keys say nothing."""
    for fact in _masks(*samples[0]):
        seen = [(fact.of(a.case), w != 0) for a, w in samples]
        if all(x.any() and ((x == y) | ~x.any(axis=-1, keepdims=True)).all() for x, y in seen):
            return fact
    return Fact("others", None)


def _masks(a: Steps, w: Array) -> Iterator[Fact]:
    """Masks: the expected one, its opposite, and those by position that agree with late queries."""
    expected = a.facts.keys
    yield expected
    yield Fact("all", lambda c: np.isfinite(c.distance()))
    yield Fact("those that should be hidden", lambda c: ~expected.of(c))
    for first, words in ((False, ""), (True, ", queries at the first positions")):
        seen = a.case.distance(first=first)[-8:][w[0, 0, -8:] != 0]
        ends = (-math.inf, seen.min(initial=0)), (math.inf, seen.max(initial=-99))
        for low, high in itertools.product(*ends):
            reach = Reach(-low, high)
            yield Fact(
                f"{low:g} to {high:g} from its own{words}",
                lambda c, first=first, reach=reach: reach.sees(0, c.distance(first=first)),
            )


def _divisor(samples: list[Sample], near: float) -> Fact:
    """The divisor of q.k: 1 over the slope of ln w, in least squares about the means of rows."""
    found, steps = [], []
    for a, w in samples:
        hidden = (w <= 0) | ~a.visible
        y, s = (np.ma.array(x - a.bias, mask=hidden) for x in (np.log(w), a.s))
        y, s = ((x - x.mean(axis=-1, keepdims=True)).filled(0) for x in (y, s))
        if not s.any():  # queries that see one key
            continue
        slope = (y * s).sum() / (s * s).sum()
        if not np.abs(y - slope * s).max() <= 30 * near * np.abs(y).max():
            return Fact("no number", None)
        found.append(a.divisor / slope)
        steps.append(a)
    return named(steps, found, samples[0][0].facts.divisor, near)


def named(samples: list[Steps], found: list[float], expected: Fact, near: float) -> Fact:
    """The expected number, a formula of sizes that vary, or a constant."""
    cases = [a.case for a in samples]
    if not found:
        return Fact("no number", None)
    ratio = found[0] / expected.of(cases[0])
    candidates = [
        expected,
        *(x for x in _FORMULAS if np.ptp([x.of(c) for c in cases])),
        Fact("1", lambda _: 1.0),
        Fact(f"{found[0]:.4g}", lambda _: found[0]),
        Fact(f"{ratio:.4g} times the expected one", lambda c: ratio * expected.of(c)),
    ]
    for fact in candidates:
        if np.allclose([fact.of(c) for c in cases], found, rtol=near, atol=0):
            return fact
    return Fact(", ".join(f"{x:.4g}" for x in found), None)
