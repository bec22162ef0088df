"use strict";
// Without this script the page is complete, but neither filtered nor sorted.
const openRows = new Set(); // rows whose details are unfolded
let ended = new AbortController(); // of the listeners to a table that is exchanged

function furnishRuns(again = false) {
  const table = document.getElementById("table");
  if (!table) return;
  ended.abort();
  ended = new AbortController();
  const { signal } = ended;
  const form = document.getElementById("filters");
  const count = document.getElementById("count");
  const groups = [...table.tBodies].map((body) => ({ body, head: body.rows[0], rows: [...body.rows].slice(1) }));
  const rows = groups.flatMap((group) => group.rows);
  const chips = [...form.querySelectorAll("[name=outcome]")];
  const flat = table.createTBody(); // the runs in another order than by competition
  const unfolded = new Map(); // a row's details, in a row of their own below it
  const cell = (row, name) => row.getElementsByClassName(name)[0].textContent;
  const facts = new Map(
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
    const own = facts.get(row);
    const wanted = outcome.split(",");
    if (outcome && !wanted.includes(own.outcome) && !(wanted.includes("any") && "medal" in row.dataset)) return false;
    if (Object.entries(others).some(([name, value]) => value && own[name] !== value)) return false;
    return text.toLowerCase().split(/\s+/).every((word) => own.text.includes(word));
  }

  function wanted() {
    const fields = [...form.elements].filter((field) => field.name && field.type !== "checkbox");
    const chosen = Object.fromEntries(fields.map((field) => [field.name, field.value]));
    chosen.outcome = chips.filter((chip) => chip.checked).map((chip) => chip.value).join(",");
    return chosen;
  }

  function filter() {
    const chosen = wanted();
    let shown = 0;
    for (const { head, rows } of groups) {
      let any = false;
      for (const row of rows) {
        row.hidden = !matches(row, chosen);
        any ||= !row.hidden;
        shown += !row.hidden;
        if (unfolded.has(row)) unfolded.get(row).hidden = row.hidden;
      }
      head.hidden = !any;
    }
    const runs = rows.length === 1 ? "run" : "runs";
    count.textContent = shown === rows.length ? `${shown} ${runs}` : `${shown} of ${rows.length} ${runs}`;
    form.querySelector("[type=reset]").hidden = !Object.values(chosen).some(Boolean);
    sort(chosen.sort);
  }

  const positions = new Map([...table.tHead.rows[0].cells].map((header, index) => [header.classList[0], index]));
  function add(row, name, ...content) {
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
    const withDetails = (row) => (unfolded.has(row) ? [row, unfolded.get(row)] : [row]);
    table.classList.toggle("flat", order !== "");
    for (const { body, head, rows } of groups) {
      if (order === "") body.append(...rows.flatMap(withDetails));
      else if (!rows[0].querySelector(".competition")) {
        for (const row of rows) {
          add(row, "competition", body.dataset.id);
          add(row, "thresholds", ...head.querySelector(".thresholds").cloneNode(true).childNodes);
        }
      }
      body.hidden = order !== "";
    }
    if (order === "") return;
    const keys = new Map(
      rows.map((row) => {
        const own = row.getElementsByClassName(name)[0];
        if (name === "seed") return [row, Number(own.textContent)];
        if (!("v" in own.dataset)) return [row, own.textContent];
        return [row, own.dataset.v === "" ? null : Number(own.dataset.v.replace("inf", "Infinity"))];
      }),
    );
    const inOrder = [...rows].sort((one, other) => {
      const [a, b] = [keys.get(one), keys.get(other)];
      if (a === null || b === null) return (a === null) - (b === null); // what has no value comes last either way
      return sign * (typeof a === "number" ? Math.sign(a - b) || 0 : a.localeCompare(b));
    });
    flat.append(...inOrder.flatMap(withDetails));
  }

  function fold(details) {
    const row = details.closest("tr");
    if (details.open === unfolded.has(row)) return;
    if (details.open) {
      const below = document.createElement("tr");
      below.className = "more-row";
      const cell = below.insertCell();
      cell.colSpan = row.cells.length;
      cell.className = "unfolded";
      cell.append(details.querySelector(".more"));
      row.after(below);
      unfolded.set(row, below);
    } else {
      details.append(unfolded.get(row).querySelector(".more"));
      unfolded.get(row).remove();
      unfolded.delete(row);
    }
    row.classList.toggle("opened", details.open);
    if (details.open) openRows.add(row.id);
    else openRows.delete(row.id);
  }

  function fill(given) {
    for (const field of form.elements) {
      if (!field.name || field.type === "checkbox") continue;
      field.value = given.get(field.name) ?? "";
      if (field.selectedIndex === -1) field.value = "";
    }
    const outcomes = (given.get("outcome") ?? "").split(",");
    for (const chip of chips) chip.checked = outcomes.includes(chip.value);
    filter();
  }

  function show(id) {
    const row = document.getElementById(id);
    if (!rows.includes(row)) return;
    if (row.hidden) fill(new URLSearchParams());
    const details = row.querySelector("details");
    details.open = true;
    fold(details);
    row.scrollIntoView({ block: "center" });
    details.querySelector("summary").focus({ preventScroll: true });
  }

  // The address names a run (#run-…), a part of the page (#runs), or the filters and the order (#agent=aide&sort=-score).
  function follow(again = false) {
    const hash = location.hash.slice(1);
    if (hash.startsWith("run-") && !again) {
      try {
        show(decodeURIComponent(hash));
      } catch {
        return; // no address that this page has made
      }
    } else if (hash === "" || hash.includes("=")) {
      fill(new URLSearchParams(hash));
      if (hash && !again) document.getElementById("runs").scrollIntoView();
    }
  }

  function remember(method) {
    const given = new URLSearchParams(Object.entries(wanted()).filter(([, value]) => value));
    try {
      history[method](null, "", `#${given.size ? given : "runs"}`);
    } catch {
      return; // a frame without an address of its own
    }
  }

  function change(method) {
    filter();
    remember(method);
  }

  for (const [name, header] of headers) {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...header.childNodes);
    button.addEventListener("click", () => {
      form.elements.sort.value = form.elements.sort.value === name ? `-${name}` : name;
      change("pushState");
    });
    header.append(button);
    for (const [sign, arrow] of [["", "↑"], ["-", "↓"]]) {
      form.elements.sort.append(new Option(`${button.textContent.toLowerCase()} ${arrow}`, sign + name));
    }
  }
  function reach() { // whoever uses the keyboard scrolls what is too wide
    for (const panel of document.getElementsByClassName("panel")) {
      if (panel.scrollWidth > panel.clientWidth) panel.setAttribute("tabindex", "0");
      else panel.removeAttribute("tabindex");
    }
  }
  reach();
  addEventListener("resize", reach, { signal });
  form.hidden = false;
  form.addEventListener("input", (event) => change(event.target.name === "text" ? "replaceState" : "pushState"));
  form.addEventListener("reset", () => setTimeout(() => change("pushState")));
  form.addEventListener("submit", (event) => event.preventDefault());
  table.addEventListener("toggle", (event) => fold(event.target), true);
  addEventListener("hashchange", () => follow(), { signal });
  document.addEventListener("click", (event) => {
    const mark = event.target.closest("[data-run]");
    if (!mark) return;
    const address = `#${encodeURIComponent(rows[mark.dataset.run].id)}`;
    if (location.hash === address) follow();
    else location.hash = address;
  }, { signal });
  for (const row of rows.filter((own) => openRows.has(own.id))) row.querySelector("details").open = true;
  follow(again);
}
furnishRuns();
addEventListener("refreshed", () => furnishRuns(true)); // the viewer exchanges the table of a live group
