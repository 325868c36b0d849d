// Keep times local and moving. The server writes UTC and a first value; this file only counts on from there,
// with the server's clock, so a phone whose clock is wrong still shows the right ages.
"use strict";
window.mw = window.mw || {};
(() => {
  const freshness = document.getElementById("freshness");
  const offset = freshness ? Number(freshness.dataset.now) - Date.now() : 0;
  mw.now = () => Date.now() + offset;

  const pad = (value) => String(value).padStart(2, "0");
  const thin = (value) => Math.round(value).toString().replace(/\B(?=(\d{3})+(?!\d))/g, "\u202f");

  mw.span = (seconds) => {
    const whole = Math.max(0, Math.floor(seconds));
    if (whole < 120) return `${whole} s`;
    if (whole < 3600) return `${Math.floor(whole / 60)} min`;
    if (whole < 86400) return `${Math.floor(whole / 3600)} h ${pad(Math.floor((whole % 3600) / 60))} min`;
    return `${Math.floor(whole / 86400)} d ${Math.floor((whole % 86400) / 3600)} h`;
  };

  const gpuHours = (value) => {
    const unit = "\u00a0GPU\u2011h";
    if (value < 1) return `${value.toFixed(3)}${unit}`;
    return value < 100 ? `${value.toFixed(1)}${unit}` : `${thin(value)}${unit}`;
  };

  const local = {
    clock: (when) => when.toLocaleTimeString([], { hour12: false }),
    moment: (when) => `${when.getFullYear()}-${pad(when.getMonth() + 1)}-${pad(when.getDate())} ${pad(when.getHours())}:${pad(when.getMinutes())}`,
  };

  // Times become local; a tap on one shows UTC again.
  mw.localise = (root) => {
    for (const time of root.querySelectorAll("time[data-time]")) {
      const shown = local[time.dataset.time](new Date(time.dateTime));
      if (time.textContent !== shown && time.dataset.local !== "utc") time.textContent = shown;
    }
  };
  document.addEventListener("click", (event) => {
    const time = event.target.closest && event.target.closest("time[data-time]");
    if (!time) return;
    const utc = time.dataset.local !== "utc";
    time.dataset.local = utc ? "utc" : "";
    time.textContent = utc ? time.title : local[time.dataset.time](new Date(time.dateTime));
  });

  const set = (element, text) => { if (element.textContent !== text) element.textContent = text; };

  mw.tick = () => {
    const now = mw.now();
    for (const cost of document.querySelectorAll("[data-began]")) {
      const seconds = Math.max(0, (now - Number(cost.dataset.began)) / 1000);
      const gpus = Number(cost.dataset.gpus);
      const lost = (cost.dataset.tail ??= cost.textContent.split(" · ").slice(3).join(" · "));
      const parts = [`${thin(gpus)} ${gpus === 1 ? "GPU" : "GPUs"} idle`, mw.span(seconds), gpuHours(gpus * seconds / 3600)];
      set(cost, (lost ? [...parts, lost] : parts).join(" · "));
    }
    for (const until of document.querySelectorAll("[data-until]")) {
      const left = Math.max(0, Math.floor((Number(until.dataset.until) - now) / 1000));
      set(until, left >= 3600 ? mw.span(left) : `${Math.floor(left / 60)}:${pad(left % 60)}`);
    }
    for (const ago of document.querySelectorAll("[data-ago]")) set(ago, `${mw.span((now - Number(ago.dataset.ago)) / 1000)} ago`);
  };

  mw.localise(document);
  mw.tick();
  setInterval(mw.tick, 1000);
})();
