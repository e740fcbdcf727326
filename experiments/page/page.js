"use strict";

/* The search in published statements, meanings of terms, the quiz, and sections that open for printing and for links. */
(() => {
  const search = document.getElementById("search");
  const plain = (text) => text.toLowerCase().replace(/[_^]/g, ""); // "d_k^1/2" finds d with an index and a power
  search?.addEventListener("input", () => {
    const wanted = plain(search.value).split(/\s+/);
    let count = 0;
    for (const group of document.querySelectorAll("#statements > details")) {
      const entries = [...group.querySelectorAll("li")];
      for (const entry of entries) entry.hidden = !wanted.every((word) => plain(entry.textContent).includes(word));
      const found = entries.filter((entry) => !entry.hidden).length;
      group.hidden = !found;
      group.open = search.value !== "";
      count += found;
    }
    document.getElementById("count").textContent = `${count} entries`;
  });
  /* A meaning stays within the window. */
  const MARGIN = 16;
  const place = ({ target }) => {
    if (!target.matches?.("dfn")) return;
    const { left } = target.getBoundingClientRect();
    const wide = parseFloat(getComputedStyle(target, "::after").width);
    target.style.setProperty("--left", `${Math.min(0, document.documentElement.clientWidth - MARGIN - wide - left)}px`);
  };
  for (const event of ["pointerover", "focusin"]) document.addEventListener(event, place);
  addEventListener("keydown", ({ key }) => key === "Escape" && document.activeElement.blur());
  /* The choice of an answer shows the reason. */
  document.querySelector(".quiz")?.addEventListener("change", ({ target }) => {
    const details = target.closest("fieldset").querySelector("details");
    details.querySelector("[role=status]").textContent = "right" in target.dataset ? "Yes:" : "No:";
    details.open = true;
  });
  addEventListener("beforeprint", () => {
    for (const details of document.querySelectorAll("#numbers details, .cards details, .quiz details, .look, .sweep details")) details.open = true;
  });
  /* A link to a closed section opens it. */
  const open = () => {
    const at = document.getElementById(location.hash.slice(1));
    const details = at?.closest("details") ?? at?.querySelector(":scope > details");
    if (details) details.open = true;
  };
  addEventListener("hashchange", open);
  open();
})();
