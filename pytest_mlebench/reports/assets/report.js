"use strict";
// Sorts and filters the table of runs. Without this script, the page is complete.
const openRows = new Set(); // ids of rows with open details
let listeners = new AbortController(); // removes the listeners of a replaced table

function initRuns(again = false) {
  const table = document.getElementById("table");
  if (!table) return;
  listeners.abort();
  listeners = new AbortController();
  const { signal } = listeners;
  const form = document.getElementById("filters");
  const count = document.getElementById("count");
  const groups = [...table.tBodies].map((body) => ({ body, head: body.rows[0], rows: [...body.rows].slice(1) }));
  const rows = groups.flatMap((group) => group.rows);
  const chips = [...form.querySelectorAll("[name=outcome]")];
  const flatBody = table.createTBody(); // the runs, unless they are ordered by competition
  const detailRows = new Map(); // rows with open details, and the row below with these
  const cell = (row, name) => row.getElementsByClassName(name)[0].textContent;
  const rowData = new Map(
    groups.flatMap(({ body, rows }) =>
      rows.map((row) => [
        row,
        {
          split: body.dataset.split,
          category: body.dataset.category,
          agent: cell(row, "agent"),
          ending: row.dataset.ending,
          outcome: row.dataset.outcome,
          text: `${body.rows[0].textContent} ${row.textContent}`.toLowerCase(),
        },
      ]),
    ),
  );
  const headers = new Map(
    [...table.tHead.rows[0].cells].filter((header) => !header.matches(".last, .thresholds"))
      .map((header) => [header.classList[0], header]),
  );

  function matches(row, { text, outcome, sort, ...others }) {
    const data = rowData.get(row);
    const outcomes = outcome.split(",");
    if (outcome && !outcomes.includes(data.outcome) && !(outcomes.includes("any") && "medal" in row.dataset)) return false;
    if (Object.entries(others).some(([name, value]) => value && data[name] !== value)) return false;
    return text.toLowerCase().split(/\s+/).every((word) => data.text.includes(word));
  }

  function chosenFilters() {
    const fields = [...form.elements].filter((field) => field.name && field.type !== "checkbox");
    const chosen = Object.fromEntries(fields.map((field) => [field.name, field.value]));
    chosen.outcome = chips.filter((chip) => chip.checked).map((chip) => chip.value).join(",");
    return chosen;
  }

  function filter() {
    const chosen = chosenFilters();
    let shown = 0;
    for (const { head, rows } of groups) {
      let any = false;
      for (const row of rows) {
        row.hidden = !matches(row, chosen);
        any ||= !row.hidden;
        shown += !row.hidden;
        if (detailRows.has(row)) detailRows.get(row).hidden = row.hidden;
      }
      head.hidden = !any;
    }
    const runs = rows.length === 1 ? "run" : "runs";
    count.textContent = shown === rows.length ? `${shown} ${runs}` : `${shown} of ${rows.length} ${runs}`;
    form.querySelector("[type=reset]").hidden = !Object.values(chosen).some(Boolean);
    sort(chosen.sort);
  }

  const positions = new Map([...table.tHead.rows[0].cells].map((header, index) => [header.classList[0], index]));
  function addCell(row, name, ...content) {
    const added = row.insertCell(positions.get(name));
    added.className = name;
    added.append(...content);
  }

  let sorted = "";
  function sort(order) {
    if (order === sorted) return;
    sorted = order;
    const name = order.replace("-", "");
    const sign = order.startsWith("-") ? -1 : 1;
    for (const [key, header] of headers) {
      if (key === name) header.setAttribute("aria-sort", sign > 0 ? "ascending" : "descending");
      else header.removeAttribute("aria-sort");
    }
    const withDetails = (row) => (detailRows.has(row) ? [row, detailRows.get(row)] : [row]);
    table.classList.toggle("flat", order !== "");
    for (const { body, head, rows } of groups) {
      if (order === "") body.append(...rows.flatMap(withDetails));
      else if (!rows[0].querySelector(".competition")) {
        for (const row of rows) {
          addCell(row, "competition", body.dataset.id);
          addCell(row, "thresholds", ...head.querySelector(".thresholds").cloneNode(true).childNodes);
        }
      }
      body.hidden = order !== "";
    }
    if (order === "") return;
    const keys = new Map(
      rows.map((row) => {
        const cell = row.getElementsByClassName(name)[0];
        if (name === "seed") return [row, Number(cell.textContent)];
        if (!("v" in cell.dataset)) return [row, cell.textContent];
        return [row, cell.dataset.v === "" ? null : Number(cell.dataset.v.replace("inf", "Infinity"))];
      }),
    );
    const inOrder = [...rows].sort((one, other) => {
      const [a, b] = [keys.get(one), keys.get(other)];
      if (a === null || b === null) return (a === null) - (b === null); // rows without a value come last in both directions
      return sign * (typeof a === "number" ? Math.sign(a - b) || 0 : a.localeCompare(b));
    });
    flatBody.append(...inOrder.flatMap(withDetails));
  }

  function toggleDetails(details) {
    const row = details.closest("tr");
    if (details.open === detailRows.has(row)) return;
    if (details.open) {
      const below = document.createElement("tr");
      below.className = "more-row";
      const cell = below.insertCell();
      cell.colSpan = row.cells.length;
      cell.className = "unfolded";
      cell.append(details.querySelector(".more"));
      row.after(below);
      detailRows.set(row, below);
    } else {
      details.append(detailRows.get(row).querySelector(".more"));
      detailRows.get(row).remove();
      detailRows.delete(row);
    }
    row.classList.toggle("opened", details.open);
    if (details.open) openRows.add(row.id);
    else openRows.delete(row.id);
  }

  function applyFilters(params) {
    for (const field of form.elements) {
      if (!field.name || field.type === "checkbox") continue;
      field.value = params.get(field.name) ?? "";
      if (field.selectedIndex === -1) field.value = "";
    }
    const outcomes = (params.get("outcome") ?? "").split(",");
    for (const chip of chips) chip.checked = outcomes.includes(chip.value);
    filter();
  }

  function showRun(id) {
    const row = document.getElementById(id);
    if (!rows.includes(row)) return;
    if (row.hidden) applyFilters(new URLSearchParams());
    const details = row.querySelector("details");
    details.open = true;
    toggleDetails(details);
    row.scrollIntoView({ block: "center" });
    details.querySelector("summary").focus({ preventScroll: true });
  }

  // The URL fragment is a run (#run-…), a section (#runs), or filters and sort order (#agent=aide&sort=-score).
  function followFragment(again = false) {
    const hash = location.hash.slice(1);
    if (hash.startsWith("run-") && !again) {
      try {
        showRun(decodeURIComponent(hash));
      } catch {
        return; // not a fragment that this page created
      }
    } else if (hash === "" || hash.includes("=")) {
      applyFilters(new URLSearchParams(hash));
      if (hash && !again) document.getElementById("runs").scrollIntoView();
    }
  }

  function updateFragment(method) {
    const params = new URLSearchParams(Object.entries(chosenFilters()).filter(([, value]) => value));
    try {
      history[method](null, "", `#${params.size ? params : "runs"}`);
    } catch {
      return; // a frame without a URL
    }
  }

  function filterChanged(method) {
    filter();
    updateFragment(method);
  }

  for (const [name, header] of headers) {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...header.childNodes);
    button.addEventListener("click", () => {
      form.elements.sort.value = form.elements.sort.value === name ? `-${name}` : name;
      filterChanged("pushState");
    });
    header.append(button);
    for (const [sign, arrow] of [["", "↑"], ["-", "↓"]]) {
      form.elements.sort.append(new Option(`${button.textContent.toLowerCase()} ${arrow}`, sign + name));
    }
  }
  function updateFocusable() { // makes wide panels scrollable with the keyboard
    for (const panel of document.getElementsByClassName("panel")) {
      if (panel.scrollWidth > panel.clientWidth) panel.setAttribute("tabindex", "0");
      else panel.removeAttribute("tabindex");
    }
  }
  updateFocusable();
  addEventListener("resize", updateFocusable, { signal });
  form.hidden = false;
  form.addEventListener("input", (event) => filterChanged(event.target.name === "text" ? "replaceState" : "pushState"));
  form.addEventListener("reset", () => setTimeout(() => filterChanged("pushState")));
  form.addEventListener("submit", (event) => event.preventDefault());
  table.addEventListener("toggle", (event) => toggleDetails(event.target), true);
  addEventListener("hashchange", () => followFragment(), { signal });
  document.addEventListener("click", (event) => {
    const mark = event.target.closest("[data-run]");
    if (!mark) return;
    const address = `#${encodeURIComponent(rows[mark.dataset.run].id)}`;
    if (location.hash === address) followFragment();
    else location.hash = address;
  }, { signal });
  for (const row of rows.filter(({ id }) => openRows.has(id))) row.querySelector("details").open = true;
  followFragment(again);
}
initRuns();
addEventListener("refreshed", () => initRuns(true)); // the viewer replaces the table of a live group
