"use strict";

/* The mathematics of a row of scores, of exact expectations and of random draws, without access to the document. */
const attention = (() => {
  /* Weights, max weight, entropy (nats) and |J|_F of a row of scores under a divisor, in the form of
     sdpa/softmax_rows.py and sdpa/metrics.py: from t, the sum of the other weights over the largest, so that
     nothing cancels in a saturated row. */
  function rowOf(scores, divisor) {
    let top = 0;
    scores.forEach((score, j) => { if (score > scores[top]) top = j; });
    const second = scores.reduce((most, score, j) => (j === top ? most : Math.max(most, score)), -Infinity);
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

  /* Chebyshev points from 0 to an end, as in `row_means` of explorer.py. */
  function points(count, end) {
    return Array.from({ length: count }, (_, i) => end * (1 - Math.cos(Math.PI * i / (count - 1))) / 2);
  }

  /* The polynomials through values at Chebyshev points, at s: the barycentric form (Berrut and Trefethen 2004). */
  function interpolated(at, curves, s) {
    const exact = at.indexOf(s);
    if (exact >= 0) return curves.map((values) => values[exact]);
    const above = curves.map(() => 0);
    let below = 0;
    at.forEach((point, i) => {
      const end = i === 0 || i === at.length - 1;
      const share = (i % 2 ? -1 : 1) * (end ? 0.5 : 1) / (s - point);
      curves.forEach((values, c) => { above[c] += share * values[i]; });
      below += share;
    });
    return above.map((sum) => sum / below);
  }

  /* Nodes of the law of |q| for d_k standard normal entries. x = ln(|q|^2 / 2) has the density e^(h x - e^x) up to a
     factor, h = d_k / 2, over which the trapezoidal rule converges exponentially (sdpa/theory/query_lengths.py). */
  function queryLengths(width) {
    const h = width / 2, step = Math.min(0.3, 0.45 * Math.sqrt(2 * width) / width);
    const logDensity = (x) => h * (x - Math.log(h)) - Math.exp(x) + h;
    const nodes = [];
    for (const direction of [-1, 1]) {
      for (let k = direction < 0 ? 0 : 1; logDensity(Math.log(h) + direction * k * step) > -33; k++) {
        const x = Math.log(h) + direction * k * step;
        nodes.push({ length: Math.sqrt(2 * Math.exp(x)), share: Math.exp(logDensity(x)) });
      }
    }
    const total = nodes.reduce((sum, node) => sum + node.share, 0);
    return nodes.map(({ length, share }) => ({ length, share: share / total }));
  }

  /* Expectations of a row by theory: the means of max weight and entropy, e^(mean entropy), and the root mean squares
     of |J|_F and |dL/dq|, E |dL/dq|^2 = ((d_k - 1) E |J|_F^2 + E |J z|^2) / divisor^2. */
  function expected(rows, width, length, divisor) {
    const { max_weight, entropy, jacobian_square, score_gradient_square } = rows.of[length];
    const curves = [max_weight, entropy, jacobian_square, score_gradient_square];
    const at = points(entropy.length, Math.log1p(rows.sigma));
    const mean = [0, 0, 0, 0];
    for (const { length: q, share } of queryLengths(width)) {
      interpolated(at, curves, Math.log1p(q / divisor)).forEach((value, c) => { mean[c] += share * Math.exp(value); });
    }
    return {
      max_weight: mean[0],
      entropy: mean[1],
      effective_keys: Math.exp(mean[1]),
      jacobian_norm: Math.sqrt(mean[2]),
      query_gradient_norm: Math.sqrt((width - 1) * mean[2] + mean[3]) / divisor,
    };
  }

  /* The least divisor whose rows lie within the curves. */
  function leastDivisor(rows, width) {
    return Math.max(...queryLengths(width).map((node) => node.length)) / rows.sigma;
  }

  const LARGEST_DIVISOR = 1e3; // times sqrt(d_k): rows are uniform there
  const TARGETS = {
    max_weight: (found) => found.max_weight,
    entropy_share: (found, length) => found.entropy / Math.log(length),
  };

  /* The divisor under which an expectation has a wanted value, by bisection in ln divisor; else the range of values. */
  function divisorFor(rows, target, wanted, width, length) {
    const value = (divisor) => TARGETS[target](expected(rows, width, length, divisor), length);
    let low = leastDivisor(rows, width), high = LARGEST_DIVISOR * Math.sqrt(width);
    const ends = [value(low), value(high)];
    const range = [Math.min(...ends), Math.max(...ends)];
    if (!(range[0] < wanted && wanted < range[1])) return { range };
    const rises = ends[1] > ends[0];
    while (high / low > 1 + 1e-12) {
      const middle = Math.sqrt(low * high);
      if ((value(middle) < wanted) === rises) low = middle;
      else high = middle;
    }
    return { divisor: Math.sqrt(low * high) };
  }

  /* The spread of a head's divided scores, the means of its largest weight and entropy, and its median |dL/dq|, between
     the values of heads.json: by Lagrange over sizes, by Chebyshev polynomials over the spread. */
  function ofHead(table, width, length, divisor) {
    const spread = Math.sqrt(width) / divisor;
    const lagrange = (nodes, x) => nodes.map((own) => nodes.reduce((share, other) => (other === own ? share : share * (x - other) / (own - other)), 1));
    const place = (n) => Math.log(n) ** 0.25;
    const angle = Math.acos(2 * Math.log1p(spread) / Math.log1p(table.spread) - 1);
    const weights = [
      lagrange(table.d_k.map((d) => 1 / d), 1 / width),
      lagrange(table.n_keys.map(place), place(length)),
      Array.from({ length: table.degree + 1 }, (_, k) => Math.cos(k * angle)),
    ];
    const sum = (values, [own, ...inner]) => (own ? values.reduce((total, value, i) => total + own[i] * sum(value, inner), 0) : values);
    const value = (name) => Math.exp(sum(table.of[name], weights) / table.parts);
    return {
      spread,
      max_weight: Math.min(value("max_weight"), 1),
      entropy: Math.min(value("entropy"), Math.log(length)),
      query_gradient: spread * value("query_gradient"),
    };
  }

  const FUNCTIONS = new Map([["(", (x) => x], ["ln", Math.log], ...["sqrt", "floor", "ceil", "max", "min"].map((name) => [name, Math[name]])]);
  const FRACTION = /(\w|\w\(\w+\))\s*\^\s*(-?\s*\d+\s*\/\s*\d+)(?![\d.])/g;
  const UNCLEAR = /(\^|\*\*)\s*-?\s*\d+\s*\/\s*[\d.]/; // an exponent, or not
  const PIECES = /\^\s*(?:-?\s*[\d.]+|\(\s*-?\s*[\d.]+\s*(?:\/\s*[\d.]+\s*)?\))|[\d.]+(?:e[-+]?\d+)?|\w+|\S/g;

  /* The divisor of a rule such as d_k^1/2/ln(n_keys), as in sdpa/scaling.py, but with e alone in a power of ten and no sign
     after a sign; NaN for any other text. */
  function divisorOf(rule, width, length) {
    if (rule.trim() === "unscaled") return 1;
    const text = rule.replace(FRACTION, "$1^($2)");
    if (UNCLEAR.test(text)) return NaN;
    const pieces = text.replaceAll("**", "^").match(PIECES) ?? [];
    const take = (wanted) => pieces[0] === wanted && pieces.shift();
    function single() {
      const piece = pieces.shift();
      if (piece === "d_k") return width;
      if (piece === "n_keys") return length;
      const known = FUNCTIONS.get(piece);
      if (!known) return /^[\d.]/.test(piece) ? Number(piece) : NaN;
      if (piece !== "(" && !take("(")) return NaN;
      const given = [sum()];
      while (take(",")) given.push(sum());
      return take(")") && given.length === known.length ? known(...given) : NaN;
    }
    function power() {
      const base = single();
      if (!pieces[0]?.startsWith("^")) return base;
      const [above, below = 1] = pieces.shift().replace(/[\^()\s]/g, "").split("/");
      return base ** (above / below);
    }
    function product() {
      for (let value = power(); ;) {
        if (take("*")) value *= power();
        else if (take("/")) value /= power();
        else return value;
      }
    }
    function sum() {
      for (let value = product(); ;) {
        if (take("+")) value += product();
        else if (take("-")) value -= product();
        else return value;
      }
    }
    const divisor = sum();
    return !pieces.length && divisor > 0 && divisor < Infinity ? divisor : NaN;
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

  /* The scores |q| z_j of one query with its keys: given q, scores q.k are independent N(0, |q|^2). |q|^2 and z have
     generators of their own, so that a wider query adds entries and a longer row keys, and nothing else changes. */
  function draw(seed, width, length) {
    const entry = normals(2 * seed), z = normals(2 * seed + 1);
    let square = 0;
    for (let i = 0; i < width; i++) square += entry() ** 2;
    return Array.from({ length }, () => Math.sqrt(square) * z());
  }

  return Object.freeze({ rowOf, expected, divisorFor, ofHead, divisorOf, normals, draw });
})();
