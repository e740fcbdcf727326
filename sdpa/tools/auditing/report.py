"""The audit of a function: outputs against those of the expected attention, and what explains them."""

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from sdpa._arrays import Array
from sdpa._names import not_among
from sdpa.row_maps import RowMap
from sdpa.scaling import SCALED, Rule
from sdpa.tools.auditing.facts import ranges, words_of
from sdpa.tools.auditing.mistakes import GRADIENTS, MISTAKES
from sdpa.tools.auditing.model import KINDS, Attention, rounded
from sdpa.tools.auditing.probes import VIEWS, Audited, Case, Function, raised

_ROPES = "none", "half", "interleaved"
_EMPTY = "any", "zero", "nan", "uniform"
_STEP = 1e-6  # of differences in double precision
_MOST_GROUPS = 128  # arrays of all heads are in memory; models have groups of up to 128


@dataclass
class Audit:
    """What was found about a function.

    Attributes:
        name: that of the function.
        findings: what is wrong, in words; empty if it is right.
        facts: what was read from its outputs, and its errors, by what they are about.
        verdict: in words.
    """

    name: str
    findings: list[str]
    facts: dict[str, str]
    verdict: str = ""

    def __str__(self) -> str:
        facts = (f"  {name}: {words}" for name, words in self.facts.items())
        lines = [f"audit of {self.name}: {self.verdict}", *self.findings]
        return "\n  ".join([*lines, "what it does:", *facts] if self.facts else lines)

    def to_pandas(self) -> Any:
        """A row with name, verdict, findings and facts, as a DataFrame of pandas, which is no
        dependency.
        """
        import pandas

        row = {"function": self.name, "verdict": self.verdict, "findings": "; ".join(self.findings)}
        return pandas.DataFrame([row | self.facts])


def audit(
    attention: Function,
    *,
    d_k: int = 64,
    dtype: str = "float64",
    scaling: Rule = SCALED,
    normalize: float | str | None = None,
    mask: npt.ArrayLike = "none",
    softcap: float = 0.0,
    sink: npt.ArrayLike | None = None,
    alibi: npt.ArrayLike | None = None,
    bias: npt.ArrayLike | None = None,
    rope: str = "none",
    groups: int | str = 1,
    empty: str = "any",
    backward: Function | None = None,
) -> Audit:
    """The computation of a function, found from its outputs alone; `Audit` prints as a report.

    Args:
        attention: attention(q, k, v) of NumPy arrays (batch, heads, n, d), with the output
            (batch, heads, n_queries, d_v); k and v have heads / groups heads.
        d_k: the width of most inputs.
        dtype: the type of the arrays: float64, float32, float16, or bfloat16, whose numbers are in
            arrays of float32.
        scaling, softcap, sink: what the function should have, as in `sdpa.attention_weights`.
        normalize: in place of scaling, the gain of q and k that are divided by their lengths; or `layer`
            for LayerNorm of q and k, without weights, before the scaling.
        mask: by name as there, queries at the last positions; at the first ones with `-first`, such
            as `causal-first` (PyTorch's `is_causal`); or an array (..., n_queries, n_keys), as for
            padding, whose sizes are then those of all inputs.
        alibi: the slope of a bias -slope (query position - key position), or one for each head.
        bias: what is added to scores, (..., n_queries, n_keys), whose sizes are those of all inputs.
        rope: the channels of q and k that make a pair of RoPE, whose base is 10000: half (those of
            two halves), interleaved (neighbours), or none. Queries are at the last positions.
        groups: query heads per head of keys and values, in consecutive order; `all` for one head
            of keys and values.
        empty: the output of queries that see no key: zero, nan, uniform (the mean of all values),
            or any.
        backward: backward(q, k, v, gradient of the output) with the gradients (dq, dk, dv).

    Raises:
        ValueError: an expectation that `sdpa.attention_weights` refuses, or an unknown word.

    >>> from sdpa import scaled_dot_product_attention
    >>> audit(scaled_dot_product_attention, scaling="unscaled").findings
    ['scores: q·k / d_k^1/2, expected q·k', 'wrong in all inputs']
    """
    for option, word, known in (
        ("dtype", dtype, KINDS),
        ("empty", empty, _EMPTY),
        ("rope", rope, _ROPES),
    ):
        if word not in known:
            raise ValueError(f"{option}: {not_among(word, known)}")
    if groups != "all" and groups not in range(1, _MOST_GROUPS + 1):
        expected = f"all, or a whole number from 1 to {_MOST_GROUPS}"
        raise ValueError(f"groups: expected {expected}, got {groups}")
    is_layer = normalize == "layer"
    if isinstance(normalize, str) and not is_layer:
        raise ValueError(f"normalize: expected a gain or layer, got {normalize}")
    gain = None if is_layer or normalize is None else float(normalize)
    if gain is not None and not 0 < gain < math.inf:
        raise ValueError(f"normalize: expected a gain above 0 or layer, got {normalize}")
    if normalize and softcap:
        raise ValueError(f"softcap: expected 0 beside normalized q and k, got {softcap}")
    if rope != "none" and (softcap or normalize or d_k % 8):
        raise ValueError(
            f"rope: expected no soft cap, no gain, and a multiple of 8 as d_k, got {d_k}"
        )
    sinks = RowMap.with_sinks(softcap, sink).sink
    product = "soft cap of scaled q·k" if softcap else "q·k of unit vectors" if gain else "q·k"
    if is_layer:
        product = "q·k after LayerNorm"
    if rope != "none":
        product = f"q·k after RoPE ({rope})"
    biases = {"slope * distance": alibi, "bias": bias}
    audited = Audited(
        function=attention,
        dtype=dtype,
        d_k=d_k,
        scaling=scaling,
        gain=gain,
        mask=mask,
        cap=softcap,
        sink=np.reshape(-math.inf if sinks is None else sinks, (-1, 1, 1)),
        slopes=np.reshape(np.asarray(1 if alibi is None else alibi, float), (-1, 1, 1)),
        product=product,
        biases={name: 1.0 for name, given in biases.items() if given is not None},
        groups=1 if groups == "all" else int(groups),
        bias=np.asarray(0 if bias is None else bias, float),
    )
    n_heads = audited.sizes["n_heads"]
    if groups == "all":
        audited = replace(audited, groups=n_heads, has_one_key_head=True)
    elif n_heads % audited.groups:
        raise ValueError(f"groups: expected all, or a divisor of {n_heads} heads, got {groups}")
    report = Audit(getattr(attention, "__name__", type(attention).__name__), [], {})
    with np.errstate(all="ignore"):
        _tell(audited, report, empty)
        if backward and not report.findings:
            _tell_gradients(audited, backward, report, empty)
    report.verdict = report.verdict or ("WRONG" if report.findings else "right in all inputs tried")
    return report


def _tell(audited: Audited, report: Audit, empty: str) -> None:
    """Tell the facts, and what explains wrong outputs."""
    cases = audited.cases(report.findings, report.facts)
    if not cases:
        report.verdict = "" if report.findings else "raises"
        report.findings.append("no output that can be audited")
        return
    if words := " or ".join(sorted({case.fitted.empty for case in cases} - {""})):
        report.facts["queries without keys"] = words
        if empty not in ("any", words):
            report.findings.append(f"queries without keys: {words}, expected {empty}")
    hiding = [case for case in cases if case.expected.hidden.all(axis=(1, 2)).any()]
    for case in hiding[:1]:
        report.facts["NaN at hidden keys"] = audited.nan_effect(case)
    wrong = [case for case in cases if not case.is_right]
    expected = words_of([case.expected for case in cases])  # all sizes tell the rule
    shown = [case.expected for case in wrong or cases if case.fitted.seen.any()]
    alike = words_of(shown) if shown else {}
    facts = words_of([case.fitted for case in wrong or cases], 2 * KINDS[audited.dtype].fact)
    facts |= {x: expected[x] for x in facts if facts[x] == alike.get(x)}
    report.facts |= facts
    if not wrong:
        return
    differences = [
        f"{x}: {words}, expected {expected.get(x, 'none')}"
        for x, words in facts.items()
        if words != expected.get(x)
    ]
    right = "; ".join(case.words for case in cases if case not in wrong)
    where = "; ".join(case.words for case in wrong)
    if len(right) < len(where):
        where = f"all inputs but {right}".removesuffix(" but ")
    size = np.median([case.errors(case.expected).max(axis=-1).mean() for case in wrong])
    reasons = _explained(cases, differences)
    if not reasons and (dtype := _computed_in(cases, audited.dtype, float(size))):
        report.verdict = f"right in {dtype}, not in {audited.dtype}"
        report.findings.append(f"as if computed in {dtype}: add --dtype {dtype}")
        report.facts |= expected
        return
    about = f"errors are about 2^{np.log2(size):.0f} of the largest value"
    unreliable: tuple[str, ...] = ()  # facts
    if math.isinf(size):
        about = "some outputs are no number"
        unreliable = "keys: others", "keys: not told", "weights sum to: no rule"
    a = wrong[0].expected
    mirrored = audited.output(replace(a, v=a.v[..., ::-1]))[..., ::-1]
    twice = audited.output(replace(a, v=2 * a.v))
    if not np.allclose(mirrored, wrong[0].output, 0.1, 0.1, equal_nan=True):
        differences.append("channels of v are not treated alike: reversed ones give other outputs")
        unreliable = "scores", "keys", "weights", "the softmax", "blocks"  # were read in channels
    if not np.allclose(twice, 2 * wrong[0].output, 0.1, 0.1, equal_nan=True):
        differences.append("outputs are no sums of v: twice v does not give twice the output")
    differences = [x for x in differences if not x.startswith(unreliable)]
    report.facts = {
        x: words for x, words in report.facts.items() if not f"{x}: {words}".startswith(unreliable)
    }
    differences += filter(None, [audited.sources(a), _places(wrong[0].near(a))])
    nothing = [*differences, f"nothing found gives all outputs; {about}"]
    report.findings += [*(reasons or nothing), f"wrong in {where}"]


def _explained(cases: list[Case], differences: list[str]) -> list[str]:
    """The facts and the mistake that give all outputs, which are of other inputs than the fit; none
    if nothing does.
    """
    is_half = cases[0].kind.fact > KINDS["float32"].fact
    for mistake, of in MISTAKES.items():
        if all(case.is_given_by(case.expected, of) for case in cases):
            # Facts follow from a mistake, but not from one within the rounding of half precision.
            return [*(differences if is_half or not mistake else []), *filter(None, [mistake])]
        if (differences or mistake) and all(case.is_given_by(case.fitted, of) for case in cases):
            return [*differences, *filter(None, [mistake])]
    return []


def _places(is_right: npt.NDArray[np.bool_]) -> str:
    """The places along each axis where all is right, if others are not; empty for none."""
    words = []
    for axis, name in enumerate(("batch entry", "head", "query", "channel")[: is_right.ndim]):
        others = tuple({*range(is_right.ndim)} - {axis})
        along = is_right.all(axis=others)
        if along.any() and not along.all():
            words.append(f"{name} {ranges(np.flatnonzero(along))} of {along.size}")
    return f"right in {' and '.join(words)}" if words else ""


def _computed_in(cases: list[Case], dtype: str, size: float) -> str:
    """The type narrower than that of the arrays in which all outputs are right; empty for none."""
    if any(case.is_right and "largest_score" not in case.words for case in cases):
        return ""  # rounding is in all rows but those of one key
    names = [*KINDS]
    for name in names[names.index(dtype) + 1 :]:
        kind = KINDS[name]
        if size < kind.rounding / 4 and all(replace(x, kind=kind).is_right for x in cases):
            return name
    return ""


def _tell_gradients(audited: Audited, backward: Function, report: Audit, empty: str) -> None:
    """Tell dq, dk and dv of several sizes; those that a backward raises for are no finding."""
    inputs = (
        f"d_k {audited.d_k}",
        f"d_v {2 * audited.d_k + 24}",
        "n_queries 130, n_keys 262",
        *[*VIEWS][:1],
        *(["n_queries 20"] if empty == "zero" else []),  # beside 16 keys, some may see none
    )
    by_input: dict[str, dict[str, str]] = {}
    for words, sizes in audited.possible(inputs).items():
        try:
            by_input[words] = _gradients(audited, backward, sizes)
        except (Exception, SystemExit) as error:  # whatever it raises is a result
            if not by_input:
                report.findings.append(f"backward {raised(error)}")
                return
            report.facts[words] = f"backward {raised(error)}"
    for name in ("dq", "dk", "dv"):
        wrong = {words: x[name] for words, x in by_input.items() if x[name] != "right"}
        by_verdict: dict[str, list[str]] = {}
        for words, verdict in wrong.items():
            by_verdict.setdefault(verdict, []).append(words)
        report.facts[name] = ", ".join(by_verdict) or "right"
        for verdict, where in by_verdict.items():
            suffix = f", in {'; '.join(where)}" if len(where) < len(by_input) else ""
            report.findings.append(f"{name}: {verdict}{suffix}")


def _gradients(audited: Audited, backward: Function, sizes: dict[str, Any]) -> dict[str, str]:
    """dq, dk and dv beside differences of the expected output, along several steps: along one
    alone, the change may be near 0, and most of it rounding.
    """
    a, *steps = (audited.draw(spread, **sizes) for spread in range(3, 11))
    axes = sizes["swapped"]
    upstream = steps[0].output.swapaxes(*axes).copy().swapaxes(*axes)
    gradients = backward(*audited.arrays(a), rounded(upstream, audited.dtype))
    return {
        f"d{name}": _verdict(audited, a, steps, name, np.asarray(gradient, float))
        for name, gradient in zip("qkv", gradients, strict=True)
    }


def _verdict(
    audited: Audited, a: Attention, steps: list[Attention], name: str, gradient: Array
) -> str:
    """What a gradient is the right one of; else, how it differs from the right one, and where not."""
    directions = np.array([audited.arrays(x)["qkv".index(name)] for x in steps], float)
    rates = np.einsum("sbhnd,bhnd->sbh", directions, gradient)
    moved = [replace(a, **{name: getattr(a, name) + _STEP * getattr(x, name)}) for x in steps]
    verdicts = []
    for words, output in GRADIENTS.items():
        changes = np.array([output(x, a) - output(a, a) for x in moved]) / _STEP
        by_head = np.einsum("sbhnd,bhnd->sbh", changes, steps[0].output)
        right = by_head.reshape(*rates.shape, -1).sum(axis=-1)
        verdict = _multiple(rates.sum(axis=(1, 2)), right.sum(axis=(1, 2)))
        if verdict == "right":
            return words
        errors = np.linalg.norm(rates - right, axis=0) / np.linalg.norm(right, axis=0)
        verdicts.append(", ".join(filter(None, [verdict, _places(errors < 0.01)])))
    return verdicts[0]


def _multiple(rates: Array, right: Array) -> str:
    """A gradient beside the right one, from its changes along steps, and the right ones."""
    factor = rates @ right / (right @ right)
    rest = np.linalg.norm(rates - factor * right)
    if not rest <= 0.01 * np.linalg.norm(rates):  # also if one is no number
        return "no multiple of the right one"
    return "right" if abs(factor - 1) < 0.01 else f"{factor:z.3g} times the right one"
