"use strict";
// The table is complete without this script, but cannot be filtered or sorted.
const table = document.getElementById("board");
const form = document.getElementById("filters");
const body = table.tBodies[0];
const rows = [...body.rows];
const headers = new Map(
  [...table.tHead.rows[0].cells].filter((header) => !header.matches(".last, .reasons"))
    .map((header) => [header.classList[0], header]),
);
const texts = new Map(rows.map((row) => [row, row.textContent.toLowerCase()]));
let sorted = ""; // a column's name, with "-" before it if descending

function chosen() {
  const found = new FormData(form);
  if (sorted) found.set("sort", sorted);
  return new URLSearchParams([...found].filter(([, value]) => value));
}

function matches(row, wanted) {
  const { classList, dataset } = row;
  if (classList.contains("apart") && !wanted.has("apart")) return false;
  if (classList.contains("reported") && wanted.has("unreported")) return false;
  for (const name of ["split", "data", "time"]) {
    if (wanted.get(name) && dataset[name] !== wanted.get(name)) return false;
  }
  const words = (wanted.get("text") ?? "").toLowerCase().split(/\s+/);
  return words.every((word) => texts.get(row).includes(word));
}

function show() {
  const wanted = chosen();
  for (const row of rows) row.hidden = !matches(row, wanted);
  const shown = rows.filter((row) => !row.hidden).length;
  const apart = rows.filter((row) => row.hidden && row.classList.contains("apart")).length;
  const hidden = wanted.has("apart") || !apart ? "" : `, ${apart} not comparable and hidden`;
  document.getElementById("count").textContent = `${shown} of ${rows.length} row${rows.length === 1 ? "" : "s"}${hidden}`;
}

function key(row, name) {
  const cell = row.getElementsByClassName(name)[0];
  if (!("v" in cell.dataset)) return cell.firstChild.textContent.trim();
  return cell.dataset.v === "" ? null : Number(cell.dataset.v);
}

function sort(order) {
  sorted = order;
  const name = order.replace("-", "");
  const sign = order.startsWith("-") ? -1 : 1;
  for (const [column, header] of headers) {
    if (column === name) header.setAttribute("aria-sort", sign > 0 ? "ascending" : "descending");
    else header.removeAttribute("aria-sort");
  }
  const keys = new Map(order ? rows.map((row) => [row, key(row, name)]) : []);
  const inOrder = !order ? rows : [...rows].sort((one, other) => {
    const [a, b] = [keys.get(one), keys.get(other)];
    if (a === null || b === null) return (a === null) - (b === null); // rows without a value are always last
    return sign * (typeof a === "number" ? a - b : a.localeCompare(b));
  });
  body.append(...inOrder);
}

// The URL contains the filters and the order: #split=low&sort=-any_medal.
function remember(method) {
  try {
    history[method](null, "", `#${String(chosen()) || "results"}`);
  } catch {
    return; // a frame without its own URL
  }
}

function follow() {
  const hash = location.hash.slice(1);
  if (hash && !hash.includes("=")) return;
  const params = new URLSearchParams(hash);
  for (const field of form.elements) {
    if (field.type === "checkbox") field.checked = params.has(field.name);
    else if (field.name) field.value = params.get(field.name) ?? "";
    if (field.selectedIndex === -1) field.value = "";
  }
  const order = params.get("sort") ?? "";
  sort(headers.has(order.replace("-", "")) ? order : "");
  show();
}

for (const [name, header] of headers) {
  const button = document.createElement("button");
  button.type = "button";
  button.append(...header.childNodes);
  const first = header.matches(".figure:not(.rank)") ? ["-", ""] : ["", "-"]; // highest rates first
  button.addEventListener("click", () => {
    sort(sorted === first[0] + name ? first[1] + name : first[0] + name);
    remember("pushState");
  });
  header.append(button);
}
form.hidden = false;
form.addEventListener("input", (event) => {
  show();
  remember(event.target.name === "text" ? "replaceState" : "pushState");
});
form.addEventListener("reset", () => setTimeout(() => {
  sort("");
  show();
  remember("pushState");
}));
form.addEventListener("submit", (event) => event.preventDefault());
addEventListener("hashchange", follow);
addEventListener("popstate", follow);
follow();
show();
