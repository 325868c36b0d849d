// What every page needs of a thumb: where it is stands in view, and a slip approves nothing.
"use strict";
document.querySelector(".primary [aria-current]")?.scrollIntoView({ inline: "center", block: "nearest" });

// Approving takes two taps, the second no sooner than 1.5 s after the first. Without scripts the same word is
// typed by hand; the server wants it in both cases.
(() => {
  const WAIT_MS = 1500;
  const FORGET_MS = 10000;
  document.documentElement.dataset.scripts = "on";

  const news = document.getElementById("freshness-news");
  const set = (button, state) => { button.dataset.local = state; };

  const begin = (button) => {
    set(button, "waits");
    setTimeout(() => {
      set(button, "armed");
      if (news) news.textContent = "Press again to approve";
    }, WAIT_MS);
    setTimeout(() => set(button, ""), WAIT_MS + FORGET_MS);
  };

  document.addEventListener("click", (event) => {
    const button = event.target.closest && event.target.closest("button[data-second-tap]");
    if (!button) return;
    if (button.dataset.local === "armed") {
      button.form.elements.word.value = button.dataset.secondTap;
      set(button, "");
      return;
    }
    event.preventDefault();
    if (!button.dataset.local) begin(button);
  });
})();
