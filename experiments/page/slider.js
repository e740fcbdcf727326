"use strict";

/* The strip: reads the controls, draws one row, and shows it beside its expectations. */
(() => {
  const table = JSON.parse(document.getElementById("expectations").textContent);
  const slider = document.getElementById("exponent");
  const row = document.getElementById("row");
  const summary = document.getElementById("summary");
  const positions = Number(slider.max);
  const NAMED = new Map([[0, "0"], [1 / 3, "1/3"], [1 / 2, "1/2"], [2 / 3, "2/3"], [1, "1"]]);
  const SUPERSCRIPTS = "⁰¹²³⁴⁵⁶⁷⁸⁹";
  const QUIET_MILLISECONDS = 400; // the summary waits until a dragged slider rests

  let seed = 0;
  let scores = drawn();
  let announced;

  function drawn() {
    return attention.draw(seed, table.widths, Math.max(...table.lengths));
  }

  function chosen(name) {
    return Number(document.querySelector(`input[name=${name}]:checked`).value);
  }

  function digits(value) {
    if (value === 0 || value >= 1e-3) return value === 0 ? "0" : value.toPrecision(3);
    const [digits, power] = value.toExponential(2).split("e-");
    return `${digits} × 10⁻${[...power].map((digit) => SUPERSCRIPTS[digit]).join("")}`;
  }

  function signed(value) {
    return value.toFixed(1).replace("-", "−");
  }

  /* Everything that follows from the controls. */
  function state() {
    const width = chosen("width"), length = chosen("length");
    const p = Number(slider.value) / positions;
    const divisor = width ** p;
    const ofRow = scores.get(width).slice(0, length);
    const found = attention.rowOf(ofRow, divisor);
    found.effective_keys = Math.exp(found.entropy);
    return { width, length, p, divisor, scores: ofRow, found, expected: attention.expected(table, width, length, p) };
  }

  function exponentName(p) {
    return NAMED.get(p) ?? p.toFixed(2);
  }

  function show(now) {
    const power = `p = ${exponentName(now.p)}`;
    const divided = now.p === 0 ? "unscaled" : `scores divided by ${now.width}^(${exponentName(now.p)}) = ${digits(now.divisor)}`;
    document.getElementById("divisor").textContent = `${power}: ${divided}`;
    slider.setAttribute("aria-valuetext", `${power}, ${divided}`);
    const scaled = now.scores.map((score) => score / now.divisor);
    document.getElementById("scores").textContent =
      `The scaled scores of this row lie between ${signed(Math.min(...scaled))} and ${signed(Math.max(...scaled))}.`;
    showRow(now);
    const largest = { max_weight: 1, entropy: Math.log(now.length), effective_keys: now.length, jacobian_norm: 0.5 };
    const of = {
      max_weight: "of 1",
      entropy: `of ln ${now.length} = ${digits(Math.log(now.length))}`,
      effective_keys: `of ${now.length}`,
      jacobian_norm: "of 1/2",
    };
    for (const meter of document.querySelectorAll(".meter")) {
      const metric = meter.dataset.metric;
      showMeter(meter, now.found[metric], now.expected[metric], largest[metric], of[metric]);
    }
  }

  function showRow(now) {
    while (row.children.length > now.length) row.lastChild.remove();
    while (row.children.length < now.length) {
      const key = document.createElement("span");
      key.append(document.createElement("i"), document.createElement("b"));
      row.append(key);
    }
    row.style.setProperty("--equal", 1 / now.length);
    now.found.weights.forEach((weight, j) => {
      row.children[j].style.setProperty("--weight", weight);
    });
    const top = now.found.weights.indexOf(now.found.max_weight);
    row.setAttribute("aria-label", `${now.length} weights; the largest, of key ${top + 1}, is ${digits(now.found.max_weight)}`);
  }

  function showMeter(meter, value, expected, largest, of) {
    const track = meter.querySelector(".track");
    track.style.setProperty("--value", value / largest);
    track.style.setProperty("--expected", expected / largest);
    track.setAttribute("aria-valuemax", largest);
    track.setAttribute("aria-valuenow", value);
    track.setAttribute("aria-valuetext", `${digits(value)} ${of}, expected ${digits(expected)}`);
    track.dataset.expected = expected;
    meter.querySelector(".value").textContent = digits(value);
    meter.querySelector(".of").textContent = of;
    meter.querySelector(".expected").textContent = `expected ${digits(expected)}`;
  }

  function announce(now) {
    clearTimeout(announced);
    announced = setTimeout(() => {
      const say = (name, metric) => `${name} ${digits(now.found[metric])}, expected ${digits(now.expected[metric])}`;
      summary.textContent = [
        `d_k ${now.width}, ${now.length} keys, ${slider.getAttribute("aria-valuetext")}`,
        say("largest weight", "max_weight"),
        say("entropy", "entropy"),
        say("effective keys", "effective_keys"),
        say("Jacobian norm", "jacobian_norm"),
      ].join("; ");
    }, QUIET_MILLISECONDS);
  }

  function update() {
    const now = state();
    show(now);
    announce(now);
  }

  slider.addEventListener("input", update);
  for (const chip of document.querySelectorAll(".chips input")) chip.addEventListener("change", update);
  for (const mark of document.querySelectorAll(".marks button")) {
    mark.addEventListener("click", () => {
      slider.value = mark.dataset.position;
      update();
    });
  }
  document.getElementById("again").addEventListener("click", () => {
    seed += 1;
    scores = drawn();
    update();
  });
  show(state());
})();
