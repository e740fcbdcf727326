"""Growth of gradients through a stack of random attention layers, layer by layer.

Letters, all mean squares of one entry or of one gradient, without units:

    S, p    stream: mean square of an entry, cosine of two tokens       upwards: S', p' after a layer
    G, R    gradient to the stream: mean square of an entry, mean       downwards: G', R' above a layer
            product of the entries of two tokens
    C, O    E sum w^2 of a row, E sum w w' of two rows
    v, q, k what a layer adds to G through its values, queries and keys; v_2, q_2 and -k / (n - 1)
            to R, the product of two tokens

All matrices are Gaussian, independent and fresh in each layer; there is no mask and no MLP. In the
limit of many heads and a wide stream, at fixed d_k and n tokens, the tokens before each layer have
one mean square S and one cosine p, and the gradients to them one mean square G and one mean product
R of two tokens. With a the residual weight, u the product of the variances that W_V and W_O give,
E sum w^2 = C and E sum w w' = O of rows at the cosine p, the stream changes as

    S' = a^2 S + u (p + (1 - p) C),   p' S' = a^2 p S + u (p + (1 - p) O)

and, backwards, a pre-norm layer gives the stream before it

    G = a^2 G' + (v + q + k) / S,   R = a^2 R' + (v_2 + q_2 - k / (n - 1)) / S
    v = u (G' C + (n - 1) R' O),    v_2 = (u n (G' + (n - 1) R') - n v) / (n (n - 1))
    q = u (1 - p) G' |dq|^2,        q_2 = u (1 - p)^2 R' s I
    k = u G' |dk|^2 + u (n - 1) (1 - p) p R' s I

with |dq| and |dk| the root mean squares of one row and one key (`attention_expectations`, at the
divisor of the part that tokens do not share), s = d_k / divisor^2 for entries of variance 1, and I
the overlap of the Jacobians of two rows. All but I is exact in the limit, given that matrices of the
backward pass count as independent of the forward pass; I is E sum w w' (1 - C)^2, which holds for
independent rows of many keys. v_2 follows from rows of weights that sum to 1, and -k / (n - 1) from
columns of the Jacobian that sum to 0. Post-norm divides what passes by the mean square of a x + y
instead. docs/network.md compares the law with measured stacks.
"""

from math import log1p, sqrt
from typing import NamedTuple

import numpy as np
from numpy.polynomial import Chebyshev

from sdpa.scaling import Rule, resolve_divisor
from sdpa.theory.attention import attention_expectations
from sdpa.theory.integrals import check_sizes
from sdpa.theory.special.overlap import attention_overlap

# Of polynomials in ln(1 + v): at v = 64 (64 unscaled keys), 15 change a gradient by 1e-5, and 30 by
# 9e-7, in 1.5 times the time.
_DEGREE = 20
# Tokens that are all alike would have queries with the gradient 0, and not 1e-12. It changes a
# gradient to the stream by 2e-5 after 24 such layers without a residual, and otherwise by less.
_MOST_COSINE = 1 - 1e-6


class StackLayer(NamedTuple):
    """A layer of a stack, numbered from 0: what comes before it, and the gradients there."""

    stream: float  # S, mean square of an entry of the stream before the layer; 1 at the first
    cosine: float  # p, of two tokens
    collision: float  # E sum w^2
    overlap: float  # E sum w w' of two rows
    stream_gradient: float  # G, mean square of an entry of dL/dx before the layer; 1 above the last
    gradient_cosine: float  # R / G
    query_gradient: float  # mean square of |dL/dq| of a head whose values have d_k entries


class LayerRows:
    """The means of a layer's rows at any cosine of its tokens.

    They are polynomials in ln(1 + v), with v = d_k (1 - cosine) / divisor^2 the variance of the
    scores that these tokens leave.

    Both gradients vanish like 1 - cosine; the polynomials fit gradient / (1 - cosine).
    """

    def __init__(self, d_k: float, n_keys: int, divisor: float) -> None:
        self._variance = d_k / divisor**2  # of tokens at a right angle
        most = log1p(self._variance)
        points = np.polynomial.chebyshev.chebpts1(_DEGREE + 1)
        nodes = most * (1 + points) / 2
        values = []
        for distance in np.expm1(nodes) / self._variance:  # 1 - cosine
            row = attention_expectations(d_k, n_keys, divisor / sqrt(distance))
            overlap = attention_overlap(d_k, n_keys, divisor, float(1 - distance))
            collision = row.output_std**2
            query = row.query_gradient_norm**2 / distance
            key = row.key_gradient_norm**2 / distance
            values.append((collision, overlap, query, key))
        self._fits = [
            Chebyshev.fit(nodes, column, _DEGREE, domain=[0, most])
            for column in np.transpose(values)
        ]

    def at(self, cosine: float) -> tuple[float, float, float, float]:
        """E sum w^2, E sum w w', |dq|^2 and |dk|^2."""
        distance = 1 - cosine
        place = log1p(self._variance * distance)
        collision, overlap, query, key = (float(fit(place)) for fit in self._fits)
        return collision, overlap, distance * query, distance * key


def attention_stack(
    layers: int,
    d_k: float,
    n_keys: int,
    divisor: Rule,
    *,
    cosine: float = 0.0,
    residual: float = 1.0,
    variances: tuple[float, float, float] = (1.0, 1.0, 1.0),
    post_norm: bool = False,
) -> list[StackLayer]:
    """The law of a stack of attention layers, from the first to the last.

    Args:
        layers: number of layers.
        d_k: width of a head, of its values too; at least 32 for overlaps within 1e-3.
        n_keys: tokens, all visible.
        divisor: of the scores, a number or a rule such as `d_k^1/2`.
        cosine: of any two tokens before the first layer, from 0 to 1.
        residual: the weight a of the stream.
        variances: of the entries of q, of k, and of the product of W_V and W_O on a normed token.
        post_norm: True for norm(a x + attention(x)), False for a x + attention(norm(x)).

    Raises:
        ValueError: sizes out of range.

    >>> stack = attention_stack(48, 64, 64, "unscaled")
    >>> f"{sqrt(stack[0].stream_gradient):.1e}"  # of the r.m.s. gradient, bottom over top
    '1.0e+06'
    """
    check_sizes(d_k, n_keys)
    if not (layers >= 1 and 0 <= cosine <= 1):
        expected = "at least one layer and a cosine from 0 to 1"
        raise ValueError(f"expected {expected}, got {layers} and {cosine}")
    # In letters of the module, beside C = `collision` and O = `overlap`:
    #
    #     up      `stream`, `before` S   `after` S'   p   `product` p' S'
    #     down    `mean` G   `product` R   `jacobians` s I   `query` |dq|^2   `key` |dk|^2
    #
    #       x ──> norm ──> W_Q, W_K, W_V ──> softmax ──> W_O ──> + ──> x'     S, p ──> S', p'
    #       \__________________________ a ______________________/            G, R <── G', R'
    #
    # Rows depend on p alone, so that the way up needs no gradients; the way down needs the rows.
    query_variance, key_variance, u = variances
    scale = resolve_divisor(divisor, d_k, n_keys) / sqrt(query_variance * key_variance)
    rows = LayerRows(d_k, n_keys, scale)
    a2 = residual**2
    p = cosine
    stream = 1.0
    below = []
    for _ in range(layers):
        row = rows.at(p)
        collision, overlap, *_ = row
        before = 1.0 if post_norm else stream
        after = a2 * before + u * (p + (1 - p) * collision)
        below.append((before, after, p, row))
        product = a2 * p * before + u * (p + (1 - p) * overlap)
        p = min(product / after, _MOST_COSINE)
        stream = after

    n = n_keys
    squared = d_k / scale**2
    mean = 1.0
    product = 0.0
    stack = []
    for before, after, p, (collision, overlap, query, key) in reversed(below):
        if post_norm:
            mean /= after
            product /= after
        jacobians = squared * overlap * (1 - collision) ** 2
        v = u * (mean * collision + (n - 1) * product * overlap)
        total = u * n * (mean + (n - 1) * product)
        v_2 = (total - n * v) / (n * (n - 1))
        q = u * (1 - p) * mean * query
        q_2 = u * (1 - p) ** 2 * product * jacobians
        k = u * (mean * key + (n - 1) * (1 - p) * p * product * jacobians)
        mean = a2 * mean + (v + q + k) / before
        product = a2 * product + (v_2 + q_2 - k / (n - 1)) / before
        stack.append(
            StackLayer(
                before, p, collision, overlap, mean, product / mean, d_k * q / query_variance
            )
        )
    return stack[::-1]
