"use strict";
// Loads steps as the reader scrolls near them, and removes those far away.
(() => {
  const box = document.getElementById("steps");
  if (!box) return;
  const [total, least, most] = ["total", "least", "most"].map((name) => Number(box.dataset[name]));
  const errors = box.dataset.errors.split(",").filter(Boolean).map(Number);
  const tape = document.querySelector("[data-tape]");
  const links = new Map([...document.querySelectorAll("[data-to]")].map((link) => [Number(link.dataset.to), link]));
  const KEPT = 120;
  const steps = () => [...box.querySelectorAll("[data-step]")];
  const number = (step) => Number(step.dataset.step);
  const more = (way) => box.querySelector(`[data-more="${way}"]`);
  let loading = false;

  async function asked(url) {
    const answer = await fetch(url);
    if (!answer.ok) throw new Error(`${answer.status}`);
    return new DOMParser().parseFromString(await answer.text(), "text/html").body;
  }
  async function fetched(query) {
    const found = [...(await asked(box.dataset.stepsFrom + query)).querySelectorAll("[data-step]")];
    found.forEach(furnish);
    return found;
  }
  // Adds buttons to collapse and copy each step.
  function furnish(step) {
    const tools = step.querySelector(".step-tools");
    if (!tools || tools.querySelector("button")) return;
    sight.observe(step);
    const button = (act, text, label) => {
      const own = Object.assign(document.createElement("button"), { type: "button", className: "quiet", textContent: text });
      own.dataset.act = act;
      own.setAttribute("aria-label", label);
      return own;
    };
    tools.append(button("copy", "Copy", `Copy step ${number(step)}`));
    step.querySelector("h2").prepend(button("turn", "▾", `Step ${number(step)} in full`));
    turned(step, !folded);
  }
  let folded = false;
  function turned(step, open) {
    step.querySelector(".step-body").hidden = !open;
    const own = step.querySelector('[data-act="turn"]');
    own.setAttribute("aria-expanded", String(open));
    own.textContent = open ? "▾" : "▸";
  }
  async function raw(step, link) {
    const shown = step.querySelector(".raw");
    step.querySelector(".step-body").hidden = !shown && folded;
    if (shown) {
      shown.closest(".raw-box").remove();
      turned(step, true);
      return;
    }
    const own = Object.assign(document.createElement("div"), { className: "raw-box" });
    own.append(...(await asked(`${link.href}&part=1`)).childNodes);
    step.append(own);
    step.querySelector(".step-body").hidden = true;
    own.querySelector("pre").focus({ preventScroll: true });
  }
  function ends() {
    const shown = steps();
    const [first, last] = [number(shown[0]), number(shown[shown.length - 1])];
    for (const [way, needed] of [["up", first > least], ["down", last < most]]) {
      let line = more(way);
      if (!needed) line?.remove();
      else {
        if (line) watcher.unobserve(line); // observe it again: a line that stays in view is not reported again
        else {
          line = Object.assign(document.createElement("p"), { className: "more-steps", textContent: "Loading …" });
          line.dataset.more = way;
          box[way === "up" ? "prepend" : "append"](line);
        }
        watcher.observe(line);
      }
    }
    mark(box);
  }
  async function grow(way) {
    if (loading) return;
    loading = true;
    try {
      const shown = steps();
      if (way === "down") {
        const last = number(shown[shown.length - 1]);
        if (last >= most) return;
        const added = (await fetched(`from=${last + 1}`)).filter((step) => number(step) > last);
        more("down")?.before(...added);
        trim("up");
      } else {
        const first = number(shown[0]);
        if (first <= least) return;
        const added = (await fetched(`before=${first}`)).filter((step) => number(step) < first);
        const top = shown[0].getBoundingClientRect().top;
        shown[0].before(...added);
        scrollBy(0, shown[0].getBoundingClientRect().top - top);
        trim("down");
      }
      ends();
    } catch {
      return; // the links still work
    } finally {
      loading = false;
    }
  }
  function trim(way) {
    const shown = steps();
    const excess = shown.length - KEPT;
    if (excess <= 0) return;
    const far = way === "up" ? shown.slice(0, excess) : shown.slice(-excess);
    const stay = shown[way === "up" ? excess : 0];
    const top = stay.getBoundingClientRect().top;
    for (const step of far) drop(step);
    scrollBy(0, stay.getBoundingClientRect().top - top);
  }
  function drop(step) {
    sight.unobserve(step);
    visible.delete(number(step));
    step.remove();
  }
  async function go(to) {
    if (to < 1 || to > total) return;
    let step = document.getElementById(`s-${to}`);
    if (!step) {
      const added = await fetched(`from=${Math.max(1, to - 5)}`);
      if (!added.length) return;
      for (const old of steps()) drop(old);
      more("up")?.remove();
      more("down")?.remove();
      box.append(...added);
      ends();
      step = added.find((own) => number(own) >= to) ?? added[added.length - 1];
      to = number(step);
    }
    for (const other of box.querySelectorAll(".current")) other.classList.remove("current");
    step.classList.add("current");
    step.scrollIntoView({ block: "start" });
    step.focus({ preventScroll: true });
    const url = new URL(location);
    url.searchParams.set("from", to);
    url.searchParams.delete("at");
    url.hash = `s-${to}`;
    history.replaceState(null, "", url);
  }
  const here = () => {
    const first = steps().find((step) => step.getBoundingClientRect().bottom > 140);
    return first ? number(first) : 1;
  };
  function error(by) {
    const chosen = box.querySelector(".current");
    const at = chosen ? number(chosen) : here();
    const next = by > 0 ? errors.find((own) => own > at) : errors.findLast((own) => own < at);
    if (next) go(next);
  }
  function mark(within) { // highlights the searched text
    const words = box.dataset.words.toLowerCase();
    if (!words) return;
    for (const pre of within.querySelectorAll(":is(pre, .said):not([data-marked])")) {
      pre.dataset.marked = "";
      const walker = document.createTreeWalker(pre, NodeFilter.SHOW_TEXT);
      const found = [];
      while (walker.nextNode() && found.length < 50) {
        const at = walker.currentNode.data.toLowerCase().indexOf(words);
        if (at >= 0) found.push([walker.currentNode, at]);
      }
      for (const [node, at] of found) {
        const range = document.createRange();
        range.setStart(node, at);
        range.setEnd(node, Math.min(node.length, at + words.length));
        range.surroundContents(document.createElement("mark"));
        pre.closest("details")?.setAttribute("open", "");
      }
    }
  }
  // Marks the visible steps in the outline and on the tape. The observer is called after layout, when reading positions is
  // cheap; all writes are at the end.
  const visible = new Set();
  const outline = document.querySelector(".outline");
  const places = new Map([...links.keys()].map((own, k) => [own, k]));
  const inView = tape?.querySelector(".in-view");
  let seen = [];
  function show() {
    const now = [...visible].sort((a, b) => a - b);
    if (now.length === seen.length && now.every((own, k) => own === seen[k])) return;
    const row = outline.scrollHeight / Math.max(1, links.size);
    const [height, top] = [outline.clientHeight, outline.scrollTop];
    const at = (places.get(now[0]) ?? 0) * row;
    const follows = now.length > 0 && (at < top || at + row > top + height) && !outline.matches(":hover");
    for (const own of seen) if (!visible.has(own)) links.get(own)?.removeAttribute("aria-current");
    for (const own of now) links.get(own)?.setAttribute("aria-current", "true");
    seen = now;
    if (now.length) {
      const scale = tape.firstElementChild.viewBox.baseVal.width / total;
      inView.setAttribute("x", (now[0] - 1) * scale);
      inView.setAttribute("width", (now[now.length - 1] - now[0] + 1) * scale);
    }
    if (follows) outline.scrollTop = at - height / 3;
  }
  const sight = new IntersectionObserver((entries) => {
    for (const { target, isIntersecting } of entries) {
      if (isIntersecting && target.isConnected) visible.add(number(target)); else visible.delete(number(target));
    }
    show();
  }, { rootMargin: "-120px 0px 0px" });
  const watcher = new IntersectionObserver((entries) => {
    for (const entry of entries) if (entry.isIntersecting && entry.target.isConnected) grow(entry.target.dataset.more);
  }, { rootMargin: "1200px" });

  document.querySelector("[data-steps]").hidden = false;
  document.addEventListener("click", (event) => {
    const link = event.target.closest("[data-to]");
    if (link && !event.ctrlKey && !event.metaKey && !event.shiftKey) {
      event.preventDefault();
      go(Number(link.dataset.to));
    }
    const step = event.target.closest("[data-step]");
    const recorded = step && event.target.closest("[data-raw]");
    if (recorded && !event.ctrlKey && !event.metaKey && !event.shiftKey) {
      event.preventDefault();
      raw(step, recorded).catch(() => { location.href = recorded.href; });
    }
    const doing = event.target.closest("[data-act]")?.dataset.act;
    if (doing === "turn") turned(step, step.querySelector(".step-body").hidden);
    if (doing === "copy") {
      const texts = [...step.querySelectorAll(".block > :is(pre, .said), .block > details:not(.diff) > :is(pre, .said)")].map((pre) => pre.textContent);
      dispatchEvent(new CustomEvent("copy-text", { detail: { text: `${texts.join("\n\n")}\n`, said: `Step ${number(step)} copied` } }));
    }
    const act = event.target.closest("[data-go]")?.dataset.go;
    if (act === "error") error(1);
    else if (act === "later" || act === "earlier") {
      const by = act === "later" ? 1 : -1;
      const shown = steps();
      const chosen = box.querySelector(".current");
      const at = chosen ? shown.indexOf(chosen) : shown.findIndex((own) => number(own) === here());
      const next = shown[at + by] ?? shown[at];
      if (next) go(number(next));
    } else if (act) {
      folded = act === "fold";
      document.querySelector('[data-go="fold"]').setAttribute("aria-pressed", String(folded));
      for (const own of steps()) turned(own, !folded);
      for (const details of box.querySelectorAll("details")) details.open = !folded;
    }
    if (event.target.closest("[data-tape]")) {
      const bar = event.target.closest("[data-tape]").getBoundingClientRect();
      go(Math.max(1, Math.min(total, Math.ceil(((event.clientX - bar.left) / bar.width) * total))));
    }
  });
  document.addEventListener("keydown", (event) => {
    if (event.target.matches("input") || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "e") error(1);
    if (event.key === "E") error(-1);
  });
  for (const line of box.querySelectorAll("[data-more]")) watcher.observe(line);
  steps().forEach(furnish);
  mark(box);
  const start = Number(box.dataset.start);
  if (start > 1 && !location.hash) document.getElementById(`s-${start}`)?.scrollIntoView({ block: "start" });
})();
