"use strict";
// Without this script the page is complete, but neither filtered nor sorted.
const table = document.getElementById("table");
const body = table.tBodies[0];
const rows = [...body.rows];
const form = document.getElementById("filters");
const count = document.getElementById("count");
const texts = new Map(rows.map((row) => [row, row.textContent.toLowerCase()]));
const unfolded = new Map(); // a row's details, in a row of their own below it

function matches(row, wanted) {
  const { text, outcome, ...others } = wanted;
  if (outcome && !(outcome === "any" ? "medal" in row.dataset : row.dataset.outcome === outcome)) return false;
  if (Object.entries(others).some(([name, value]) => value && row.dataset[name] !== value)) return false;
  return text.toLowerCase().split(/\s+/).every((word) => texts.get(row).includes(word));
}

function filter() {
  const wanted = Object.fromEntries(new FormData(form));
  let shown = 0;
  for (const row of rows) {
    row.hidden = !matches(row, wanted);
    shown += !row.hidden;
    if (unfolded.has(row)) unfolded.get(row).hidden = row.hidden;
  }
  count.textContent = shown === rows.length ? `${shown} runs` : `${shown} of ${rows.length} runs`;
}

function sort(index, header) {
  const sign = header.getAttribute("aria-sort") === "ascending" ? -1 : 1;
  for (const other of header.parentElement.cells) other.removeAttribute("aria-sort");
  header.setAttribute("aria-sort", sign > 0 ? "ascending" : "descending");
  const key = (row) => {
    const cell = row.cells[index];
    if (!("v" in cell.dataset)) return cell.textContent;
    return cell.dataset.v === "" ? null : Number(cell.dataset.v.replace("inf", "Infinity"));
  };
  const keys = new Map(rows.map((row) => [row, key(row)]));
  rows.sort((one, other) => {
    const [a, b] = [keys.get(one), keys.get(other)];
    if (a === null || b === null) return (a === null) - (b === null); // what has no value comes last either way
    return sign * (typeof a === "number" ? Math.sign(a - b) || 0 : a.localeCompare(b));
  });
  body.append(...rows.flatMap((row) => (unfolded.has(row) ? [row, unfolded.get(row)] : [row])));
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
}

function show(id) {
  const row = document.getElementById(id);
  if (!rows.includes(row)) return;
  if (row.hidden) {
    form.reset();
    filter();
  }
  const details = row.querySelector("details");
  details.open = true;
  fold(details);
  row.scrollIntoView({ block: "center" });
  details.querySelector("summary").focus({ preventScroll: true });
}

function hash() {
  try {
    return decodeURIComponent(location.hash.slice(1));
  } catch {
    return "";
  }
}

[...table.tHead.rows[0].cells].forEach((header, index, all) => {
  if (index === all.length - 1) return;
  const button = document.createElement("button");
  button.type = "button";
  button.append(...header.childNodes);
  button.addEventListener("click", () => sort(index, header));
  header.append(button);
});
form.hidden = false;
form.addEventListener("input", filter);
form.addEventListener("reset", () => setTimeout(filter));
form.addEventListener("submit", (event) => event.preventDefault());
body.addEventListener("toggle", (event) => fold(event.target), true);
addEventListener("hashchange", () => show(hash()));
document.addEventListener("click", (event) => {
  const cell = event.target.closest("[data-run]");
  if (cell) location.hash = `run-${cell.dataset.run}`;
});
filter();
if (location.hash) show(hash());
