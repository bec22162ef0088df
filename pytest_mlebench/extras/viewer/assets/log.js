"use strict";
// Loads parts of a log as the reader scrolls near them, and removes those far away.
(() => {
  const box = document.getElementById("log");
  if (!box) return;
  const KEPT = 12;
  const where = document.querySelector("[data-where]");
  const follow = document.querySelector("[data-follow]");
  const wrap = document.querySelector("[data-wrap]");
  const parts = () => [...box.querySelectorAll(".part")];
  const place = (part, name) => Number(part.dataset[name]);
  let size = place(parts()[0], "size");
  let loading = false;
  document.querySelector("[data-pages]").hidden = true;

  async function fetched(query) {
    const answer = await fetch(`${box.dataset.from}?${query}`);
    if (!answer.ok) throw new Error(`${answer.status}`);
    return new DOMParser().parseFromString(await answer.text(), "text/html").querySelector(".part");
  }
  const near = () => ({ up: box.scrollTop < 1500, down: box.scrollHeight - box.scrollTop - box.clientHeight < 1500 });
  async function grow(way) {
    if (loading) return false;
    const shown = parts();
    const [first, last] = [shown[0], shown[shown.length - 1]];
    if (way === "up" ? place(first, "start") <= 0 : place(last, "end") >= size) return false;
    loading = true;
    try {
      const part = await fetched(way === "up" ? `end=${first.dataset.start}` : `start=${last.dataset.end}`);
      if (!part || place(part, "end") <= place(part, "start")) return false;
      size = Math.max(size, place(part, "size"));
      if (way === "down") {
        last.after(part);
        const excess = parts().slice(0, -KEPT);
        const height = excess.reduce((sum, part) => sum + part.getBoundingClientRect().height, 0);
        for (const part of excess) part.remove();
        if (excess.length) box.scrollTop -= height;
      } else {
        const before = box.scrollHeight;
        first.before(part);
        box.scrollTop += box.scrollHeight - before;
        for (const far of parts().slice(KEPT)) far.remove();
      }
      showRange();
      return true;
    } catch {
      return false;
    } finally {
      loading = false;
    }
  }
  function showRange() {
    const shown = parts();
    const count = (number) => Number(number).toLocaleString();
    where.textContent = `Bytes ${count(shown[0].dataset.start)} to ${count(shown[shown.length - 1].dataset.end)} of ${count(size)}`;
  }
  async function fill() {
    const { up, down } = near();
    if (up && (await grow("up"))) return;
    if (down) await grow("down");
  }
  box.addEventListener("scroll", fill, { passive: true });

  wrap.hidden = false;
  wrap.addEventListener("click", () => {
    const wrapped = !box.classList.toggle("no-wrap");
    wrap.setAttribute("aria-pressed", String(wrapped));
  });
  document.addEventListener("keydown", (event) => {
    if (event.target.matches("input") || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key !== "e" && event.key !== "E") return;
    const top = box.getBoundingClientRect().top;
    const lines = [...box.querySelectorAll(".l.failed")];
    const below = (line) => line.getBoundingClientRect().top - top;
    const next = event.key === "e" ? lines.find((line) => below(line) > 5) : lines.findLast((line) => below(line) < -5);
    next?.scrollIntoView({ block: "start" });
  });

  if (box.dataset.liveLog) {
    follow.closest("label").hidden = false;
    const events = new EventSource(box.dataset.liveLog);
    const changed = async (event) => {
      size = Math.max(size, Number(event.data.split(" ")[0]) || 0);
      if (follow.checked) {
        while (await grow("down"));
        box.scrollTop = box.scrollHeight;
      }
      showRange();
    };
    events.addEventListener("change", changed);
    events.addEventListener("state", changed);
    addEventListener("pagehide", () => events.close());
  }
  const here = box.querySelector(".here");
  if (here) here.scrollIntoView({ block: "center" });
  else if (Number(box.dataset.at) < 0) box.scrollTop = box.scrollHeight;
  fill();
})();
