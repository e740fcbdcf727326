"use strict";

/* The choices of a reader and their text in the address: #d_k=64&n_keys=64&p=1/2&seed=3. */
const choices = (() => {
  const LARGEST_SEED = 2 ** 30;

  /* A fraction such as 1/2, or a decimal number; NaN for other text. */
  function number(text) {
    const [, above, below] = /^(\d+)\/(\d+)$/.exec(text) ?? [];
    if (below) return Number(above) / Number(below);
    return /^\d+(\.\d+)?$/.test(text) ? Number(text) : NaN;
  }

  /* p as a fraction if it is a position of the slider, otherwise as a decimal number. */
  function fraction(p, positions) {
    const position = Math.round(p * positions);
    if (position / positions !== p) return String(Number(p.toFixed(6)));
    const divisor = (a, b) => (b ? divisor(b, a % b) : a);
    const common = divisor(position, positions);
    return positions === common ? String(position / positions) : `${position / common}/${positions / common}`;
  }

  /* The state in a fragment: null if it names no choice, the defaults if one of its values is impossible. */
  function read(fragment, { d_k, n_keys }, defaults) {
    const given = new URLSearchParams(fragment.replace(/^#/, ""));
    const valid = {
      d_k: (value) => d_k.includes(value),
      n_keys: (value) => n_keys.includes(value),
      p: (value) => value >= 0 && value <= 1,
      seed: (value) => Number.isInteger(value) && value <= LARGEST_SEED,
    };
    const names = Object.keys(valid).filter((name) => given.has(name));
    if (!names.length) return null;
    const values = Object.fromEntries(names.map((name) => [name, number(given.get(name))]));
    return names.every((name) => valid[name](values[name])) ? { ...defaults, ...values } : { ...defaults };
  }

  function write({ d_k, n_keys, p, seed }, positions) {
    return `#d_k=${d_k}&n_keys=${n_keys}&p=${fraction(p, positions)}&seed=${seed}`;
  }

  return Object.freeze({ fraction, read, write });
})();
