"use strict";

/* The inverse question: the divisor that gives a wanted entropy or largest weight. */
const inverse = (() => {
  const target = document.getElementById("target");
  const wanted = document.getElementById("wanted");
  const answer = document.getElementById("needed");
  const use = document.getElementById("use");
  let rows, now, found;

  /* The state that the answer depends on. */
  function show(state) {
    now = state;
    found = attention.divisorFor(rows, target.value, Number(wanted.value), state.d_k, state.n_keys);
    const p = found.divisor && state.d_k > 1 ? Math.log(found.divisor) / Math.log(state.d_k) : NaN;
    use.disabled = !(p >= 0 && p <= 1);
    words.typeset(answer, found.divisor ? text(found.divisor, p, state.d_k) :
      `none; choose more than ${words.digits(found.range[0])} and less than ${words.digits(found.range[1])}`);
    answer.dataset.divisor = found.divisor ?? "";
  }

  function text(divisor, p, d_k) {
    const power = Number.isNaN(p) ? "" : ` = d_k^${p.toFixed(3).replace("-", "−")}`;
    return `${words.digits(divisor)}${power}, or ${words.digits(divisor / Math.sqrt(d_k))} · √d_k${p >= 0 && p <= 1 ? "" : " (not on the slider)"}`;
  }

  function create(embedded, apply) {
    rows = embedded;
    for (const control of [target, wanted]) control.addEventListener("input", () => show(now));
    use.addEventListener("click", () => apply(Math.log(found.divisor) / Math.log(now.d_k)));
  }

  return Object.freeze({ create, show });
})();
