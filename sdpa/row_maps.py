"""Row maps: what happens to a row of scaled scores between the divisor and the weights.

A row map caps the scores, adds a bias and a sink (a logit without a value), and normalizes. With s
the scaled scores,

    z = softcap tanh(s / softcap) + bias, or s + bias;   t = dz / ds = 1 - tanh(s / softcap)^2, or 1

and each normalizer gives the weights w of z and their derivative dw / dz = diag(a) - b a a^T, with
its own slopes a and coupling b: a = w and b = 1 for softmax, a = w (1 - w) and b = 0 for the sigmoid.
So the Jacobian to the scores before the cap is J
= (diag(a) - b a a^T) diag(t), and

    |J|_F^2   = sum_j t_j^2 a_j^2 ((1 - b a_j)^2 + b^2 sum_(i != j) a_i^2)
    |K^T J^T|_F^2 = sum_i a_i^2 |t_i k_i - b m|^2,   m = sum_j a_j t_j k_j
    K^T J^T g = sum_j t_j a_j (g_j - b sum_i a_i g_i) k_j

over the keys, with g the gradient to the weights. Where b is not 0, b times the sum of all a is 1:
at the largest slope, 1 - b a is b times the sum of the others, and nothing cancels in a saturated
row.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from numbers import Real
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from sdpa._arrays import (
    FloatArray,
    as_float,
    gradients_to_weights,
    keys_of_scores,
    largest_scores,
)
from sdpa._names import not_among


class Normalized(NamedTuple):
    """The weights of capped scores, each array of the shape of the scores, and of their
    derivative.
    """

    weights: FloatArray
    slopes: FloatArray  # a
    coupling: float  # b
    # Their softmax is w / sum w, also where sum w is 0 as a float.
    logits: FloatArray


@dataclass(frozen=True)
class Normalizer:
    """A function from capped scores to weights, by name."""

    name: str
    # of capped scores with finite maxima, and ln n
    apply: Callable[[FloatArray, float], Normalized] = field(repr=False)
    # (diag(a) - b a a^T) g, from the gradient g to the weights, and these
    backward: Callable[[FloatArray, FloatArray], FloatArray] = field(repr=False)

    @classmethod
    def parse(cls, name: str) -> Normalizer:
        """The normalizer of that name.

        >>> Normalizer.parse("sigmoid").name
        'sigmoid'
        """
        if name not in NORMALIZERS:
            raise ValueError(not_among(name, NORMALIZERS))
        return NORMALIZERS[name]

    def __str__(self) -> str:
        return self.name


def _softmax(z: FloatArray, _: float) -> Normalized:
    w = _shares(z)
    return Normalized(w, w, 1.0, z)


def _softmax_backward(g: FloatArray, w: FloatArray) -> FloatArray:
    # `softmax_vjp` is precise in saturated rows, too. Decoders train as libraries do, by this form.
    return np.asarray(w * (g - (w * g).sum(axis=-1, keepdims=True)))


def _shares(logits: FloatArray) -> FloatArray:
    """The softmax of rows with a finite maximum."""
    e = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return np.asarray(e / e.sum(axis=-1, keepdims=True))


def _sigmoid(z: FloatArray, log_n: float) -> Normalized:
    """1 / (1 + n e^(-s)) (Ramapuram et al. 2024, arXiv:2409.04431), without overflow."""
    small = np.exp(-np.abs(z - log_n))
    w = np.where(z >= log_n, 1.0, small) / (1 + small)
    slope = small / (1 + small) ** 2
    return Normalized(w, slope, 0.0, -np.logaddexp(0.0, log_n - z))


def _sigmoid_backward(g: FloatArray, w: FloatArray) -> FloatArray:
    return w * (1 - w) * g


NORMALIZERS = {
    normalizer.name: normalizer
    for normalizer in (
        Normalizer("softmax", _softmax, _softmax_backward),
        Normalizer("sigmoid", _sigmoid, _sigmoid_backward),
    )
}


class MappedRows(NamedTuple):
    """Numbers per row of weights, each (..., n_queries)."""

    max_weight: FloatArray
    visible_mass: FloatArray  # sum of the weights
    entropy: FloatArray  # of the weights over their sum, in nats
    jacobian_norm: FloatArray  # |J|_F, of the weights to the scores before the cap
    # |K^T J^T|_F, the norm of dw/dq times the divisor; empty without keys
    weight_jacobian_norm: FloatArray
    query_gradient_norm: FloatArray  # |K^T J^T g|, that of dL/dq; empty without gradients


@dataclass(frozen=True)
class RowMap:
    """A soft cap, a sink and a normalizer; by default the plain softmax.

    Attributes:
        softcap: c of c tanh(s / c), which bounds scores (Gemma 2, arXiv:2408.00118); 0 for none.
        sink: logit of a key without a value, which the cap leaves as it is, so that the weights sum
            to less than 1 (gpt-oss, arXiv:2508.10925; 0 is the softmax1 of Miller 2023), or one for
            each head of scores (..., head, n_queries, n_keys); None for none. Only beside `softmax`.
        normalizer: a name of `NORMALIZERS`. The n of `sigmoid` counts all keys, masked ones too.

    >>> RowMap(sink=0.0).weights([[0.0, 0.0]])
    array([[0.33333333, 0.33333333]])
    """

    softcap: float = 0.0
    sink: float | tuple[float, ...] | None = None
    normalizer: str = "softmax"

    @classmethod
    def with_sinks(cls, softcap: float, sink: npt.ArrayLike | None) -> Self:
        """The softmax with a soft cap and any array of sinks: one logit, or one for each head.

        >>> RowMap.with_sinks(0.0, np.zeros(2)).sink
        (0.0, 0.0)
        """
        if sink is None:
            return cls(softcap)
        logits = as_float("sink", sink, min_ndim=0)
        if logits.ndim > 1:
            raise ValueError(
                f"sink: expected a number, or one for each head, got the shape {logits.shape}"
            )
        given = logits.tolist()
        return cls(softcap, tuple(given) if logits.ndim else given)

    def __post_init__(self) -> None:
        if not (isinstance(self.softcap, Real) and 0 <= self.softcap < math.inf):
            raise ValueError(
                f"softcap: expected a finite number above 0, or 0 for none, got {self.softcap!r}"
            )
        logits = self.sink if isinstance(self.sink, tuple) else (self.sink,)
        are_finite = all(isinstance(logit, Real) and math.isfinite(logit) for logit in logits)
        if self.sink is not None and not (logits and are_finite):
            raise ValueError(
                "sink: expected a finite number, or a tuple of one for each head, or None, "
                f"got {self.sink!r}"
            )
        if not isinstance(self.normalizer, str) or self.normalizer not in NORMALIZERS:
            raise ValueError(f"normalizer: {not_among(self.normalizer, NORMALIZERS)}")
        if self.normalizer != "softmax" and self.sink is not None:
            raise ValueError(
                f"sink: expected none beside the normalizer {self.normalizer}, got {self.sink}"
            )

    @property
    def is_plain(self) -> bool:
        """True for the softmax of the scores as they are."""
        return self == PLAIN

    @property
    def one_sink(self) -> float | None:
        """The sink of all heads; TypeError if each has its own."""
        if isinstance(self.sink, tuple):
            raise TypeError(f"sink: expected one number, or None for none, got {self.sink}")
        return self.sink

    def weights(self, scores: npt.ArrayLike, bias: FloatArray | float = 0.0) -> FloatArray:
        """The weights of scaled scores (..., n_keys), in their type, and a bias; -inf, where
        masked, has the weight 0.

        Raises:
            ValueError: a row contains a NaN, a +inf or only -inf, also with the bias (the message
                names the row), there are not as many sinks as heads, or the bias does not broadcast
                to the scores.
        """
        given = as_float("scores", scores)
        largest_scores("scores", given)
        w = self._normalized(given, bias).weights[..., : given.shape[-1]]
        return w.astype(given.dtype, copy=False)

    def rows(
        self,
        scores: npt.ArrayLike,
        keys: npt.ArrayLike | None = None,
        gradients: FloatArray | None = None,
    ) -> MappedRows:
        """Properties of the weights of scaled scores (..., n_queries, n_keys), as `weights`.

        keys are (..., n_keys, d_k), for weight_jacobian_norm: over standard normal gradients g to
        the weights, E |dL/dq|^2 = |K^T J^T|_F^2 / divisor^2. gradients are g, of the shape of the
        scores, for query_gradient_norm; ValueError without keys, or for other shapes.

        >>> rows = RowMap().rows([[0.0, 0.0]], keys=[[3.0], [1.0]])
        >>> rows.jacobian_norm, rows.weight_jacobian_norm.round(8)
        (array([0.5]), array([0.70710678]))
        """
        given = as_float("scores", scores)
        largest_scores("scores", given)
        with_sink, a, b, logits = self._normalized(given)
        visible = slice(given.shape[-1])
        w = with_sink[..., visible]
        shares = _shares(logits[..., visible])
        logarithms = np.log(np.where(shares > 0, shares, 1.0))
        entropy = np.asarray(-(shares * logarithms).sum(axis=-1))
        jacobian = _Jacobian(a, b, self._slope(given))
        weight_jacobian_norm: FloatArray = np.empty(0)
        query_gradient_norm = weight_jacobian_norm
        if keys is not None:
            vectors = keys_of_scores(given, keys)
            weight_jacobian_norm = jacobian.norm_with(vectors)
        if gradients is not None:
            g = gradients_to_weights(given, gradients, keys)
            query_gradient_norm = jacobian.gradient_norm(vectors, g)
        largest, mass, norm = w.max(axis=-1), w.sum(axis=-1), jacobian.norm()
        return MappedRows(largest, mass, entropy, norm, weight_jacobian_norm, query_gradient_norm)

    def _normalized(self, scores: FloatArray, bias: FloatArray | float = 0.0) -> Normalized:
        """The weights of the scores, with those of the sink, if there is one, at the end of each
        row.
        """
        z = scores
        if self.softcap:
            capped = self.softcap * np.tanh(scores / self.softcap)
            z = np.where(np.isneginf(scores), -np.inf, capped)
        try:
            np.broadcast_to(bias, z.shape)
        except ValueError:
            expected = f"a shape that broadcasts to that of the scores {z.shape}"
            raise ValueError(f"bias: expected {expected}, got {np.shape(bias)}") from None
        z = z + bias
        largest_scores("scores + bias", z)
        if self.sink is not None:
            sinks: Any = self.sink
            if isinstance(sinks, tuple):
                sinks = _by_head(sinks, z.shape)
            column = np.full((*z.shape[:-1], 1), sinks)
            z = np.concatenate([z, column], axis=-1)
        return NORMALIZERS[self.normalizer].apply(z, math.log(scores.shape[-1]))

    def _slope(self, scores: FloatArray) -> FloatArray:
        """t of each score."""
        if not self.softcap:
            return np.ones_like(scores)
        small = np.exp(-2 * np.abs(scores / self.softcap))
        return np.asarray(4 * small / (1 + small) ** 2)


PLAIN = RowMap()


def _by_head(sinks: tuple[float, ...], scores: tuple[int, ...]) -> FloatArray:
    """The logits of heads, (head, 1, 1); ValueError unless there are as many in the scores."""
    if scores[-3:-2] != (len(sinks),):
        raise ValueError(
            f"sink: expected one number, or one for each head of the scores {scores}, got "
            f"{len(sinks)} numbers"
        )
    return np.reshape(sinks, (-1, 1, 1))


class _Jacobian:
    """J = (diag(a) - b a a^T) diag(t) of rows, with the largest slope apart from the others.

    The others are in a unit in which their squares stay within the range of a double. a may have
    the entry of a sink behind those of the keys.
    """

    def __init__(self, a: FloatArray, b: float, t: FloatArray) -> None:
        visible = slice(t.shape[-1])
        top = a[..., visible].argmax(axis=-1, keepdims=True)
        others = a.copy()
        np.put_along_axis(others, top, 0.0, axis=-1)
        # 1 - b a at the top
        rest = b * others.sum(axis=-1, keepdims=True) if b else np.ones(top.shape)
        a_top = np.take_along_axis(a, top, axis=-1)
        others = others[..., visible]
        unit = np.maximum(others.max(axis=-1, keepdims=True), a_top * rest)
        unit[unit == 0] = 1.0
        self.top, self.a_top, self.b, self.t, self.unit = top, a_top, b, t, unit
        self.t_top = np.take_along_axis(t, top, axis=-1)
        self.others = others / unit
        self.top_factor = a_top * rest / unit
        self.steep = self.others * t
        self.sums = (self.others**2).sum(axis=-1, keepdims=True)

    def norm(self) -> FloatArray:
        """|J|_F."""
        other_terms = (self.b * self.unit) ** 2 * (self.sums - self.others**2)
        factor = (1 - self.b * self.unit * self.others) ** 2
        mean_term = (self.b * self.a_top) ** 2
        square = np.vecdot(self.steep**2, factor + (other_terms + mean_term))
        at_top = self.t_top**2 * (self.top_factor**2 + mean_term * self.sums)
        return np.asarray(self.unit[..., 0] * np.sqrt(square + at_top[..., 0]))

    def norm_with(self, keys: FloatArray) -> FloatArray:
        """|K^T J^T|_F."""
        k_top = self.t_top * np.take_along_axis(keys, self.top, axis=-2)
        product = self.steep @ keys
        centre = self.b * (self.a_top * k_top + self.unit * product)
        from_top = self.top_factor * k_top - self.b * self.a_top * product
        key_terms = self.steep**2 @ np.vecdot(keys, keys)[..., None]
        centre_term = self.sums * np.vecdot(centre, centre)[..., None]
        mixed = np.vecdot((self.steep * self.others) @ keys, centre)
        square = (key_terms + centre_term)[..., 0] - 2 * mixed + np.vecdot(from_top, from_top)
        return np.asarray(self.unit[..., 0] * np.sqrt(np.maximum(square, 0.0)))

    def gradient_norm(self, keys: FloatArray, gradients: FloatArray) -> FloatArray:
        """|K^T J^T g|."""
        g_top = np.take_along_axis(gradients, self.top, axis=-1)
        mean = self.unit * np.vecdot(self.others, gradients)[..., None]
        through = self.others * (gradients - self.b * (self.a_top * g_top + mean))
        at_top = self.top_factor * g_top - self.b * self.a_top / self.unit * mean
        np.put_along_axis(through, self.top, at_top, axis=-1)
        return np.asarray(self.unit[..., 0] * np.linalg.norm((self.t * through) @ keys, axis=-1))
