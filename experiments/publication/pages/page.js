"use strict";

/* The search in published statements, the questions, and sections that open for printing and for links. */
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
  const quiz = document.querySelector("#quiz form");
  quiz?.addEventListener("submit", (event) => {
    event.preventDefault();
    const asked = [...quiz.querySelectorAll("fieldset")];
    const chosen = asked.map((question) => question.querySelector("input:checked"));
    asked.forEach((question, i) => {
      const told = question.querySelector(".told");
      const right = question.querySelector("[data-right]").parentElement.textContent.trim();
      told.hidden = !chosen[i];
      told.firstElementChild.textContent = chosen[i] && "right" in chosen[i].dataset ? "Right." : `No: ${right}.`;
    });
    const score = chosen.filter((choice) => choice && "right" in choice.dataset).length;
    document.getElementById("score").textContent = `${score} right, ${chosen.filter((choice) => !choice).length} open, of ${asked.length}`;
  });
  addEventListener("beforeprint", () => {
    for (const details of document.querySelectorAll("#strip details, .look, .sweep details")) details.open = true;
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
