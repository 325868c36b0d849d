// One socket per page, its freshness in words, and catching up by plain HTTP.
// htmx carries and swaps; this file decides what is new, what is old, and when to stop believing the socket.
"use strict";
(() => {
  const live = document.getElementById("live");
  const freshness = document.getElementById("freshness");
  const STALE_S = 15;
  const POLL_AFTER_S = 60;
  const POLL_EVERY_S = 10;
  const GAP_MS = 400;
  const ANSWER_MS = 10_000;
  const RETRY_MS = 1000;
  const RETRY_AT_MOST_MS = 15_000;
  const REFUSED = { 4400: "Not followed", 4401: "Signed out · open the page again", 4403: "Not allowed to follow this" };
  const INBOX = "#chronicle-inbox";

  // A morph keeps what the reader did: an open <details> stays open.
  htmx.registerExtension("middlewatch", {
    htmx_before_morph_attr: (element, detail) => !(detail.attrName === "open" && element.tagName === "DETAILS"),
  });
  if (!live || !freshness) return;

  const versions = new Map();
  const words = freshness.querySelector("[data-words]");
  const news = document.getElementById("freshness-news");
  const baseTitle = document.title.replace(/^\(\d+\) /, "");
  let heardAt = performance.now();
  let watchAge = 0;
  let connected = false;
  let ended = "";
  let polledAt = 0;
  let syncing = null;
  let asked = 0;
  let caughtUp = 0;
  let pauseMs = 0;
  let retryAt = 0;
  let missed = false;
  let newest = 0;

  const secondsSince = (moment) => (performance.now() - moment) / 1000;

  const say = (state, text) => {
    if (words.textContent !== text) words.textContent = text;
    if (freshness.dataset.state === state) return;
    const first = freshness.dataset.state === "static";
    freshness.dataset.state = state;
    freshness.querySelector("use").setAttribute("href", freshness.querySelector("use").getAttribute("href").replace(/#.*/, state === "stale" ? "#alert" : "#dot"));
    if (!first) news.textContent = { live: "Live again", stale: "Stale: what you see is old", connecting: "" }[state] || "";
  };

  const show = () => {
    const silence = secondsSince(heardAt);
    const age = watchAge === null ? null : watchAge + silence;
    if (ended) say("stale", ended);
    else if (age === null) say("stale", "Stale · the watch is not running");
    else if (Math.max(age, silence) > STALE_S) say("stale", `Stale ${mw.span(Math.max(age, silence))}`);
    else if (!connected || missed) say("connecting", `Connecting · ${mw.span(silence)} ago`);
    else say("live", `Live · ${mw.span(silence)} ago`);
  };

  const heard = (age) => {
    heardAt = performance.now();
    if (age !== undefined) watchAge = age;
    show();
  };

  // --- envelopes -----------------------------------------------------------------------------------------------

  // A rendering that was begun before one that is shown already is dropped, its chronicle entries are not.
  const onlyEntries = (html) => {
    const holder = document.createElement("template");
    holder.innerHTML = html;
    for (const part of Array.from(holder.content.children)) {
      if (!(part.getAttribute("hx-swap-oob") || "").endsWith(INBOX)) part.remove();
    }
    return holder.innerHTML;
  };

  const outdated = (envelope) => envelope.version && envelope.version < (versions.get(envelope.topic) || 0);

  const told = document.getElementById("chronicle")?.dataset.topic;
  const lacks = () => newest > mw.known();

  const accept = (envelope) => {
    if (envelope.topic === told) newest = Math.max(newest, envelope.newest || 0);
    const old = outdated(envelope);
    if (!old && envelope.version) versions.set(envelope.topic, envelope.version);
    if (envelope.series) document.dispatchEvent(new CustomEvent("mw:series", { detail: envelope }));
    if (envelope.content === undefined) return "";
    return old ? onlyEntries(envelope.content) : envelope.content;
  };

  const notice = () => {
    if (lacks()) setTimeout(() => { if (lacks()) resync(); }, GAP_MS);
  };

  const after = () => {
    mw.takeIn();
    mw.localise(document);
    mw.tick();
    const count = Number(document.getElementById("open-count")?.dataset.open || 0);
    const headline = document.querySelector("[data-title]")?.dataset.title;
    const title = `${count ? `(${count}) ` : ""}${headline ? `${headline} · Middlewatch` : baseTitle}`;
    if (document.title !== title) document.title = title;
    const icon = document.getElementById("favicon");
    const lamp = icon.getAttribute("href").replace(/lamp(-lit)?\.svg/, count ? "lamp-lit.svg" : "lamp.svg");
    if (icon.getAttribute("href") !== lamp) icon.setAttribute("href", lamp);
    const state = document.getElementById("state");
    const acts = document.getElementById("acts");
    if (state && acts && state.dataset.acts !== acts.dataset.signature) {
      setTimeout(() => htmx.trigger("#acts-refresh", "mw:acts"), Math.random() * 300);
    }
  };

  // --- catching up ---------------------------------------------------------------------------------------------

  const address = () => {
    const query = new URLSearchParams({ topics: live.dataset.topics });
    if (told) query.set("since", `${told}:${mw.known()}`);
    return `/live/resync?${query}`;
  };

  const fetchMissed = async () => {
    const answer = await fetch(address(), { headers: { Accept: "application/json" }, signal: AbortSignal.timeout(ANSWER_MS) });
    if (answer.redirected || answer.status === 401) { ended = REFUSED[4401]; show(); return; }
    if (answer.status === 403) { ended = REFUSED[4403]; show(); return; }
    if (!answer.ok) throw new Error(String(answer.status));
    const body = await answer.json();
    for (const envelope of body.messages) {
      const text = accept(envelope);
      if (text) await htmx.swap({ sourceElement: live, target: live, swap: "none", text });
    }
    after();
    if (body.ok) heard(body.age_s);
  };

  // Whoever asks while an answer is under way is answered by a later one.
  const catchUp = async () => {
    while (caughtUp < asked) {
      const now = asked;
      await fetchMissed();
      caughtUp = now;
    }
    missed = false;
    pauseMs = 0;
    show();
  };

  // What failed is asked for again after a pause that doubles; a part of it is drawn, so that pages do not ask together.
  const failed = () => {
    pauseMs = Math.min(2 * pauseMs || RETRY_MS, RETRY_AT_MOST_MS);
    retryAt = performance.now() + pauseMs * (0.5 + Math.random() / 2);
  };

  const resync = () => {
    asked += 1;
    syncing ||= catchUp().catch(failed).finally(() => { syncing = null; });
    return syncing;
  };

  // --- the socket ----------------------------------------------------------------------------------------------

  live.addEventListener("htmx:ws:before:message:incoming", (event) => {
    const message = event.detail.message;
    const envelope = JSON.parse(message.data);
    if (envelope.topic === undefined) {
      event.detail.cancelled = true;
      if (envelope.ready) { connected = missed = true; resync(); }
      if (envelope.ping) heard(envelope.age_s);
      return;
    }
    heard();
    const content = accept(envelope);
    if (!content) event.detail.cancelled = true;
    message.data = JSON.stringify({ content, topic: envelope.topic, seq: envelope.seq });
    notice();
  });
  live.addEventListener("htmx:ws:after:message:incoming", after);
  live.addEventListener("htmx:ws:close", (event) => {
    connected = false;
    ended = REFUSED[event.detail.code] || ended;
    show();
  });

  document.addEventListener("htmx:after:swap", () => { mw.localise(document); mw.tick(); });
  document.addEventListener("htmx:error", (event) => {
    const form = event.target.closest && event.target.closest("form");
    if (!form) return;
    const line = document.createElement("p");
    line.className = "trouble";
    line.setAttribute("role", "alert");
    line.textContent = "This could not be sent. Nothing was changed; try again.";
    form.querySelector(".trouble")?.remove();
    form.append(line);
  });

  setInterval(() => {
    show();
    if (connected && !ended && !syncing && performance.now() >= retryAt && (caughtUp < asked || lacks())) resync();
    if (ended || secondsSince(heardAt) < POLL_AFTER_S && connected) return;
    if (secondsSince(heardAt) < POLL_AFTER_S && !polledAt) return;
    if (connected && secondsSince(heardAt) < STALE_S) { polledAt = 0; return; }
    if (polledAt && secondsSince(polledAt) < POLL_EVERY_S) return;
    polledAt = performance.now();
    resync();
  }, 1000);
  show();
})();
