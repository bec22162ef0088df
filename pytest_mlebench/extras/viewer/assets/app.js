"use strict";
// Pages are complete without this script. It sorts, filters and copies tables, refreshes pages and handles keys.
(() => {
  const root = document.documentElement;
  const store = {
    get(key) { try { return localStorage.getItem(key); } catch { return null; } },
    set(key, value) { try { localStorage.setItem(key, value); } catch { return; } },
  };
  const THEMES = ["", "light", "dark"];
  const theme = () => (THEMES.includes(store.get("theme")) ? store.get("theme") : "");
  const paint = () => { if (theme()) root.dataset.theme = theme(); else delete root.dataset.theme; };
  paint();

  function say(text) {
    document.getElementById("said").textContent = text;
    document.querySelector(".toast")?.remove();
    const toast = Object.assign(document.createElement("div"), { className: "toast", textContent: text });
    document.body.append(toast);
    setTimeout(() => toast.remove(), 2200);
  }

  // Shows times relative to now, and the date in the reader's time zone as a tooltip
  const format = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });
  const relative = new Intl.RelativeTimeFormat("en", { numeric: "auto", style: "short" });
  const UNITS = [["year", 31557600], ["month", 2629800], ["week", 604800], ["day", 86400], ["hour", 3600], ["minute", 60]];
  function ago(moment) {
    const seconds = (moment.getTime() - Date.now()) / 1000;
    const [unit, size] = UNITS.find(([, length]) => Math.abs(seconds) >= length) ?? ["second", 1];
    return relative.format(Math.trunc(seconds / size), unit);
  }
  function times(within) {
    for (const own of within.querySelectorAll("time:not([title])")) {
      const moment = new Date(own.dateTime);
      if (Number.isNaN(moment.getTime())) continue;
      own.title = format.format(moment);
      own.textContent = ago(moment);
    }
  }
  const clock = (seconds) => {
    const [h, m, s] = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60, Math.floor(seconds) % 60];
    const two = (n) => String(n).padStart(2, "0");
    return h ? `${h}:${two(m)}:${two(s)}` : `${m}:${two(s)}`;
  };
  function tick() {
    const now = Date.now() / 1000;
    for (const own of document.querySelectorAll("[data-clock]")) own.textContent = clock(Math.max(0, now - own.dataset.clock));
    for (const own of document.querySelectorAll("[data-left]")) own.textContent = clock(Math.max(0, own.dataset.left - now));
  }

  // Tables: order, filter, columns, copies. The choices are in the URL, so that a reader can share them.
  const state = new URLSearchParams(location.hash.startsWith("#t.") ? location.hash.slice(1) : "");
  const rowsOf = (table) => [...table.tBodies[0].rows];
  function remember(key, value) {
    if (value) state.set(`t.${key}`, value); else state.delete(`t.${key}`);
    history.replaceState(null, "", state.size ? `#${state}` : location.pathname + location.search);
  }
  const value = (row, column) => {
    const cell = row.cells[column];
    const text = cell.dataset.v ?? cell.textContent.trim();
    if (text === "") return null;
    const number = Number(text.replace("inf", "Infinity"));
    return Number.isNaN(number) ? text : number;
  };
  function order(table) {
    const chosen = state.get(`t.${table.id}.sort`);
    if (!chosen) return;
    const column = Number(chosen.replace("-", ""));
    const header = table.tHead.rows[0].cells[column];
    if (!header) return;
    const sign = chosen.startsWith("-") ? -1 : 1;
    for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
    header.setAttribute("aria-sort", sign > 0 ? "ascending" : "descending");
    const rows = rowsOf(table).map((row) => [value(row, column), row]);
    rows.sort(([a], [b]) => {
      if (a === null || b === null) return (a === null) - (b === null);
      return sign * (typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b)));
    });
    table.tBodies[0].append(...rows.map(([, row]) => row));
  }
  function filter(table) {
    const words = (state.get(`t.${table.id}.text`) ?? "").toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const row of rowsOf(table)) {
      const text = row.textContent.toLowerCase();
      row.hidden = !words.every((word) => text.includes(word));
      shown += !row.hidden;
    }
    const none = document.querySelector(`[data-none="${table.id}"]`);
    if (none) none.hidden = shown > 0;
  }
  function columns(table) {
    const heads = [...table.tHead.rows[0].cells];
    const names = heads.map((cell) => cell.textContent.trim());
    const spare = heads.filter((cell) => "off" in cell.dataset).map((cell) => cell.textContent.trim());
    const kept = store.get(`columns.${table.id}`);
    const hidden = new Set(kept === null ? spare : kept.split("|").filter(Boolean));
    names.forEach((name, k) => {
      for (const row of [table.tHead.rows[0], ...rowsOf(table)]) row.cells[k]?.classList.toggle("off", hidden.has(name));
    });
    return { hidden, names };
  }
  const escapes = { md: (text) => text.replace(/[\\`*_{}[\]<>|~#]/g, "\\$&"), csv: (text) => {
    const safe = /^\s*[=+\-@]/.test(text) && Number.isNaN(Number(text)) ? `'${text}` : text; // so that a spreadsheet runs no formula
    return /[",\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
  } };
  function copied(table, kind) {
    const kept = [...table.tHead.rows[0].cells].map((cell, k) => [cell, k]).filter(([cell]) => !cell.matches(".off, .pick, .no-export")).map(([, k]) => k);
    const text = (cell) => escapes[kind]((cell?.querySelector("time")?.dateTime ?? cell?.innerText ?? "").replace(/\s+/g, " ").trim());
    const rows = [table.tHead.rows[0], ...rowsOf(table).filter((row) => !row.hidden)].map((row) => kept.map((k) => text(row.cells[k])));
    if (kind === "csv") return rows.map((row) => row.join(",")).join("\n") + "\n";
    const numbers = kept.map((k) => table.tHead.rows[0].cells[k].classList.contains("number"));
    rows.splice(1, 0, numbers.map((number) => (number ? "---:" : "---")));
    return rows.map((row) => `| ${row.join(" | ")} |`).join("\n") + "\n";
  }
  async function copy(text) {
    try {
      await navigator.clipboard.writeText(text);
    } catch { // not a secure context: use the older method
      const area = Object.assign(document.createElement("textarea"), { value: text });
      document.body.append(area);
      area.select();
      document.execCommand("copy");
      area.remove();
    }
  }

  function enhance(within) {
    times(within);
    for (const table of within.querySelectorAll("table[data-sortable]")) {
      [...table.tHead.rows[0].cells].forEach((header, column) => {
        if (header.matches(".pick, .no-export")) return;
        const button = document.createElement("button");
        button.type = "button";
        button.append(...header.childNodes);
        header.append(button);
        button.addEventListener("click", () => {
          const now = state.get(`t.${table.id}.sort`);
          remember(`${table.id}.sort`, now === String(column) ? `-${column}` : String(column));
          order(table);
        });
      });
      order(table);
      filter(table);
    }
    [...within.querySelectorAll(".statistics table")].forEach((table, k) => { // tables of the report's templates
      table.id ||= `statistics-${k}`;
      const tools = Object.assign(document.createElement("div"), { className: "tools no-export" });
      tools.dataset.tools = table.id;
      for (const [kind, text] of [["md", "Copy as Markdown"], ["csv", "Copy as CSV"]]) {
        const button = Object.assign(document.createElement("button"), { type: "button", textContent: text });
        button.dataset.copy = kind;
        tools.append(button);
      }
      table.closest(".scroll").before(tools);
    });
    for (const tools of within.querySelectorAll("[data-tools]")) {
      const table = document.getElementById(tools.dataset.tools);
      if (!table) continue;
      tools.hidden = false;
      const { hidden, names } = columns(table);
      const box = tools.querySelector(".columns div");
      if (!box) continue;
      names.forEach((name, k) => {
        if (!name || table.tHead.rows[0].cells[k].matches(".pick, .no-export")) return;
        const label = document.createElement("label");
        const tick = Object.assign(document.createElement("input"), { type: "checkbox", checked: !hidden.has(name) });
        tick.addEventListener("change", () => {
          if (tick.checked) hidden.delete(name); else hidden.add(name);
          store.set(`columns.${table.id}`, [...hidden].join("|"));
          columns(table);
        });
        label.append(tick, name);
        box.append(label);
      });
    }
    for (const picture of within.querySelectorAll(".picture")) addArrowKeys(picture);
    for (const field of within.querySelectorAll("[data-filter]")) field.value = state.get(`t.${field.dataset.filter}.text`) ?? "";
    compare();
  }
  // Makes a timeline's marks a single tab stop. Arrow keys move between them, and the text of the current mark is shown.
  function addArrowKeys(picture) {
    const marks = [...picture.querySelectorAll(".mark")];
    if (!marks.length) return;
    const hint = matchMedia("(hover: none)").matches ? "" : "Arrow keys move between marks, Enter opens one.";
    const readout = Object.assign(document.createElement("p"), { className: "readout muted", textContent: hint });
    readout.setAttribute("aria-hidden", "true"); // screen readers announce the focused mark
    picture.after(readout);
    picture.removeAttribute("tabindex");
    marks.forEach((mark, k) => {
      mark.setAttribute("tabindex", k ? "-1" : "0");
      const tell = () => { readout.textContent = mark.getAttribute("aria-label"); };
      mark.addEventListener("pointerenter", tell);
      mark.addEventListener("focus", () => {
        tell();
        for (const other of marks) other.setAttribute("tabindex", other === mark ? "0" : "-1");
      });
    });
    picture.addEventListener("keydown", (event) => {
      const at = marks.indexOf(document.activeElement);
      const next = { ArrowRight: at + 1, ArrowDown: at + 1, ArrowLeft: at - 1, ArrowUp: at - 1, Home: 0, End: marks.length - 1 }[event.key];
      if (at < 0 || next === undefined) return;
      event.preventDefault();
      marks[Math.max(0, Math.min(marks.length - 1, next))].focus();
    });
  }
  function compare() {
    const button = document.querySelector("[data-compare]");
    if (!button) return;
    const count = document.querySelectorAll('[name="g"]:checked').length;
    button.disabled = count < 2 || count > 6;
    button.textContent = count < 2 ? "Select two to six to compare" : count > 6 ? "Select at most six" : `Compare ${count} groups`;
  }

  // Live pages: fetches the page again when the server reports a change, replaces the live part, and keeps the reader's choices.
  let [refreshing, due] = [false, false]; // due: something changed since the last fetch began
  const isInUse = () => document.querySelector("dialog[open], .columns[open]") !== null;
  async function refresh() {
    const part = document.getElementById("live");
    if (!part) return;
    due = true;
    if (refreshing || isInUse()) return;
    [refreshing, due] = [true, false];
    try {
      const answer = await fetch(location.pathname + location.search, { headers: { Accept: "text/html" } });
      if (!answer.ok) return;
      const fresh = new DOMParser().parseFromString(await answer.text(), "text/html").getElementById("live");
      if (!fresh) return;
      if (isInUse()) { // opened meanwhile
        due = true;
        return;
      }
      const active = document.activeElement;
      const place = active?.id ? `#${CSS.escape(active.id)}` : active?.dataset?.filter ? `[data-filter="${active.dataset.filter}"]` : active?.getAttribute?.("href") ? `a[href="${CSS.escape(active.getAttribute("href"))}"]` : null;
      const picked = [...document.querySelectorAll('[name="g"]:checked')].map((box) => box.value);
      const caret = active?.selectionStart;
      for (const own of part.querySelectorAll("details[id]")) {
        const same = fresh.querySelector(`#${CSS.escape(own.id)}`);
        if (same) same.open = own.open;
      }
      part.replaceWith(fresh);
      enhance(fresh);
      for (const box of fresh.querySelectorAll('[name="g"]')) box.checked = picked.includes(box.value);
      compare();
      const again = place && fresh.querySelector(place);
      if (again) {
        again.focus({ preventScroll: true });
        if (caret != null) again.setSelectionRange?.(caret, caret);
      }
      dispatchEvent(new Event("refreshed"));
    } finally {
      refreshing = false;
      catchUp();
    }
  }
  const catchUp = () => { if (due) refresh(); };
  function follow() {
    const live = document.getElementById("live");
    if (live?.dataset.live) {
      const events = new EventSource(live.dataset.live);
      const changed = (event) => { if (event.data !== document.getElementById("live").dataset.state) refresh(); };
      events.addEventListener("state", changed); // changes before the connection was open
      events.addEventListener("change", changed);
      addEventListener("pagehide", () => events.close());
    } else if (live?.dataset.liveEvery) {
      setInterval(() => { if (!document.hidden) refresh(); }, 1000 * live.dataset.liveEvery);
    }
  }

  // Keyboard shortcuts
  let current = null;
  function move(by) {
    const items = [...document.querySelectorAll(".hits li, .list tbody tr:not([hidden]), #table tr[id]:not([hidden])")].filter((own) => own.offsetParent);
    const steps = [...document.querySelectorAll("[data-step]")];
    const all = document.querySelector("[data-step]") && !document.querySelector(".hits li") ? steps : items;
    if (!all.length) return;
    const focused = document.activeElement.closest("[data-step], .hits li, .list tbody tr, #table tr[id]");
    let at = all.indexOf(focused ?? current);
    if (at < 0) at = all.indexOf(current);
    if (at < 0 && all === steps) at = all.findIndex((own) => own.getBoundingClientRect().bottom > 130) - (by > 0 ? 1 : 0);
    const next = all[Math.max(0, Math.min(all.length - 1, at + by))];
    for (const other of document.querySelectorAll(".current")) other.classList.remove("current");
    current = next;
    current.classList.add("current");
    current.scrollIntoView({ block: all === steps ? "start" : "nearest" });
    (current.querySelector("a") ?? current).focus({ preventScroll: true });
  }
  function press(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    const open = document.querySelector(".columns[open]");
    if (event.key === "Escape" && open) {
      open.open = false;
      open.querySelector("summary").focus();
      return;
    }
    if (event.target.matches("input, select, textarea")) {
      if (event.key === "Escape") event.target.blur();
      return;
    }
    if (document.querySelector("dialog[open]")) return;
    const click = (selector) => document.querySelector(selector)?.click();
    const keys = {
      "/": () => document.querySelector('input[type="search"]')?.focus(),
      j: () => move(1), k: () => move(-1),
      n: () => click('[rel="next"]'), p: () => click('[rel="prev"]'),
      u: () => [...document.querySelectorAll(".crumbs a")].pop()?.click(),
      t: nextTheme, "?": () => document.getElementById("keys").showModal(),
    };
    const tab = /^[1-6]$/.test(event.key) && document.querySelectorAll(".tabs a")[event.key - 1];
    const act = keys[event.key] ?? (tab ? () => tab.click() : null);
    if (!act) return;
    event.preventDefault();
    act();
  }
  function nextTheme() {
    store.set("theme", THEMES[(THEMES.indexOf(theme()) + 1) % THEMES.length]);
    paint();
    labelThemeButton();
    say(`Theme: ${theme() || "system"}`);
  }
  function labelThemeButton() {
    const button = document.getElementById("theme");
    button.textContent = { "": "Auto", light: "Light", dark: "Dark" }[theme()];
    button.title = `Theme: ${theme() || "system"}`;
  }

  addEventListener("DOMContentLoaded", () => {
    enhance(document);
    follow();
    tick();
    setInterval(tick, 1000);
    for (const own of document.querySelectorAll(".needs-script")) own.hidden = false;
    for (const id of ["theme", "help"]) document.getElementById(id).hidden = false;
    labelThemeButton();
    const [tab, tabs] = [document.querySelector(".tabs [aria-current]"), document.querySelector(".tabs")];
    if (tab) tabs.scrollLeft = tab.offsetLeft + tab.offsetWidth - tabs.clientWidth; // on a phone, they may not all fit
    document.getElementById("theme").addEventListener("click", nextTheme);
    document.getElementById("help").addEventListener("click", () => document.getElementById("keys").showModal());
    document.addEventListener("keydown", press);
    for (const name of ["close", "toggle"]) document.addEventListener(name, catchUp, true); // of a dialog or the columns
    document.addEventListener("change", (event) => {
      if (event.target.matches('[name="g"]')) compare();
      if (event.target.matches('[data-send] :is(select, [type="checkbox"])')) event.target.form.requestSubmit();
    });
    document.addEventListener("formdata", (event) => { // keeps empty fields out of the URL
      for (const [name, value] of [...event.formData]) if (value === "") event.formData.delete(name);
    });
    addEventListener("copy-text", async (event) => {
      await copy(event.detail.text);
      say(event.detail.said);
    });
    document.addEventListener("input", (event) => {
      const id = event.target.dataset?.filter;
      if (!id) return;
      remember(`${id}.text`, event.target.value);
      filter(document.getElementById(id));
    });
    document.addEventListener("submit", (event) => { if (event.target.id === "compare" && document.activeElement?.matches("[data-filter]")) event.preventDefault(); });
    document.addEventListener("click", async (event) => {
      if (event.target.closest("[data-print]")) print();
      const kind = event.target.dataset?.copy;
      if (kind) {
        const table = document.getElementById(event.target.closest("[data-tools]").dataset.tools);
        await copy(copied(table, kind));
        say(kind === "md" ? "Copied as Markdown" : "Copied as CSV");
      }
    });
  });
})();
