"use strict";

/* Numbers as text. */
const words = (() => {
  const SUPERSCRIPTS = "⁰¹²³⁴⁵⁶⁷⁸⁹";

  const keys = (count) => count.toLocaleString("en");

  /* Three digits, all of a larger number, and a power of ten below 0.001. */
  function digits(value) {
    if (value === 0) return "0";
    const size = Math.abs(value);
    if (size >= 999.5) return keys(Math.round(value));
    if (size >= 1e-3) return value.toPrecision(3);
    const [front, power] = value.toExponential(2).split("e-");
    return `${front} × 10⁻${[...power].map((digit) => SUPERSCRIPTS[digit]).join("")}`;
  }

  /* Without zeros behind the point: 8 and 2.83. */
  const plain = (value) => digits(value).replace(/\.0+$|(\.\d*[1-9])0+$/, "$1");

  /* p as a fraction such as 1/2 if it is a position of the slider, otherwise as a decimal number. */
  function fraction(p, positions) {
    const position = Math.round(p * positions);
    if (position / positions !== p) return String(Number(p.toFixed(6)));
    const divisor = (a, b) => (b ? divisor(b, a % b) : a);
    const common = divisor(position, positions);
    return positions === common ? String(position / positions) : `${position / common}/${positions / common}`;
  }

  return Object.freeze({ digits, plain, keys, fraction });
})();

/* The same row under two divisors as bars; both keep the order of the weights. */
const bars = (() => {
  const MOST = 64; // of longer rows the largest are shown

  /* Draw a row of scores in the two charts of a board; the result says what they leave out. */
  function show(board, scores, rows) {
    const indices = scores.map((_, j) => j);
    const shown = scores.length <= MOST ? indices : indices.sort((a, b) => scores[b] - scores[a]).slice(0, MOST);
    const wide = 100 / shown.length, gap = Math.min(0.15 * wide, 0.5);
    const most = Math.max(...rows.map((row) => row.max_weight)); // one axis for both, which ends at a round number
    const unit = 10 ** Math.floor(Math.log10(most));
    const top = Math.min(1, [1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10].find((step) => step * unit >= most) * unit);
    board.querySelectorAll(".chart").forEach((chart, i) => {
      chart.querySelector("path").setAttribute("d", shown.map((j, k) => {
        const y = 100 - 100 * rows[i].weights[j] / top;
        return `M${(k * wide + gap).toFixed(3)} 100V${y.toFixed(3)}H${((k + 1) * wide - gap).toFixed(3)}V100z`;
      }).join(""));
      chart.querySelector(".top").textContent = words.plain(top);
      chart.style.setProperty("--even", 1 / scores.length / top);
      chart.classList.toggle("low", 1 / scores.length / top < 0.1); // the label 0 would touch 1/n
    });
    const largest = rows.map((row) => words.digits(row.max_weight));
    const rest = shown.length < scores.length ? ` The bars are the largest ${MOST} of ${words.keys(scores.length)} weights, sorted.` : "";
    return `In the row drawn here, the largest weight is ${largest[0]} not divided and ${largest[1]} divided.${rest}`;
  }

  return Object.freeze({ show });
})();

/* The map of (d_k, n_keys): where the medians of unscaled and scaled gradients are equal, and the reader's point. */
const map = (() => {
  const NAMES = { jacobian: "|J|", query_gradient: "|∂L/∂q|" };
  const svg = document.getElementById("map");
  const WIDE = 330, HIGH = 232; // of the view box
  const LEFT = 46, RIGHT = 14, TOP = 22, BOTTOM = 34; // margins, for the labels of the axes

  function add(name, attributes, text = "", parent = svg) {
    const made = document.createElementNS(svg.namespaceURI, name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.textContent = text;
    parent.append(made);
    return made;
  }

  /* A logarithmic axis from pixels to pixels that covers all values, with a little room at both ends. */
  function axis(values, from, to) {
    const low = Math.log2(Math.min(...values)) - 0.5, high = Math.log2(Math.max(...values)) + 0.5;
    return (value) => from + (Math.log2(value) - low) / (high - low) * (to - from);
  }

  /* Draw the map; a click calls `move` with the nearest sizes. The result shows the sizes of a reader. */
  function create(data, move) {
    const lines = Object.entries(data.crossings).filter(([, points]) => points.length);
    const all = (column) => lines.flatMap(([, points]) => points.map((point) => point[column]));
    const x = axis([...data.d_k, ...all(1)], LEFT, WIDE - RIGHT);
    const y = axis([...data.n_keys, ...all(0)], HIGH - BOTTOM, TOP);
    const path = (points) => points.map(([n, d], i) => `${i ? "L" : "M"}${x(d).toFixed(1)} ${y(n).toFixed(1)}`).join("");

    for (const [name, found] of lines) {
      const [first, last] = [found[0], found.at(-1)];
      add("path", { class: "larger", d: `${path(found)}L${WIDE - RIGHT} ${y(last[0])}V${y(first[0])}z` });
      if (name === "jacobian" && last !== first) {
        add("text", { class: "region", x: WIDE - RIGHT - 6, y: y(first[0]) - 6, "text-anchor": "end" }, "larger");
        add("text", { x: LEFT + 8, y: y(last[0]) + 16 }, "smaller");
      }
      add("path", { class: `line ${name}`, d: path(found) });
      add("text", { class: name, x: Math.min(x(last[1]), WIDE - 24), y: y(last[0]) - 8, "text-anchor": "middle" }, NAMES[name]);
    }
    const sparse = (values, room) => values.filter((_, i) => values.length <= room || (values.length - 1 - i) % 2 === 0);
    add("path", { class: "axes", d: `M${LEFT} ${TOP}V${HIGH - BOTTOM}H${WIDE - RIGHT}` });
    for (const d of sparse(data.d_k, 6)) add("text", { x: x(d), y: HIGH - BOTTOM + 15, "text-anchor": "middle" }, d);
    for (const n of sparse(data.n_keys, 8)) add("text", { x: LEFT - 6, y: y(n) + 4, "text-anchor": "end" }, n);
    add("text", { x: WIDE - RIGHT, y: HIGH - 4, "text-anchor": "end" }, "width →");
    add("text", { x: 0, y: 12 }, "↑ keys");
    for (const d of data.d_k) for (const n of data.n_keys) add("circle", { class: "choice", cx: x(d), cy: y(n), r: 1.6 });
    const you = add("g", { class: "you" });
    add("circle", { r: 6.5 }, "", you);

    const nearest = (values, place, at) => values.reduce((best, value) => (Math.abs(place(value) - at) < Math.abs(place(best) - at) ? value : best));
    svg.addEventListener("click", (event) => {
      const box = svg.getBoundingClientRect();
      move(
        nearest(data.d_k, x, (event.clientX - box.left) / box.width * WIDE),
        nearest(data.n_keys, y, (event.clientY - box.top) / box.height * HIGH),
      );
    });
    return (d_k, n_keys) => you.setAttribute("transform", `translate(${x(d_k)} ${y(n_keys)})`);
  }

  /* The d_k of equal medians at a number of keys: exact, or between two neighbours of a line. */
  function crossing(points, n_keys) {
    const above = points.findIndex(([n]) => n >= n_keys);
    if (above < 0) return null;
    const [n1, d1] = points[above];
    if (n1 === n_keys) return d1;
    if (!above) return null;
    const [n0, d0] = points[above - 1];
    return d0 * (d1 / d0) ** (Math.log(n_keys / n0) / Math.log(n1 / n0));
  }

  return Object.freeze({ create, crossing });
})();

/* The explorer: the choices of a reader, one row of weights under them, its expectations and its place on the map. */
(() => {
  const $ = (id) => document.getElementById(id);
  const data = JSON.parse($("explorer-data").textContent);
  const slider = $("exponent");
  const positions = Number(slider.max);
  const LARGEST_SEED = 2 ** 30;
  const QUIET_MILLISECONDS = 400; // the summary and the address wait until a dragged slider rests
  const DEFAULTS = { d_k: data.start[0], n_keys: data.start[1], p: 1 / 2, seed: 0 };
  const VALID = {
    d_k: (value) => data.d_k.includes(value),
    n_keys: (value) => data.n_keys.includes(value),
    p: (value) => value >= 0 && value <= 1,
    seed: (value) => Number.isInteger(value) && value >= 0 && value <= LARGEST_SEED,
  };

  let state = read(location.hash) ?? { ...DEFAULTS };
  let quiet, needed;

  /* The choices in an address such as #d_k=64&n_keys=64&p=1/2&seed=3: null if it names none, the defaults if one is impossible. */
  function read(fragment) {
    const given = [...new URLSearchParams(fragment.slice(1))].filter(([name]) => name in VALID);
    if (!given.length) return null;
    const values = given.map(([name, text]) => {
      const [above, below] = text.split("/");
      return [name, below === undefined ? parseFloat(above) : above / below];
    });
    return values.every(([name, value]) => VALID[name](value)) ? { ...DEFAULTS, ...Object.fromEntries(values) } : { ...DEFAULTS };
  }

  /* Everything that follows from the choices: results without the division and with it. */
  function results({ d_k, n_keys, p, seed }) {
    const scores = attention.draw(seed, d_k, n_keys);
    const rules = [1, d_k ** p].map((divisor) => {
      const row = attention.rowOf(scores, divisor);
      row.effective_keys = Math.exp(row.entropy);
      const found = data.medians.find((cell) => cell[0] === d_k && cell[1] === n_keys && Math.abs(cell[2] / divisor - 1) < 1e-8);
      const median = { jacobian_norm: found?.[3] ?? null, query_gradient_norm: found?.[4] ?? null };
      return { divisor, row, expected: attention.expected(data.rows, d_k, n_keys, divisor), median };
    });
    return { scores, rules };
  }

  /* Formulas as HTML. */
  const { width, scaled, jacobian } = data.formulas;
  const power = (base, p) => data.formulas.power.replace("BASE", base).replace("P", p);
  const ruleName = (p) => (p === 1 / 2 ? scaled : power(width, words.fraction(p, positions)));

  function showControls() {
    slider.value = Math.round(state.p * positions);
    for (const name of ["d_k", "n_keys"]) document.querySelector(`input[name=${name}][value="${state[name]}"]`).checked = true;
    const p = words.fraction(state.p, positions);
    const text = (divisor) => `p = ${p}, ${state.p === 0 ? "not divided" : `divided by ${divisor} = ${words.plain(state.d_k ** state.p)}`}`;
    slider.setAttribute("aria-valuetext", text(`${state.d_k}^(${p})`));
    $("divisor").innerHTML = text(power(state.d_k, p));
  }

  function showAnswer([before, after]) {
    const divided = `divided by ${ruleName(state.p)} = ${words.plain(after.divisor)}`;
    $("answer").innerHTML =
      `At ${width} = ${state.d_k} with ${words.keys(state.n_keys)} keys, the mean largest weight is <strong class="plain">${words.digits(before.expected.max_weight)}</strong> without the division and <strong class="scaled">${words.digits(after.expected.max_weight)}</strong> ${divided}.`;
    if ($("sizes")) $("sizes").innerHTML = sizes(state.n_keys);
    $("rule").innerHTML = `Divided by ${ruleName(state.p)}`;
  }

  /* The d_k up to which typical gradients are larger without √d_k, where it is known. */
  function sizes(n_keys) {
    const places = [["query_gradient", "the median gradient at a query is larger without the division"], ["jacobian", `that of the softmax alone (${jacobian})`]];
    const known = places.map(([norm, place]) => [map.crossing(data.crossings[norm], n_keys), place]).filter(([d_k]) => d_k);
    const upTo = known.map(([d_k, place]) => `${place} up to ${width} ≈ ${words.plain(Number(d_k.toPrecision(2)))}`).join(", and ");
    return known.length ? `In rows of ${words.keys(n_keys)} keys, ${upTo}.` :
      `These sweeps do not tell where gradients are larger without the division in rows of ${words.keys(n_keys)} keys.`;
  }

  function showTable(rules) {
    rules.forEach(({ row, expected, median }, i) => {
      for (const cell of document.querySelectorAll(`.quantities [data-rule="${i}"]`)) {
        const value = { row, expected, median }[cell.dataset.of][cell.dataset.metric];
        cell.dataset.value = value ?? "";
        cell.textContent = value === null ? "–" : words.digits(value);
      }
    });
    for (const row of document.querySelectorAll(".quantities tbody tr")) row.hidden = !row.querySelector("[data-value]:not([data-value=''])");
    $("most-entropy").textContent = `at most ln n = ${words.digits(Math.log(state.n_keys))}`;
    $("most-keys").textContent = `at most ${words.keys(state.n_keys)}`;
  }

  /* The inverse question: the divisor that gives a wanted entropy or largest weight. */
  function showNeeded() {
    const { divisor, range } = attention.divisorFor(data.rows, $("target").value, Number($("wanted").value), state.d_k, state.n_keys);
    needed = divisor && state.d_k > 1 ? Math.log(divisor) / Math.log(state.d_k) : NaN;
    const asPower = Number.isNaN(needed) ? "" : ` = ${power(width, needed.toFixed(3).replace("-", "−"))}`;
    $("use").disabled = !(needed >= 0 && needed <= 1);
    $("needed").innerHTML = divisor ?
      `${words.digits(divisor)}${asPower}, or ${words.digits(divisor / Math.sqrt(state.d_k))} · ${scaled}${$("use").disabled ? " (not on the slider)" : ""}` :
      `none; choose more than ${words.digits(range[0])} and less than ${words.digits(range[1])}`;
    $("needed").dataset.divisor = divisor ?? "";
  }

  function show() {
    const { scores, rules } = results(state);
    showControls();
    showAnswer(rules);
    $("readout").textContent = bars.show($("strip"), scores, rules.map(({ row }) => row));
    showTable(rules);
    mark?.(state.d_k, state.n_keys);
    showNeeded();
  }

  function choose(change) {
    state = { ...state, ...change };
    show();
    clearTimeout(quiet);
    quiet = setTimeout(() => {
      $("summary").textContent = [slider.getAttribute("aria-valuetext"), ...["answer", "sizes"].map((id) => $(id)?.textContent ?? "")].join(". ");
      history.replaceState(null, "", `#d_k=${state.d_k}&n_keys=${state.n_keys}&p=${words.fraction(state.p, positions)}&seed=${state.seed}`);
    }, QUIET_MILLISECONDS);
  }

  const mark = $("map") && map.create(data, (d_k, n_keys) => choose({ d_k, n_keys }));
  slider.addEventListener("input", () => choose({ p: Number(slider.value) / positions }));
  for (const chip of document.querySelectorAll(".chips input")) {
    chip.addEventListener("change", () => choose({ [chip.name]: Number(chip.value) }));
  }
  for (const button of document.querySelectorAll(".marks button")) {
    button.addEventListener("click", () => choose({ p: Number(button.dataset.position) / positions }));
  }
  for (const control of [$("target"), $("wanted")]) control.addEventListener("input", showNeeded);
  $("use").addEventListener("click", () => choose({ p: needed }));
  $("again").addEventListener("click", () => choose({ seed: state.seed + 1 }));
  addEventListener("hashchange", () => {
    state = read(location.hash) ?? state;
    show();
  });
  show();
  for (const waiting of document.querySelectorAll(".waiting")) waiting.classList.remove("waiting");
})();
