// An option stays on its line: browsers break lines after each hyphen, and "--" says nothing alone.
document.addEventListener("DOMContentLoaded", () => {
  for (const code of document.querySelectorAll(".md-typeset td code")) {
    if (code.childElementCount || !code.textContent.includes("-")) continue;
    const words = code.textContent.split(/(\s+)/).map((text) => {
      if (!text.includes("-") || text.length > 26) return text;
      return Object.assign(document.createElement("span"), { className: "word", textContent: text });
    });
    code.replaceChildren(...words);
  }
});
// What scrolls can be reached by the keyboard, and the theme's copy buttons are no landmarks of the page.
new MutationObserver(() => {
  for (const part of document.querySelectorAll(".md-typeset__scrollwrap:not([tabindex]), pre > code:not([tabindex]), p:has(> img[src*=terminal-]):not([tabindex])"))
    part.tabIndex = 0;
  for (const part of document.querySelectorAll(".md-code__nav:not([role])")) part.setAttribute("role", "none");
}).observe(document, { childList: true, subtree: true, attributeFilter: ["tabindex"] });
