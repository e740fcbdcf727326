"use strict";

/* The mathematics of a row of scores, of exact expectations and of random draws, without access to the document. */
const attention = (() => {
  /* Weights, max weight, entropy (nats) and |J|_F of a row of scores under a divisor, in the form of
     sdpa/diagnostics.py and sdpa/gradients.py: from t, the sum of the other weights over the largest, so that
     nothing cancels in a saturated row. */
  function rowOf(scores, divisor) {
    const top = scores.indexOf(Math.max(...scores));
    const second = Math.max(...scores.filter((_, j) => j !== top));
    const gap = scores[top] - second;
    let e1 = 0, e2 = 0, e3 = 0, along = 0;
    const shares = scores.map((score, j) => {
      if (j === top) return 0;
      const e = Math.exp((score - second) / divisor);
      e1 += e;
      e2 += e * e;
      e3 += e * e * e;
      along += e * (score - second);
      return e;
    });
    const t = Math.exp(-gap / divisor) * e1;
    const r = t / (1 + t);
    return {
      weights: shares.map((e, j) => (j === top ? 1 / (1 + t) : r * e / e1)),
      max_weight: 1 / (1 + t),
      entropy: Math.log1p(t) + r * (gap - along / e1) / divisor,
      jacobian_norm: normFromShares(r, e2 / (e1 * e1), e3 / (e1 * e1 * e1)),
    };
  }

  /* |J|_F from r = 1 - max weight and the sums of squares and cubes of the other weights divided by r. */
  function normFromShares(r, u2, u3) {
    const a2 = (1 - r) * (1 - r);
    return r * Math.sqrt(a2 + u2 * (1 + 2 * a2) - 2 * r * u3 + r * r * u2 * u2);
  }

  /* The polynomial through values at Chebyshev points, at p: the barycentric form, as in slider.py. */
  function interpolated(points, values, p) {
    const exact = points.indexOf(p);
    if (exact >= 0) return values[exact];
    let above = 0, below = 0;
    points.forEach((point, k) => {
      const end = k === 0 || k === points.length - 1;
      const share = (k % 2 ? -1 : 1) * (end ? 0.5 : 1) / (p - point);
      above += share * values[k];
      below += share;
    });
    return above / below;
  }

  /* Expectations of a row by theory: the mean of each quantity, the root mean square of |J|_F, and e^(mean entropy). */
  function expected(table, width, length, p) {
    const i = table.widths.indexOf(width), j = table.lengths.indexOf(length);
    const at = (name) => interpolated(table.exponents, table[name][i][j], p);
    const entropy = at("entropy");
    return {
      max_weight: at("max_weight"),
      entropy,
      effective_keys: Math.exp(entropy),
      jacobian_norm: at("jacobian_norm"),
    };
  }

  /* Standard normal numbers from a seed: xoshiro128** (Blackman and Vigna 2018), Box and Muller. */
  function normals(seed) {
    const state = new Uint32Array(4);
    let mixed = seed >>> 0;
    for (let i = 0; i < state.length; i++) {
      mixed = (mixed + 0x9e3779b9) >>> 0;
      let z = Math.imul(mixed ^ (mixed >>> 16), 0x85ebca6b);
      z = Math.imul(z ^ (z >>> 13), 0xc2b2ae35);
      state[i] = z ^ (z >>> 16);
    }
    const rotated = (x, by) => (x << by) | (x >>> (32 - by));
    function word() {
      const result = Math.imul(rotated(Math.imul(state[1], 5), 7), 9) >>> 0;
      const shifted = state[1] << 9;
      state[2] ^= state[0];
      state[3] ^= state[1];
      state[1] ^= state[2];
      state[0] ^= state[3];
      state[2] ^= shifted;
      state[3] = rotated(state[3], 11);
      return result;
    }
    const kept = [];
    return () => {
      if (!kept.length) {
        const radius = Math.sqrt(-2 * Math.log((word() + 1) / 2 ** 32));
        const angle = 2 * Math.PI * word() / 2 ** 32;
        kept.push(radius * Math.sin(angle), radius * Math.cos(angle));
      }
      return kept.pop();
    };
  }

  /* The scores q.k, by width, of one query and the keys of the longest row at the largest width. A smaller width
     takes the first entries and a shorter row the first keys, so that a control changes nothing else. */
  function draw(seed, widths, length) {
    const normal = normals(seed);
    const largest = Math.max(...widths);
    const query = Array.from({ length: largest }, normal);
    const scores = new Map(widths.map((width) => [width, []]));
    for (let j = 0; j < length; j++) {
      let score = 0;
      for (let i = 0; i < largest; i++) {
        score += query[i] * normal();
        if (scores.has(i + 1)) scores.get(i + 1).push(score);
      }
    }
    return scores;
  }

  return Object.freeze({ rowOf, interpolated, expected, normals, draw });
})();
