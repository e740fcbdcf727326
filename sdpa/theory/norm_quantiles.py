"""Medians of |J|_F, |dw/dq|_F and |dL/dq| over rows of independent Gaussian queries and keys.

Points of a lattice rule stand for |q| and for all scores of a row but the largest, which is
integrated exactly. With s_2 the second score, A_k the sum of e^(k (s - s_2)) over all scores but
the largest, U_k = A_k / A_1^k, and t = A_1 e^(s_2 - s_1) the odds of all weights but the largest,

    |J|_F = t sqrt(1 + 3 U_2 + 2 t (U_2 - U_3) + t^2 (U_2 - 2 U_3 + U_2^2)) / (1 + t)^2.

Letters: n scores s_1 > s_2 > ... of the deviation sigma = key_std |q| / divisor, and z = s / sigma;
a = 1 / (1 + t) is the largest weight, r = 1 - a the sum of the others, which are r u, sum u = 1; so
U_k = sum u^k. Every array has a number for each point of the lattice, (points,).

Norms rise in t up to a peak, then fall to the end at s_1 = s_2. So those below a level lie below
one root and above another. With Q the upper tail of the normal law, Q(z_1) / Q(z_2) is uniform,
which gives the share of these t.

    norm              peak
      |             .-'''-.
      |          .-'       '-.
    level - - - o - - - - - - o - -     below the level: t left of the first root,
      |      .-'                '.      and right of the second
      |  .-'                      |
      +---------|-------------|---|----> ln t
    one-hot    root         root  A_1, where s_1 = s_2

The eight largest scores have their exact law. The sums over all others are lognormal given the
eighth, with their exact means and covariances. Given the row, with the eigenvalues l_i of J,

    |dw/dq|_F^2 = (|J z|^2 + sum_i l_i^2 X_i) key_std^2 / divisor^2,

X_i chi-squared of d_k - 1 degrees of freedom. With g a standard normal gradient to the weights,
one for each row,

    |dL/dq|^2 = ((z.J g)^2 + |J g|^2 X) key_std^2 / divisor^2,

X chi-squared of d_k - 1 degrees of freedom, because the parts of keys across q do not depend on
the weights.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, lru_cache
from itertools import accumulate
from math import exp, inf, log, nan, pi
from typing import NamedTuple

import numpy as np
from scipy.special import betaincinv, gammaincinv, log_ndtr, ndtr, ndtri, ndtri_exp

from sdpa._arrays import BoolArray, FloatArray
from sdpa.pairs import PairLaw
from sdpa.scaling import Rule, resolve_divisor
from sdpa.theory.integrals import UnknownError, check_sizes
from sdpa.theory.query_lengths import gaussian_queries
from sdpa.theory.row_law import RowLaw, RowLengths, lengths_of

Norm = Callable[[FloatArray], FloatArray]  # of t, (..., points)

# Half as many points move medians of |dL/dq| by up to 4e-3, of |dw/dq|_F by 2e-3 and of
# |J|_F by 6e-4, in half the time. `_GENERATOR` is built for this number.
_POINTS = 2**14
# Built component by component for the least worst-case error with the weights 0.8^j (Sloan and
# Reztsov 2002, Math. Comp. 71:263).
_GENERATOR = (
    *(1, 6229, 2691, 1399, 7751, 2865, 3221, 829, 5153, 4815, 3637, 3665, 1093),
    *(747, 5863, 7031, 1973, 3547, 2003, 2639, 1707, 4703, 6137, 7621, 6813),
)
# What each of the 25 coordinates of a point decides. Those that matter most have the first places,
# because the weights of the generator fall by 0.8 from one to the next.
#
#     0       |q|                                  9       A_1 of the scores below, given their A_2
#     1       z_2                                  10      sum_i l_i^2 X_i, given the row
#     2       z_3                                  11      the length of the row
#     3       A_2 of the scores below the eighth   12      z_1, for the start of a search alone
#     4..8    z_4 to z_8                           13..20  gradients g to the eight largest weights
#     21, 22  sums of u g, u^2 g, u y g below       23, 24  |keys across q|^2; sum of u^2 g^2 below
_QUERY, _SECOND, _THIRD, _SQUARES = range(4)
_LOWER = (_THIRD, *range(4, 9))
_SUM, _CHI, _LENGTH, _START = range(9, 13)
_GRADIENTS = slice(13, 21)
_LOWER_SUM, _LOWER_SQUARES, _ACROSS, _SPREAD = range(21, 25)
_EXACT = 2 + len(_LOWER)  # scores with their exact law: the largest, the second and the lower ones
_POWERS = 7  # of weights: tr J^6 needs U_2 to U_7
_ALONG = ((1, 1), (2, 1), (2, 2))  # powers of u and y in the polynomial of `along_scores`
# The effects below are the largest over medians of 16 setups, of 2 to 4,096 keys, d_k from 1 to
# 4,096 and medians from 1e-30 to 2.4.
_HALVINGS = 5  # of the steps of |q|; 3 in place of 5 change a median by 3e-5, 7 by 1e-6
# d_k from which |dw/dq| and |dL/dq| are known. Medians of 240,000 and of 1,200,000 drawn rows of 8 and
# 64 unscaled keys differ by up to 1% at d_k = 2, and by up to 0.4% at 4.
_NARROWEST = 8
_BISECTIONS = 10  # 8 change a median by 2e-3, and 14 by 6e-4
_FLATTEST = 1e-6  # a smaller sigma changes a norm by about its square
# The search for the peak begins here, unless t is larger at the largest z_1. Of 13 setups, with up
# to 10^6 keys, no peak lay below 0.2. A beginning of 1e-2 or 1e-6 changes a median by 5e-4, because
# the bisections then stop at other places.
_LEAST_PEAK = 1e-4
# A step of ln t that tells a rising norm from a falling one, or of z_1 - z_2 where sigma < 1. A step
# of 0.1 changes a median by 3e-4, and one of 1e-8 by 4e-6.
_NEARBY = 1e-3
_WIDEST = 40.0  # of z_1 - z_2: a normal score is never as large; 20 changes a median by 8e-6
# The lower limit of a root is its upper limit times this: norm / t is larger there than at the root.
# Values from 1e-14 to 1e-2 change a median by at most 7e-4, because bisections stop elsewhere.
_LEAST_ROOT = 1e-9
_LAST_STEP = 2e-3  # of the logarithm of a median; 1e-4 changes one by 5e-4, and 5e-2 by 1e-3
_STEPS = 30  # of the search, which no setup needs more than five of
_LEAST = 1e-300  # in place of 0 below a logarithm or a power
_LEAST_SQUARE = 1e-100  # its square is not yet 0: with 1e-200, 0 / 0 makes medians nan
# A smaller |J g|^2 / r^2 is rounding. It counts most for the smallest medians: with 1e-16 or 1e-8,
# one of 3e-11 changes by 1.5e-3; with 0, logarithms of 0 change one of 1e-30 by 2e-2.
_ROUNDED = 1e-12
_LEAST_NORM = 1e-280  # a smaller quantile is 0, whose logarithm the search cannot reach


class NormMedians(NamedTuple):
    """Medians of the norms of a row; those of |dw/dq|_F and |dL/dq| are NaN for d_k below 8."""

    jacobian_norm: float
    weight_jacobian_norm: float
    query_gradient_norm: float


@cache
def attention_medians(
    d_k: float,
    n_keys: int,
    divisor: Rule,
    law: PairLaw = PairLaw(),
    lengths: RowLengths = None,
) -> NormMedians:
    """The |J|_F, |dw/dq|_F = |K^T J|_F / divisor and |dL/dq| below which half of the rows lie.

    dL/dq = K^T J g / divisor is of a standard normal gradient g to the weights, one for each row.
    The relative error of medians above 1e-8 is below 1e-3 for |J|_F, 3e-3 for |dw/dq|_F and 1e-2 for
    |dL/dq|; it grows slowly below (2 keys, d_k = 1: 1.6e-3 at 7e-23).

    With a causal mask, `lengths` is the number of keys that the first query sees; rows of other masks
    are not known. Other arguments and errors as in `attention_expectations`, of independent Gaussian
    entries.

    >>> medians = attention_medians(d_k=64, n_keys=64, divisor=8.0)
    >>> round(medians.jacobian_norm, 3), round(medians.weight_jacobian_norm, 3)
    (0.179, 0.179)
    >>> round(medians.query_gradient_norm, 3)
    0.167
    """
    check_sizes(d_k, n_keys)
    divisor = resolve_divisor(divisor, d_k, n_keys)
    row_law = RowLaw(float(d_k), n_keys, divisor, law)
    if isinstance(lengths, tuple):
        raise UnknownError("medians are known of rows without a mask and under a causal one alone")
    least = int(lengths_of(lengths, n_keys)[0])
    rows = row_norms(row_law, least)
    # One of n_keys rows may have a single key and the norms 0.
    share = (0.5 * n_keys - 1) / (n_keys - 1) if least == 1 else 0.5
    medians = [nan] * 3
    for i, name in enumerate(NormMedians._fields):
        if i == 0 or d_k >= _NARROWEST:
            medians[i] = rows.quantile(rows.norm(name, d_k), share) * (
                row_law.to_query if i else 1.0
            )
    return NormMedians(*medians)


def row_norms(law: RowLaw, shortest: int) -> RowNorms:
    """The rows of `attention_medians`, those of one key excepted."""
    sigma = law.unit * _lengths(law.d_k, law.law)
    return RowNorms(sigma, max(2, shortest), int(law.n_keys))


@cache
def _lattice() -> FloatArray:
    """Points of the unit cube, (coordinates, points), folded for functions without a period."""
    multiples = np.outer(_GENERATOR, np.arange(_POINTS))
    places = (multiples + 0.5) / _POINTS % 1
    return 1 - np.abs(2 * places - 1)


@cache
def _normals() -> FloatArray:
    """The same points with standard normal coordinates."""
    return np.asarray(ndtri(_lattice()))


@lru_cache(64)
def _across_query(d_k: float) -> FloatArray:
    """Chi-squared of d_k - 1 degrees of freedom at the points."""
    return np.asarray(2 * gammaincinv((d_k - 1) / 2, _lattice()[_ACROSS]))


@lru_cache(64)
def _lengths(d_k: float, law: PairLaw) -> FloatArray:
    """|q| / query_std at the points."""
    nodes = gaussian_queries(d_k, law, halvings=_HALVINGS)
    below = np.cumsum(nodes.share) - nodes.share / 2
    return np.asarray(np.interp(_lattice()[_QUERY], below, nodes.length))


class _Largest(NamedTuple):
    """Scores of variance 1 at the points, from the second largest to the eighth."""

    tail: FloatArray  # Q of the second
    first: FloatArray  # a largest score, for the start of a search
    scores: FloatArray  # (scores, points); -inf in shorter rows
    log_below: FloatArray  # ln P(a score is below the eighth)
    others: FloatArray  # number of the scores below


@lru_cache(16)
def _largest(shortest: int, longest: int) -> _Largest:
    """Q(z_2) of n scores is Beta(2, n - 1); the next is the largest of those left below."""
    points = _lattice()
    n_keys = np.floor(shortest + points[_LENGTH] * (longest - shortest + 1))
    tail = betaincinv(2.0, n_keys - 1, points[_SECOND])
    log_below = np.log1p(-tail)
    scores = [-ndtri(tail)]
    for taken, place in enumerate(_LOWER, 2):
        left = n_keys - taken
        step = np.log(points[place]) / np.maximum(left, 1)
        log_below = np.where(left > 0, log_below + step, -inf)
        scores.append(ndtri_exp(log_below))
    first = -ndtri(points[_START] * tail)
    others = np.maximum(n_keys - _EXACT, 0)
    return _Largest(tail, first, np.array(scores), log_below, others)


def _powers(x: FloatArray) -> list[FloatArray]:
    """x, x^2 and so on: products are faster than x**k."""
    return [*accumulate([x] * _POWERS, np.multiply)]


def _polynomial(
    x: FloatArray, start: FloatArray, slope: FloatArray, bend: FloatArray
) -> FloatArray:
    return start + x * (slope + x * bend)


class RowNorms:
    """Rows at the points: their U_k, and the sums of u y, u^2 y and u^2 y^2, y = z - z_2."""

    def __init__(
        self,
        sigma: FloatArray,
        shortest: int,
        longest: int,
    ) -> None:
        largest = _largest(shortest, longest)
        sigma = np.maximum(sigma, _FLATTEST)
        self.sigma = sigma
        self.tail = largest.tail
        self.first = largest.first
        self.second = largest.scores[0]
        below_second = largest.scores - self.second
        y = np.where(np.isfinite(largest.scores), below_second, 0.0)
        e = np.exp(sigma * below_second)
        powers = _powers(e)
        sums = np.array([power.sum(axis=0) for power in powers])
        along = np.array([(powers[k - 1] * y**m).sum(axis=0) for k, m in _ALONG])
        below = np.zeros_like(along)
        if largest.others.any():
            more, below = _sums_over_others(sigma, largest)
            sums += more
            along += below
        self.partition = sums[0]
        self.shares = e / sums[0]  # from the second largest score to the eighth
        self.u = [power_sum / sums[0] ** k for k, power_sum in enumerate(sums, 1)]
        _, u2, u3, *_ = self.u
        slope = 2 * (u2 - u3)
        bend = u2 - 2 * u3 + u2**2
        self.coefficients = 1 + 3 * u2, slope, bend
        mean, first, second = (
            y_sum / sums[0] ** k for (k, _), y_sum in zip(_ALONG, along, strict=True)
        )
        centred = first - mean * u2
        self.mean = mean
        self.along = second - mean * (first + centred), 2 * centred, 1 + u2
        self.y = y
        self.below = below[1:] / sums[0] ** 2

    def norm(self, name: str, d_k: float) -> Norm:
        """A norm of `NormMedians` as a function of t; with a query over to_query."""
        if name == "jacobian_norm":
            return self.jacobian_norm
        if name == "weight_jacobian_norm":
            return self.weight_jacobian_norm(d_k)
        return self.query_gradient_norm(d_k)

    def jacobian_norm(self, t: FloatArray) -> FloatArray:
        """|J|_F at t."""
        return t * np.sqrt(self._square(t)) / (1 + t) ** 2

    def _square(self, t: FloatArray) -> FloatArray:
        """|J|_F^2 over (a r)^2, the polynomial of the module."""
        return _polynomial(t, *self.coefficients)

    def weight_jacobian_norm(self, d_k: float) -> Norm:
        """|dw/dq|_F divisor / key_std as a function of t."""
        _, u2, *_ = self.u
        low, width, *coefficients = self._across(d_k)

        def norm(t: FloatArray) -> FloatArray:
            a = 1 / (1 + t)
            square = a**2
            place = (square / (square + u2) - low) / width
            ratio = _polynomial(place, *coefficients)
            across = np.maximum(ratio, 0) * square * self._square(t)
            return t * a * np.sqrt(self.along_scores(t, a) + across)

        return norm

    def query_gradient_norm(self, d_k: float) -> Norm:
        """|dL/dq| divisor / key_std of drawn gradients, as a function of t.

        With a the largest weight, r u the others, m = sum u y, h = sum u g and x = a (g_1 - h),

            |J g|^2 / r^2 = x^2 + sum u^2 (g - h - x)^2
            z.J g / r = sum u y (g - h) + x (z_1 - z_2 - m)
        """
        _, u2, *_ = self.u
        mean, product, squares, along_scores = self._gradient_sums()
        across = _across_query(d_k)
        largest = _normals()[_GRADIENTS.start] - mean
        coefficients = squares, -2 * product, 1 + u2

        def norm(t: FloatArray) -> FloatArray:
            a = 1 / (1 + t)
            x = a * largest
            square = np.maximum(_polynomial(x, *coefficients), _ROUNDED)
            along = along_scores + x * (self._distance(t) - self.mean)
            return np.asarray(t * a * np.sqrt(square * across + along**2))

        return norm

    def _gradient_sums(self) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """h = sum u g, and sums of u^2 (g - h), u^2 (g - h)^2 and u y (g - h), over all keys but the
        largest.

        Over the keys below the eighth, sums of u g, u^2 g and u y g are normal with their exact
        variances and covariances with sum u g; given it, the second and the third are one normal
        number. Sum u^2 g^2 has the law of Wilson and Hilferty with its exact variance.
        """
        u = self.shares
        g = _normals()[_GRADIENTS][1:]
        lower_sum, lower_squares, lower_spread = _normals()[[_LOWER_SUM, _LOWER_SQUARES, _SPREAD]]
        second, third, fourth = (self.u[k - 1] - (u**k).sum(axis=0) for k in (2, 3, 4))
        second = np.maximum(second, _LEAST_SQUARE)
        third = np.clip(third, 0, second**1.5)  # nothing but rounding in rows of eight keys
        fourth = np.clip(fourth, 0, second**2)
        first = np.sqrt(second) * lower_sum
        slope = third / second
        own = np.sqrt(np.maximum(fourth - slope * third, 0))
        with_squares = slope * first + own * lower_squares
        spread = 2 * fourth / (9 * second**2)
        rest = second * np.maximum(1 - spread + np.sqrt(spread) * lower_spread, 0) ** 3
        with_y, with_both = self.below
        towards = np.maximum(with_y / np.sqrt(second), -np.sqrt(with_both))  # y < 0
        alone = np.sqrt(np.maximum(with_both - towards**2, 0))
        with_scores = towards * lower_sum + alone * lower_squares
        _, u2, *_ = self.u
        h = (u * g).sum(axis=0) + first
        product = (u**2 * g).sum(axis=0) + with_squares
        squares = (u**2 * g**2).sum(axis=0) + rest
        along = (u * self.y * g).sum(axis=0) + with_scores
        square = squares + h * (h * u2 - 2 * product)
        return h, product - h * u2, square, along - h * self.mean

    def along_scores(self, t: FloatArray, a: FloatArray) -> FloatArray:
        """|J z|^2 / r^2 at t, with a the largest weight, r u the others, m = sum u y and b = a (m + z_2 - z_1):

        b^2 + sum u^2 (y - m + b)^2
        """
        square = _polynomial(a * (self.mean - self._distance(t)), *self.along)
        return np.maximum(square, 0)

    def _across(self, d_k: float) -> tuple[FloatArray, ...]:
        """sum_i l_i^2 X_i / |J|_F^2 of rows whose largest weight is still free, as a polynomial of a.

        The eigenvalues l_i of J depend on a, and the searches need the sum at many a. So it is
        computed at three of them, and interpolated in a place from 0 to 2:

            a        least = 1 / (1 + A_1)      half_way            1
                     s_1 = s_2                                      one-hot
            place    0                          1                   2
            value    start                      half                end

            place = (a^2 / (a^2 + U_2) - low) / width

        At each of the three, X_i chi-squared of d_k - 1 degrees of freedom gives the sum the first
        three cumulants kappa_m ~ (d_k - 1) tr J^(2 m). With theta_m = (d_k - 1) tr J^(2 m) and
        h = 1 - 2 theta_1 theta_3 / (3 theta_2^2), (sum / theta_1)^h is taken as normal with the mean
        1 + theta_2 h (h - 1) / theta_1^2 and the variance 2 theta_2 h^2 / theta_1^2 (Jensen and
        Solomon 1972, JASA 67:898). The same normal number serves at all three.

        Returns low, width, and the coefficients of 1, place and place^2, (points,) each.
        """
        _, u2, *_ = self.u
        least = 1 / (1 + self.partition)
        low = least**2 / (least**2 + u2)
        width = (1 / (1 + u2) - low) / 2
        middle = low + width
        half_way = np.sqrt(u2 * middle / (1 - middle))
        nodes = np.array([least, half_way, np.ones_like(least)])
        traces = self._traces(nodes)
        first, second, third = ((d_k - 1) * trace for trace in traces)
        power = 1 - 2 * first * third / (3 * second**2)
        spread = second / first**2
        root = 1 + spread * power * (power - 1)
        normal = _normals()[_CHI]
        root += np.sqrt(2 * spread) * power * normal
        sums = np.maximum(root, _LEAST) ** (1 / power)
        start, half, end = (d_k - 1) * sums
        bend = (end - 2 * half + start) / 2
        return low, width, start, half - start - bend, bend

    def _traces(self, a: FloatArray) -> list[FloatArray]:
        """tr (J / r)^m = a^m + U_m - p_m for m = 2, 4 and 6.

        They are the coefficients of -ln det(1 - z J / r) = sum_m z^m tr (J / r)^m / m. J is a
        diagonal less w w^T, with w = (a, r u), so that its determinant is one product and one sum:

            det(1 - z J / r) = (1 - a z) prod_i (1 - u_i z) (1 + f)
            f = (r z - a^2 z^2 / (1 - a z)) S,   S = sum_i u_i^2 / (1 - u_i z) = sum_m z^m U_(m + 2).

        The first factors give a^m + U_m, the last one p_m: sum_m z^m p_m / m = ln(1 + f). In the
        loop, h is the coefficient of z^m of S / (1 - a z) one order lower, f[m] that of f, and p_m
        follows from (1 + f) (ln(1 + f))' = f'.

        a is (nodes, points), and so is each trace.
        """
        h = np.zeros_like(a)
        f = [h, (1 - a) * self.u[1]]
        p = [h, f[1]]
        for m in range(2, _POWERS):
            h = self.u[m - 1] + a * h
            f.append((1 - a) * self.u[m] - a**2 * h)
            lower_terms = sum(p[k] * f[m - k] for k in range(1, m))
            p.append(m * f[m] - lower_terms)
        powers = _powers(a)
        return [powers[m - 1] + self.u[m - 1] - p[m] for m in (2, 4, 6)]

    def _distance(self, t: FloatArray) -> FloatArray:
        """z_1 - z_2 at t."""
        return np.asarray(np.log(self.partition / t) / self.sigma)

    def quantile(self, norm: Norm, share: float = 0.5) -> float:
        """The value of a norm below which a share of rows lies.

        A sample gives the start of the search, and its slope.
        """
        if share <= 0:  # of two keys, of which the first query sees one
            return 0.0
        odds = self.partition * np.exp(self.sigma * (self.second - self.first))
        sample = norm(np.maximum(odds, _LEAST))
        width = min(share, 1 - share) / 4
        shares = [share - width, share, share + width]
        low, place, high = np.quantile(np.log(sample), shares)
        below = self._share_below(norm)
        for _ in range(_STEPS):
            if place < log(_LEAST_NORM):
                return 0.0
            missing = share - below(exp(place))
            step = missing * (high - low) / (2 * width)
            place += step
            if abs(step) < _LAST_STEP:
                break
        return exp(place)

    def _share_below(self, norm: Norm) -> Callable[[float], float]:
        """The share of rows with a norm below a level, as a function of the level."""
        end = self.partition
        farthest = end * np.exp(-_WIDEST * self.sigma)
        nearby = np.exp(_NEARBY * np.minimum(self.sigma, 1))
        first = np.maximum(farthest, _LEAST_PEAK)
        peak = _bisected(lambda t: norm(nearby * t) > norm(t), first, end)
        highest = norm(peak)
        lowest = norm(end)  # beyond the peak

        def share_of(t: FloatArray) -> FloatArray:
            return np.asarray(ndtr(-self.second - self._distance(t)) / self.tail)

        def share(level: float) -> float:
            most = np.minimum(level * peak / highest, peak)  # as norm / t falls in t
            least = level * (_LEAST_ROOT * most / norm(_LEAST_ROOT * most))  # no product underflows
            low = np.clip(farthest, least, peak)
            below = share_of(_bisected(lambda t: norm(t) < level, low, most))
            falls = level > lowest
            if falls.any():
                root = _bisected(lambda t: norm(t) >= level, peak, end)
                below += np.where(falls, 1 - share_of(root), 0.0)
            return float(np.mean(np.where(level < highest, below, 1.0)))

        return share


def _bisected(
    holds: Callable[[FloatArray], BoolArray],
    low: FloatArray,
    high: FloatArray,
) -> FloatArray:
    """The place where a condition that holds at low ends below high, on a logarithmic scale."""
    ratio = high / low
    t = low
    for _ in range(_BISECTIONS):
        ratio = np.sqrt(ratio)
        middle = t * ratio
        t = np.maximum(t, middle * holds(middle))
    return t * np.sqrt(ratio)


def _sums_over_others(sigma: FloatArray, largest: _Largest) -> tuple[FloatArray, FloatArray]:
    """Sums over the scores below the last: of e^(k sigma y), and of e y, e^2 y and e^2 y^2.

         below the last                  |last ... z_3 z_2   z_1
        ------ N = others, random ------ | exact scores ------------> z

    Given the last exact score, N independent normal scores lie below it, and y = z - z_2. One of
    them has

        E e^(k sigma z) = e^(k^2 sigma^2 / 2) P(z < last - k sigma) / P(z < last),

    and, weighted by e^(k sigma z), is normal of mean k sigma, below the last. So the sums A_k of
    e^(k sigma y) have the exact means N e^m_k, with m_k = `means`, and the exact covariances

        ln(1 + Cov(A_i, A_j) / (E A_i E A_j)) = ln(1 + (e^(m_(i+j) - m_i - m_j) - 1) / N),

    which are the covariances of their logarithms if these are normal. ln A_2 has a coordinate of
    its own, because squares of weights decide norms; ln A_1 is its regression on ln A_2 and a rest
    with another coordinate; ln A_3 the regression alone. Higher powers are few weights, which are
    exact scores: they keep their means. The weighted means of y and y^2 are those of a normal law
    below the last, with the hazard phi(b) / Phi(b), b = last - k sigma.

    Returns the sums, (powers, points), and those with y, (3, points).
    """
    is_longer = largest.others > 0
    last = np.where(is_longer, largest.scores[-1], largest.scores[0])
    log_below = np.where(is_longer, largest.log_below, log(0.5))
    k = np.arange(1, _POWERS + 1)[:, None] * sigma
    tails = log_ndtr(last - k)
    means = k**2 / 2 - k * largest.scores[0] + tails - log_below

    def log_covariance(i: int, j: int) -> FloatArray:
        excess = np.expm1(means[i + j - 1] - means[i - 1] - means[j - 1])
        covariance = np.maximum(excess, _LEAST) / np.maximum(largest.others, 1)
        return np.asarray(np.log1p(covariance))

    variance = log_covariance(2, 2)
    sum_slope = log_covariance(1, 2) / variance
    cube_slope = log_covariance(2, 3) / variance
    rest = np.maximum(log_covariance(1, 1) - sum_slope**2 * variance, 0)
    factor, own = _normals()[[_SQUARES, _SUM]]
    slopes = np.array([sum_slope, np.ones_like(sigma), cube_slope])
    logs = slopes * (np.sqrt(variance) * factor - slopes * variance / 2)
    logs[0] += np.sqrt(rest) * own - rest / 2
    sums = largest.others * np.exp(means)
    sums[:3] *= np.exp(logs)
    b = last - k[:2]
    log_density = -(b**2) / 2 - log(2 * pi) / 2
    hazard = np.exp(log_density - tails[:2])
    mean = k[:2] - hazard - largest.scores[0]
    square = 1 - b[1] * hazard[1] - hazard[1] ** 2 + mean[1] ** 2
    along = [sums[0] * mean[0], sums[1] * mean[1], sums[1] * square]
    return sums, np.array(along)
