// Throughput and step time with incidents and checkpoints as marks. The facts beside them are HTML.
"use strict";
(() => {
  const section = document.getElementById("charts");
  if (!section || !window.uPlot) return;
  const words = section.querySelector("[data-chart-words]");
  const KEEP = 4000;
  const GAP_S = 15;
  const AGAIN_MS = 60000;
  const PAUSE = 4; // a silence of so many usual steps is a standstill, and is drawn as a gap
  const TICK = 9;
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  let data = { at: [], rate: [], duration_ms: [], unit: "", marks: [] };
  let plots = [];

  const markPainter = (u) => {
    const context = u.ctx;
    let free = 0; // where the last label ends: one that would cover it is left out
    context.save();
    for (const mark of data.marks) {
      const x = Math.round(u.valToPos(mark.at, "x", true));
      if (x < u.bbox.left || x > u.bbox.left + u.bbox.width) continue;
      const incident = mark.kind === "incident";
      const foot = u.bbox.top + u.bbox.height;
      context.strokeStyle = colour(incident ? "--bad" : "--muted");
      context.fillStyle = context.strokeStyle;
      context.lineWidth = (incident ? 2 : 1) * devicePixelRatio;
      context.beginPath();
      context.moveTo(x, incident ? u.bbox.top : foot - TICK * devicePixelRatio);
      context.lineTo(x, foot);
      context.stroke();
      if (incident) {
        const words = `▲ ${mark.label}`;
        context.font = `600 ${11 * devicePixelRatio}px sans-serif`;
        const room = 4 * devicePixelRatio, length = context.measureText(words).width;
        const beyond = x + room + length > u.bbox.left + u.bbox.width;
        const from = beyond ? x - room - length : x + room;
        if (from > free) {
          context.textAlign = "left";
          context.fillText(words, from, u.bbox.top + 12 * devicePixelRatio);
          free = from + length + room;
        }
      }
    }
    context.restore();
  };

  // What the cursor points at, in words beside the title; both charts point at one moment.
  const readOut = (u) => {
    const index = u.cursor.idx;
    if (index == null) { tellWords(); return; }
    const [at, rate, duration] = [plots[0]?.data[0][index], plots[0]?.data[1][index], plots[1]?.data[1][index]];
    const when = at == null ? "" : new Date(at * 1000).toLocaleTimeString([], { hour12: false });
    words.textContent = rate == null ? `${when}: no step` : `${when}: ${spoken(rate, duration)}`;
  };

  const hours = (_, splits) => {
    const fine = splits.length > 1 && splits[1] - splits[0] < 60;
    return splits.map((at) => new Date(at * 1000).toLocaleTimeString([], { hour12: false, hour: "2-digit", minute: "2-digit", ...(fine ? { second: "2-digit" } : {}) }));
  };

  const options = (title, hue, width) => ({
    title, width, height: 220, cursor: { sync: { key: "run" } },
    scales: { x: { time: true }, y: { range: (_, low, top) => [0, (top || 1) * 1.12] } },
    legend: { show: false },
    series: [{}, { stroke: colour(hue), width: 1.6, spanGaps: false, points: { show: false } }],
    axes: [0, 1].map((side) => ({ stroke: colour("--muted"), grid: { stroke: colour("--line"), width: 1 }, ticks: { stroke: colour("--line") }, size: side ? 74 : 32, font: "12px sans-serif", ...(side ? {} : { values: hours }) })),
    hooks: { draw: [markPainter], setCursor: [readOut] },
  });

  // A line drawn across a standstill would say that steps were made there.
  const columns = () => {
    const at = [], rate = [], duration = [];
    const usual = data.duration_ms.filter((one) => one != null).sort((a, b) => a - b);
    const longest = Math.max(2, PAUSE * (usual[usual.length >> 1] || 0) / 1000);
    data.at.forEach((moment, index) => {
      const before = data.at[index - 1];
      if (index && moment - before > longest) { at.push((moment + before) / 2); rate.push(null); duration.push(null); }
      at.push(moment); rate.push(data.rate[index]); duration.push(data.duration_ms[index]);
    });
    return { rate: [at, rate], time: [at, duration] };
  };

  const build = () => {
    const { rate, time } = columns();
    plots.forEach((plot) => plot.destroy());
    section.querySelector("[data-chart-legend]").hidden = false;
    const style = getComputedStyle(section);
    const width = Math.max(240, section.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight));
    plots = [
      new uPlot(options(`Throughput, ${data.unit || "steps/s"}`, "--accent", width), rate, document.getElementById("chart-rate")),
      new uPlot(options("Step time, ms", "--good", width), time, document.getElementById("chart-time")),
    ];
  };
  const draw = () => { const { rate, time } = columns(); plots[0].setData(rate); plots[1].setData(time); };

  const spoken = (rate, duration) => `${Math.round(rate ?? 0).toLocaleString()} ${data.unit}, ${Math.round(duration ?? 0)} ms a step`;
  const tellWords = () => {
    const last = data.at.length - 1;
    words.textContent = last < 0 ? "No step was reported yet." : `Last: ${spoken(data.rate[last], data.duration_ms[last])}`;
    for (const id of ["chart-rate", "chart-time"]) document.getElementById(id).setAttribute("aria-label", `${id === "chart-rate" ? "Throughput" : "Step time"} over time. ${words.textContent}`);
  };

  const append = (series) => {
    const newest = data.at.length ? data.at[data.at.length - 1] : 0;
    if (series.at.length && series.at[0] > newest + GAP_S) { load(); return; }
    let grew = false;
    series.at.forEach((at, index) => {
      if (at <= newest) return;
      grew = true;
      data.at.push(at); data.rate.push(series.rate[index]); data.duration_ms.push(series.duration_ms[index]);
    });
    const extra = data.at.length - KEEP;
    if (extra > 0) for (const column of [data.at, data.rate, data.duration_ms]) column.splice(0, extra);
    if (grew) { draw(); tellWords(); }
  };

  const load = async () => {
    const answer = await fetch(section.dataset.url);
    if (!answer.ok || answer.redirected) { words.textContent = "The numbers could not be read."; return; }
    data = await answer.json();
    if (plots.length) draw();
    else if (data.at.length) build();
    tellWords();
  };

  document.addEventListener("mw:series", (event) => {
    if (event.detail.topic !== section.dataset.topic) return;
    if (plots.length) append(event.detail.series);
    else if (event.detail.series.at.length) load();
  });
  let resizing = 0;
  window.addEventListener("resize", () => { clearTimeout(resizing); resizing = setTimeout(() => { if (plots.length) build(); }, 150); });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { if (plots.length) build(); });
  setInterval(() => { if (!document.hidden) load(); }, AGAIN_MS);
  load();
})();
