"use strict";

/* The map of (d_k, n_keys): where the medians of unscaled and scaled gradients are equal, and the reader's point. */
const map = (() => {
  const NAMES = { jacobian: "|J|", query_gradient: "|∂L/∂q|" };
  const svg = document.getElementById("map");
  const [, , WIDE, HIGH] = svg.getAttribute("viewBox").split(" ").map(Number);
  const LEFT = 46, RIGHT = 14, TOP = 22, BOTTOM = 34; // margins, for the labels of the axes

  function element(name, attributes, text = "") {
    const made = document.createElementNS(svg.namespaceURI, name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.textContent = text;
    return made;
  }

  /* A logarithmic axis from pixels to pixels that covers all values, with a little room at both ends. */
  function axis(values, from, to) {
    const low = Math.log2(Math.min(...values)) - 0.5, high = Math.log2(Math.max(...values)) + 0.5;
    return (value) => from + (Math.log2(value) - low) / (high - low) * (to - from);
  }

  function create(data, move) {
    const lines = Object.entries(data.crossings).filter(([, points]) => points.length);
    const all = (column) => lines.flatMap(([, points]) => points.map((point) => point[column])).filter(Boolean);
    const x = axis([...data.d_k, ...all(1)], LEFT, WIDE - RIGHT);
    const y = axis([...data.n_keys, ...all(0)], HIGH - BOTTOM, TOP);
    const path = (points) => points.map(([n, d], i) => `${i ? "L" : "M"}${x(d).toFixed(1)} ${y(n).toFixed(1)}`).join("");
    const position = ([n, law, measured]) => [n, law ?? measured];

    for (const [name, found] of lines) {
      const points = found.map(position).filter(([, d]) => d);
      if (!points.length) continue;
      const [first, last] = [points[0], points.at(-1)];
      svg.append(element("path", { class: "larger", d: `${path(points)}L${WIDE - RIGHT} ${y(last[0])}V${y(first[0])}z` }));
      if (name === "jacobian") {
        svg.append(
          element("text", { class: "region", x: WIDE - RIGHT - 6, y: y(first[0]) - 6, "text-anchor": "end" }, "larger"),
          element("text", { x: LEFT + 8, y: y(last[0]) + 16 }, "smaller"),
        );
      }
      svg.append(element("path", { class: `line ${name}`, d: path(points) }));
      for (const [n, , d, low, high] of found) {
        if (!d) continue;
        if (low && high) svg.append(element("path", { class: `interval ${name}`, d: path([[n, low], [n, high]]) }));
        svg.append(element("circle", { class: `measured ${name}`, cx: x(d), cy: y(n), r: 3 }));
      }
      const [n, d] = points.at(-1);
      svg.append(element("text", { class: name, x: Math.min(x(d), WIDE - 24), y: y(n) - 8, "text-anchor": "middle" }, NAMES[name]));
    }
    const sparse = (values, room) => values.filter((_, i) => values.length <= room || (values.length - 1 - i) % 2 === 0);
    svg.append(element("path", { class: "axes", d: `M${LEFT} ${TOP}V${HIGH - BOTTOM}H${WIDE - RIGHT}` }));
    for (const d of sparse(data.d_k, 6)) svg.append(element("text", { x: x(d), y: HIGH - BOTTOM + 15, "text-anchor": "middle" }, d));
    for (const n of sparse(data.n_keys, 8)) svg.append(element("text", { x: LEFT - 6, y: y(n) + 4, "text-anchor": "end" }, n));
    svg.append(element("text", { x: WIDE - RIGHT, y: HIGH - 4, "text-anchor": "end" }, "width →"));
    svg.append(element("text", { x: 0, y: 12 }, "↑ keys"));
    for (const d of data.d_k) for (const n of data.n_keys) svg.append(element("circle", { class: "choice", cx: x(d), cy: y(n), r: 1.6 }));
    const you = element("g", { class: "you" });
    const label = element("text", {}, "here");
    you.append(element("circle", { r: 6.5 }), label);
    svg.append(you);

    let now = data.start;
    const nearest = (values, place, at) => values.reduce((best, value) => (Math.abs(place(value) - at) < Math.abs(place(best) - at) ? value : best));
    const beside = (values, value, step) => values[Math.max(0, Math.min(values.length - 1, values.indexOf(value) + step))];

    svg.addEventListener("click", (event) => {
      const box = svg.getBoundingClientRect();
      move(
        nearest(data.d_k, x, (event.clientX - box.left) / box.width * WIDE),
        nearest(data.n_keys, y, (event.clientY - box.top) / box.height * HIGH),
      );
    });
    const STEPS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowDown: [0, -1], ArrowUp: [0, 1] };
    svg.addEventListener("keydown", (event) => {
      if (!(event.key in STEPS)) return;
      event.preventDefault();
      const [dx, dy] = STEPS[event.key];
      move(beside(data.d_k, now[0], dx), beside(data.n_keys, now[1], dy));
    });

    return (d_k, n_keys) => {
      now = [d_k, n_keys];
      you.setAttribute("transform", `translate(${x(d_k)} ${y(n_keys)})`);
      // Above the point, but beside it in the top row, where the lines have their names.
      const side = d_k === Math.max(...data.d_k) ? -1 : 1;
      const [dx, dy, anchor] = n_keys === Math.max(...data.n_keys) ? [11 * side, 7, side < 0 ? "end" : "start"] : [0, -11, "middle"];
      for (const [key, value] of Object.entries({ x: dx, y: dy, "text-anchor": anchor })) label.setAttribute(key, value);
      svg.setAttribute("aria-valuenow", data.d_k.indexOf(d_k) + data.d_k.length * data.n_keys.indexOf(n_keys));
      svg.setAttribute("aria-valuetext", `d_k ${d_k}, ${n_keys} keys`);
    };
  }

  /* The d_k of equal medians at a number of keys: measured, or by the law, or between two neighbours of a line. */
  function crossing(points, n_keys) {
    const known = points.map(([n, law, measured]) => [n, measured ?? law]).filter(([, d]) => d);
    const above = known.findIndex(([n]) => n >= n_keys);
    if (above < 0) return null;
    const [n1, d1] = known[above];
    if (n1 === n_keys) return d1;
    if (!above) return null;
    const [n0, d0] = known[above - 1];
    return d0 * (d1 / d0) ** (Math.log(n_keys / n0) / Math.log(n1 / n0));
  }

  /* The size of a median under √d_k against the unscaled one; a law or a line between neighbours may miss the crossing by some percent. */
  const compared = (d_k, crossing) => (d_k === 1 ? "about as large" : size(d_k / crossing, 0.05));

  /* A ratio in words, with an allowance for the errors of measured medians. */
  function size(ratio, allowance = 0.25) {
    if (Math.abs(Math.log(ratio)) < allowance) return "about as large";
    return ratio > 1 ? "larger" : "smaller";
  }

  return Object.freeze({ create, crossing, compared, size });
})();
