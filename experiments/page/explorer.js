"use strict";

/* The explorer: the choices of a reader, one row of weights under them, its expectations and its place on the map. */
(() => {
  const data = JSON.parse(document.getElementById("explorer-data").textContent);
  const slider = document.getElementById("exponent");
  const summary = document.getElementById("summary");
  const positions = Number(slider.max);
  const QUIET_MILLISECONDS = 400; // the summary and the address wait until a dragged slider rests
  const DEFAULTS = { d_k: data.start[0], n_keys: data.start[1], p: 1 / 2, seed: 0 };

  let state = choices.read(location.hash, data, DEFAULTS) ?? { ...DEFAULTS };
  let quiet;

  /* Everything that follows from the choices: results without the division and with it. */
  function results({ d_k, n_keys, p, seed }) {
    const scores = attention.draw(seed, d_k, n_keys);
    const rules = [1, d_k ** p].map((divisor) => {
      const row = attention.rowOf(scores, divisor);
      row.effective_keys = Math.exp(row.entropy);
      return { divisor, row, expected: attention.expected(data.rows, d_k, n_keys, divisor), median: medians(d_k, n_keys, divisor) };
    });
    return { scores, rules };
  }

  /* Measured medians, where a sweep of this page has the cell. */
  function medians(d_k, n_keys, divisor) {
    const found = data.medians.find((cell) => cell[0] === d_k && cell[1] === n_keys && Math.abs(cell[2] / divisor - 1) < 1e-8);
    return { jacobian_norm: found?.[3] ?? null, query_gradient_norm: found?.[4] ?? null };
  }

  const ruleName = (p) => (p === 1 / 2 ? "√d_k" : `d_k^${choices.fraction(p, positions)}`);

  function showControls() {
    slider.value = Math.round(state.p * positions);
    for (const name of ["d_k", "n_keys"]) document.querySelector(`input[name=${name}][value="${state[name]}"]`).checked = true;
    const divided = state.p === 0 ? "not divided" : `divided by ${state.d_k}^(${choices.fraction(state.p, positions)}) = ${words.plain(state.d_k ** state.p)}`;
    slider.setAttribute("aria-valuetext", `p = ${choices.fraction(state.p, positions)}, ${divided}`);
    words.typeset(document.getElementById("divisor"), slider.getAttribute("aria-valuetext"));
  }

  function showAnswer([before, after]) {
    const divided = `divided by ${ruleName(state.p)} = ${words.plain(after.divisor)}`;
    words.typeset(document.getElementById("answer"),
      `At d_k = ${state.d_k} with ${words.keys(state.n_keys)} keys, the largest weight averages <strong class="plain">${words.digits(before.expected.max_weight)}</strong> without the division and <strong class="scaled">${words.digits(after.expected.max_weight)}</strong> ${divided}.`);
    words.typeset(document.getElementById("sizes"), sizes(state));
    words.typeset(document.getElementById("rule"), `Divided by ${ruleName(state.p)}`);
  }

  /* The size of typical gradients under √d_k against unscaled ones at these sizes, and the d_k from which on they are larger. */
  function sizes({ d_k, n_keys }) {
    const norms = [
      { name: "jacobian", place: "through the softmax", symbol: "|J|_F" },
      { name: "query_gradient", place: "at the query", symbol: "|∂L/∂q|" },
    ];
    const known = norms.map((norm) => ({ ...norm, crossing: map.crossing(data.crossings[norm.name], n_keys) })).filter(({ crossing }) => crossing);
    if (!known.length) return measuredSizes(d_k, n_keys, norms);
    const here = inPlaces(known, known.map(({ crossing }) => map.compared(d_k, crossing)));
    const from = known.map(({ place, symbol, crossing }) => `${words.plain(Number(crossing.toPrecision(2)))} ${place} (${symbol})`);
    return `With √d_k, typical gradients are ${here} here: with ${words.keys(n_keys)} keys, they are larger only above d_k ≈ ${from.join(" and ")}.`;
  }

  /* Words such as "larger" for each place, once if they are all the same. */
  const inPlaces = (norms, found) => (new Set(found).size === 1 ? found[0] : norms.map(({ place }, i) => `${found[i]} ${place}`).join(", "));

  /* The same from measured medians, where the map has no line. */
  function measuredSizes(d_k, n_keys, norms) {
    const [before, after] = [1, Math.sqrt(d_k)].map((divisor) => medians(d_k, n_keys, divisor));
    const ratios = norms.map(({ name }) => after[`${name}_norm`] / before[`${name}_norm`]);
    return ratios.every((ratio) => ratio > 0) ? `With √d_k, typical gradients are ${inPlaces(norms, ratios.map((ratio) => map.size(ratio)))} here (measured).` :
      `These sweeps do not tell whether √d_k makes typical gradients larger here.`;
  }

  function showTable(rules) {
    rules.forEach(({ row, expected, median }, i) => {
      for (const cell of document.querySelectorAll(`.quantities [data-rule="${i}"]`)) {
        const { metric, of } = cell.dataset;
        const value = { row, expected, median }[of][metric];
        cell.dataset.value = value ?? "";
        cell.textContent = value === null ? "–" : words.digits(value);
        cell.title = value === null ? "not measured with these sizes and this rule" : "";
      }
    });
    document.getElementById("most-entropy").textContent = `at most ln n = ${words.digits(Math.log(state.n_keys))}`;
    document.getElementById("most-keys").textContent = `at most ${words.keys(state.n_keys)}`;
  }

  function show() {
    const { scores, rules } = results(state);
    showControls();
    showAnswer(rules);
    bars.show(scores, rules.map(({ row }) => row));
    showTable(rules);
    mark(state.d_k, state.n_keys);
    inverse.show(state);
    return rules;
  }

  function announce([before, after]) {
    clearTimeout(quiet);
    quiet = setTimeout(() => {
      const say = (name, metric) => `${name} ${words.digits(before.expected[metric])} not divided, ${words.digits(after.expected[metric])} divided`;
      summary.textContent = [
        `${document.getElementById("law").textContent} d_k ${state.d_k}, ${state.n_keys} keys, ${slider.getAttribute("aria-valuetext")}`,
        say("mean largest weight", "max_weight"),
        say("mean entropy", "entropy"),
        say("Jacobian norm", "jacobian_norm"),
        say("query gradient", "query_gradient_norm"),
      ].join("; ");
      history.replaceState(null, "", choices.write(state, positions));
    }, QUIET_MILLISECONDS);
  }

  function choose(change) {
    state = { ...state, ...change };
    announce(show());
  }

  const mark = map.create(data, (d_k, n_keys) => choose({ d_k, n_keys }));
  inverse.create(data.rows, (p) => choose({ p }));
  slider.addEventListener("input", () => choose({ p: Number(slider.value) / positions }));
  for (const chip of document.querySelectorAll(".chips input")) {
    chip.addEventListener("change", () => choose({ [chip.name]: Number(chip.value) }));
  }
  for (const button of document.querySelectorAll(".marks button")) {
    button.addEventListener("click", () => choose({ p: Number(button.dataset.position) / positions }));
  }
  document.getElementById("again").addEventListener("click", () => choose({ seed: state.seed + 1 }));
  addEventListener("hashchange", () => {
    const given = choices.read(location.hash, data, DEFAULTS);
    if (given) {
      state = given;
      show();
    }
  });
  show();
  document.getElementById("strip").classList.remove("waiting");
})();
