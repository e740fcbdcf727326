"use strict";

/* Your head: sizes, and a divisor or the spread that it gives, in a sentence, a row, a link and a config. */
(() => {
  const $ = (id) => document.getElementById(id);
  const table = JSON.parse($("heads").textContent);
  const { width, keys, rule, spread } = $("fields").elements;
  const charts = document.querySelector("#strip .bars").cloneNode(true);
  const title = charts.querySelector("#rule");
  const SEED = 0;
  const ROUNDING = 1e-5; // of the divisor that a spread gives, and the field shows
  const NUMBERS = 2 ** 31, MOST_TRIALS = 300; // of the keys of a config

  /* What is wrong with the choices; empty if nothing is. */
  function fault(divisor) {
    const range = ({ min, max }) => `from ${words.keys(Number(min))} to ${words.keys(Number(max))}`;
    for (const [field, name] of [[width, "width"], [keys, "number of keys"]]) {
      if (!field.validity.valid) return `Expected a whole ${name} ${range(field)}.`;
    }
    const [narrow, wide] = [64, 4096].map((d_k) => attention.divisorOf(rule.value, d_k, 64));
    if (wide < narrow) return "Expected a divisor such as d_k^1/2; one that falls as d_k grows was meant as a factor.";
    if (!divisor) return "Expected a divisor above 0: a number, or a rule such as d_k^1/2 or max(8, d_k^1/2).";
    const given = Math.sqrt(width.value) / divisor;
    const isOffered = given >= spread.min * (1 - ROUNDING) && given <= spread.max * (1 + ROUNDING);
    return isOffered ? "" : `Expected a spread ${range(spread)}; divided by ${words.digits(divisor)}, scores have ${words.digits(given)}.`;
  }

  /* A config that measures a head, also with fewer keys. */
  function config(d_k, n_keys, divisor) {
    const lengths = new Set([16, 4, 1].map((part) => Math.max(2, Math.ceil(n_keys / part))));
    const trials = Math.max(10, Math.min(MOST_TRIALS, Math.round(NUMBERS / (d_k * n_keys))));
    return `seed: 0
sweeps:
  mine:
    experiment: saturation
    d_k: ${d_k}
    n_keys: [${[...lengths].join(", ")}]
    n_queries: 16
    scaling: [unscaled${divisor === 1 ? "" : `, ${JSON.stringify(rule.value.trim())}`}]
    trials: ${trials}
    figures: length
`;
  }

  function show() {
    const [d_k, n_keys] = [width, keys].map((field) => Number(field.value));
    const divisor = attention.divisorOf(rule.value, d_k, n_keys);
    const wrong = fault(divisor);
    $("head").classList.toggle("faulty", wrong !== "");
    $("head-answer").textContent = wrong;
    if (wrong) return;
    const [before, after] = [1, divisor].map((by) => attention.ofHead(table, d_k, n_keys, by));
    const change = (name) => `from <strong class="plain">${words.digits(before[name])}</strong> to <strong class="scaled">${words.digits(after[name])}</strong>`;
    const by = words.digits(divisor);
    $("head-answer").innerHTML =
      `At d<sub>k</sub> = ${words.keys(d_k)} with ${words.keys(n_keys)} keys, dividing by ${by} takes the mean largest weight ${change("max_weight")}, the mean entropy ${change("entropy")} nats (at most ${words.digits(Math.log(n_keys))}), and the typical gradient at a query ${change("query_gradient")}.`;
    if (document.activeElement !== spread) spread.value = Number(after.spread.toPrecision(4));
    const scores = attention.draw(SEED, d_k, n_keys);
    title.textContent = `Divided by ${by}`;
    $("head-readout").textContent = bars.show(charts, scores, [1, divisor].map((each) => attention.rowOf(scores, each)));
    draw(d_k, n_keys, [before, after]);
    $("head-link").href = `#head?${new URLSearchParams({ width: d_k, keys: n_keys, rule: rule.value })}`;
    $("mine").href = `data:text/yaml,${encodeURIComponent(config(d_k, n_keys, divisor))}`;
  }

  /* The entropy over ln n at every spread up to twice the critical one or further, and the two points. */
  function draw(d_k, n_keys, points) {
    const most = Math.log(n_keys), critical = Math.sqrt(2 * most);
    const end = Math.max(2, Math.ceil(Math.max(...points.map(({ spread }) => spread)) / critical));
    const place = ({ spread, entropy }) => `${(100 * spread / critical / end).toFixed(1)} ${(100 * (1 - entropy / most)).toFixed(1)}`;
    const spreads = Array.from({ length: 80 }, (_, i) => (i + 1) / 80 * end * critical).filter((each) => each <= table.spread);
    const curve = spreads.map((each) => place(attention.ofHead(table, d_k, n_keys, Math.sqrt(d_k) / each)));
    const others = Object.values(table.entropy_shares).map((shares) => shares.map((share, i) => `${(200 * i / (shares.length - 1) / end).toFixed(1)} ${100 - 100 * share}`));
    const paths = [
      `M0 0Q${50 / end} 0 ${100 / end} 100H100`,
      ...[...others, curve].map((each) => `M0 0L${each.join("L")}`),
      `M${50 / end} 25h0`,
      ...points.map((each) => `M${place(each)}h0`),
    ];
    document.querySelectorAll("#head-curve path").forEach((path, i) => path.setAttribute("d", paths[i]));
    $("head-end").textContent = end;
  }

  /* The choices in an address such as #head?width=128&keys=4096&rule=12. */
  function read() {
    if (!location.hash.startsWith("#head?")) return;
    for (const [name, value] of new URLSearchParams(location.hash.slice(6))) {
      if ([width, keys, rule].some((field) => field.name === name)) $("fields").elements[name].value = value;
    }
    show();
    $("head").scrollIntoView();
  }

  $("fields").addEventListener("submit", (event) => event.preventDefault());
  $("fields").addEventListener("input", ({ target }) => {
    if (target === spread) rule.value = Number((Math.sqrt(width.value) / spread.value).toPrecision(6));
    show();
  });
  addEventListener("hashchange", read);
  title.id = "head-rule";
  $("head-readout").before(charts);
  show();
  $("head").classList.remove("waiting");
  read();
})();
