"use strict";

/* The filters of published statements, tables to save, and details that open for printing. */
(() => {
  const SHOWN = 12; // entries before "show all"
  const list = document.getElementById("entries");
  if (list) {
    const entries = [...list.children];
    const controls = Object.fromEntries(["search", "verdict", "severity", "source", "order"].map((id) => [id, document.getElementById(id)]));
    const more = document.getElementById("more");
    const count = document.getElementById("count");
    const searched = (text) => text.toLowerCase().replace(/[_^]/g, ""); // "d_k^1/2" finds d with an index and a power
    const texts = new Map(entries.map((entry) => [entry, searched(entry.textContent)]));
    const statement = (entry) => entry.querySelector(".says").textContent;
    const ORDERS = {
      rank: (a, b) => a.dataset.rank - b.dataset.rank,
      source: (a, b) => a.dataset.sources.localeCompare(b.dataset.sources, "en"),
      statement: (a, b) => statement(a).localeCompare(statement(b), "en"),
    };
    let all = false;

    const matches = (entry) =>
      (!controls.verdict.value || entry.dataset.verdict === controls.verdict.value) &&
      (!controls.severity.value || entry.dataset.severity === controls.severity.value) &&
      (!controls.source.value || entry.dataset.sources.split("|").includes(controls.source.value)) &&
      searched(controls.search.value).split(/\s+/).every((word) => texts.get(entry).includes(word));

    function show() {
      const found = entries.filter(matches).sort(ORDERS[controls.order.value]);
      const shown = all ? found : found.slice(0, SHOWN);
      list.replaceChildren(...shown);
      count.textContent = `${found.length} of ${entries.length} entries${shown.length < found.length ? `, the first ${shown.length} shown` : ""}`;
      more.hidden = shown.length === found.length;
    }

    for (const control of Object.values(controls)) {
      control.addEventListener("input", () => {
        all = false;
        show();
      });
    }
    more.addEventListener("click", () => {
      all = true;
      show();
      list.children[SHOWN].tabIndex = -1;
      list.children[SHOWN].focus();
    });
    show();
  }

  /* The names of tables that the page contains become buttons that save them. */
  const tables = new Map([...document.querySelectorAll("script[data-table]")].map((table) => [table.dataset.table, table]));

  async function save(name) {
    const packed = Uint8Array.from(atob(tables.get(name).textContent), (character) => character.charCodeAt(0));
    const unpacked = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
    const file = new Blob([await new Response(unpacked).arrayBuffer()], { type: "text/csv" });
    const link = document.createElement("a");
    link.href = URL.createObjectURL(file);
    link.download = name.replaceAll("/", "-");
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60_000); // some browsers start the download late
  }

  if ("DecompressionStream" in window) {
    document.getElementById("cannot-save").hidden = true;
    for (const name of document.querySelectorAll("span.csv")) {
      if (!tables.has(name.textContent)) continue;
      const button = document.createElement("button");
      Object.assign(button, { type: "button", className: "csv", textContent: name.textContent, title: "Save this table" });
      button.addEventListener("click", () => save(button.textContent));
      name.replaceWith(button);
    }
  }

  const closed = () => document.querySelectorAll(".board details:not([open]), .answers details:not([open]), .finding details:not([open])");
  let opened = [];
  addEventListener("beforeprint", () => {
    opened = [...closed()];
    for (const details of opened) details.open = true;
  });
  addEventListener("afterprint", () => {
    for (const details of opened) details.open = false;
  });
})();
