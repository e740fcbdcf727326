"use strict";

/* The same row of weights under two divisors, as bars that share one cursor. */
const bars = (() => {
  const MOST = 64; // bars; of longer rows the largest are shown
  const charts = [...document.querySelectorAll(".chart")];
  const readout = document.getElementById("readout");
  let shown = [], rows = [], tops = [], cursor = 0, pointed = false;

  /* The indices of the keys to draw: all in order, or the largest, sorted. Both divisors keep the order of weights. */
  function selected(scores) {
    const indices = scores.map((_, j) => j);
    return scores.length <= MOST ? indices : indices.sort((a, b) => scores[b] - scores[a]).slice(0, MOST);
  }

  /* The least round number from the largest weight on: where the axis ends. */
  function ceiling(value) {
    const unit = 10 ** Math.floor(Math.log10(value));
    return Math.min(1, [1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10].find((step) => step * unit >= value) * unit);
  }

  function outline(weights, top) {
    const wide = 100 / weights.length, gap = Math.min(0.15 * wide, 0.5);
    return weights.map((weight, i) => {
      const y = 100 - 100 * weight / top;
      return `M${(i * wide + gap).toFixed(3)} 100V${y.toFixed(3)}H${((i + 1) * wide - gap).toFixed(3)}V100z`;
    }).join("");
  }

  function drawChart(chart, found, top, length) {
    const weights = shown.map((j) => found.weights[j]);
    chart.querySelector("path").setAttribute("d", outline(weights, top));
    chart.querySelector(".top").textContent = words.plain(top);
    chart.style.setProperty("--even", 1 / length / top);
    chart.classList.toggle("low", 1 / length / top < 0.1); // the label 0 would touch 1/n
    chart.setAttribute("aria-valuemax", weights.length);
  }

  /* Two rows: each the scores' results under a divisor, in the order of the charts. */
  function show(scores, found) {
    rows = found;
    shown = selected(scores);
    if (!pointed) cursor = shown.indexOf(scores.indexOf(Math.max(...shown.map((j) => scores[j]))));
    cursor = Math.min(cursor, shown.length - 1);
    tops = found.map((row) => ceiling(row.max_weight));
    charts.forEach((chart, i) => drawChart(chart, found[i], tops[i], scores.length));
    const rest = 1 - shown.reduce((sum, j) => sum + found[1].weights[j], 0);
    document.getElementById("shown").textContent = scores.length <= MOST ? "" :
      `The largest ${MOST} of ${words.keys(scores.length)} weights, sorted; divided, the others sum to ${words.digits(Math.max(0, rest))}.`;
    point();
  }

  function point() {
    const key = shown[cursor];
    charts.forEach((chart, i) => {
      const weight = words.digits(rows[i].weights[key]);
      chart.style.setProperty("--from", cursor / shown.length);
      chart.style.setProperty("--wide", 1 / shown.length);
      chart.style.setProperty("--height", rows[i].weights[key] / tops[i]);
      chart.classList.toggle("late", cursor > 0.7 * shown.length); // the value stands to its left
      chart.querySelector(".value").textContent = weight;
      chart.setAttribute("aria-valuenow", cursor + 1);
      chart.setAttribute("aria-valuetext", `key ${key + 1}: weight ${weight}`);
    });
    readout.textContent = `In this random row, key ${words.keys(key + 1)} has ${pointed ? "the weight" : "the largest weight:"} ${words.digits(rows[0].weights[key])} not divided and ${words.digits(rows[1].weights[key])} divided.`;
  }

  function move(to) {
    pointed = true;
    cursor = Math.max(0, Math.min(shown.length - 1, to));
    point();
  }

  const STEPS = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1, PageDown: -8, PageUp: 8, Home: -Infinity, End: Infinity };
  for (const chart of charts) {
    chart.addEventListener("keydown", (event) => {
      if (!(event.key in STEPS)) return;
      event.preventDefault();
      move(cursor + STEPS[event.key]);
    });
    for (const name of ["pointerdown", "pointermove"]) {
      chart.addEventListener(name, (event) => {
        const box = chart.getBoundingClientRect();
        move(Math.floor((event.clientX - box.left) / box.width * shown.length));
      });
    }
  }

  return Object.freeze({ show });
})();
