// The chronicle of a page: entries arrive in a hidden inbox and move into the list in order of their numbers,
// each once, and never under a thumb: scrolled or paused, they wait behind a pill.
"use strict";
(() => {
  const section = document.getElementById("chronicle");
  mw.known = () => 0;
  mw.takeIn = () => {};
  if (!section) return;

  const list = document.getElementById("chronicle-list");
  const inbox = document.getElementById("chronicle-inbox");
  const pill = document.getElementById("chronicle-pill");
  const news = document.getElementById("chronicle-news");
  const none = document.getElementById("chronicle-none");
  const ANNOUNCE_MS = 5000;
  let oldestFirst = false;
  let paused = false;
  let unannounced = 0;
  let announcedAt = -ANNOUNCE_MS;

  const number = (entry) => Number(entry.dataset.number);
  const numbers = (place) => Array.from(place.children, number);

  // The number up to which this page has every entry: a newer one may have come before those that it follows.
  let complete = Number(section.dataset.known);
  mw.known = () => {
    const have = new Set([...numbers(list), ...numbers(inbox)]);
    while (have.has(complete + 1)) complete += 1;
    return complete;
  };

  const scrolledPast = () => !oldestFirst && list.getBoundingClientRect().top < 0;

  const place = (entry) => {
    const value = number(entry);
    const before = Array.from(list.children).find((other) => (oldestFirst ? number(other) > value : number(other) < value));
    entry.classList.add("fresh");
    list.insertBefore(entry, before || null);
  };

  const sort = () => {
    const entries = Array.from(list.children).sort((a, b) => (oldestFirst ? number(a) - number(b) : number(b) - number(a)));
    list.replaceChildren(...entries);
    list.reversed = !oldestFirst;
  };

  const dropDoubles = () => {
    const have = new Set(numbers(list));
    for (const entry of Array.from(inbox.children)) {
      if (have.has(number(entry))) entry.remove();
      else have.add(number(entry));
    }
  };

  const announce = () => {
    if (!unannounced || performance.now() - announcedAt < ANNOUNCE_MS) return;
    news.textContent = `${unannounced} new chronicle ${unannounced === 1 ? "entry" : "entries"}`;
    unannounced = 0;
    announcedAt = performance.now();
  };

  const showPill = () => {
    pill.hidden = inbox.children.length === 0;
    pill.textContent = pill.hidden ? "" : `${inbox.children.length} new`;
  };

  const empty = () => {
    document.getElementById("chronicle-empty")?.remove();
    const filter = list.dataset.filter;
    none.hidden = filter === "all" || list.querySelector(`[data-group="${filter}"]`) !== null;
  };

  const flush = () => {
    const entries = Array.from(inbox.children).sort((a, b) => number(a) - number(b));
    entries.forEach(place);
    showPill();
    if (entries.length) empty();
  };

  mw.takeIn = () => {
    const before = inbox.children.length;
    dropDoubles();
    if (!inbox.children.length) return;
    mw.localise(inbox);
    unannounced += Math.max(0, inbox.children.length - (pill.hidden ? 0 : before - 1));
    if (paused || scrolledPast()) showPill();
    else flush();
    announce();
  };

  const press = (button, on) => button.setAttribute("aria-pressed", String(on));

  const copy = async (button) => {
    const said = button.querySelector("span");
    try {
      const answer = await fetch(button.dataset.url);
      if (!answer.ok || answer.redirected) throw new Error(String(answer.status));
      await navigator.clipboard.writeText(await answer.text());
      said.textContent = "Copied";
    } catch {
      said.textContent = "Could not copy";
    }
    setTimeout(() => { said.textContent = "Copy"; }, 3000);
  };

  const acts = {
    order: (button) => { oldestFirst = !oldestFirst; press(button, oldestFirst); sort(); },
    pause: (button) => { paused = !paused; press(button, paused); if (!paused) flush(); },
    copy,
    print: () => window.print(),
  };

  section.addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (!button) return;
    if (button === pill) {
      flush();
      section.scrollIntoView({ block: "start" });
    } else if (button.dataset.filter) {
      list.dataset.filter = button.dataset.filter;
      for (const other of section.querySelectorAll(".chronicle-tools [data-filter]")) press(other, other.dataset.filter === button.dataset.filter);
      empty();
    } else if (button.dataset.act) {
      acts[button.dataset.act](button);
    }
  });
  document.addEventListener("scroll", () => { if (inbox.children.length && !paused && !scrolledPast()) flush(); }, { passive: true });
  setInterval(announce, 1000);
  for (const part of section.querySelectorAll("[data-script]")) part.hidden = false;

  const form = document.getElementById("note-form");
  form?.addEventListener("htmx:after:request", (event) => {
    const status = event.detail?.ctx?.response?.status;
    if (status === 200) form.reset();
  });
})();
