"use strict";

/* Numbers and formulas as text. */
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

  /* Put a text into an element, with d_k and |J|_F as letters with an index, √d_k as a root and d_k^(1/3) as a power. */
  function typeset(element, text) {
    const whole = text.replace(/\(?\|∂L\/∂q\|\)?/g, '<span class="nowrap">$&</span>').replace(/√(d_k)/g, '√<span class="root">$1</span>');
    element.innerHTML = whole.replace(/(d|\|J\|)_([kF])/g, "$1<sub>$2</sub>").replace(/\^\(?([−\d./]+)\)?/g, "<sup>$1</sup>");
  }

  return Object.freeze({ digits, plain, keys, typeset });
})();
