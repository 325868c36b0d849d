// Throughput and step time with incidents and checkpoints as marks. The facts beside them are HTML.
"use strict";
(() => {
  const section = document.getElementById("charts");
  if (!section || !window.uPlot) return;
  const words = section.querySelector("[data-chart-words]");
  const KEEP = 4000;
  const GAP_S = 15;
  const AGAIN_MS = 60000;
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  let data = { at: [], rate: [], duration_ms: [], unit: "", marks: [] };
  let plots = [];

  const markPainter = (u) => {
    const context = u.ctx;
    context.save();
    for (const mark of data.marks) {
      const x = Math.round(u.valToPos(mark.at, "x", true));
      if (x < u.bbox.left || x > u.bbox.left + u.bbox.width) continue;
      const incident = mark.kind === "incident";
      context.strokeStyle = colour(incident ? "--bad" : "--muted");
      context.fillStyle = context.strokeStyle;
      context.lineWidth = (incident ? 2 : 1) * devicePixelRatio;
      context.setLineDash(incident ? [] : [3 * devicePixelRatio, 4 * devicePixelRatio]);
      context.beginPath();
      context.moveTo(x, u.bbox.top);
      context.lineTo(x, u.bbox.top + u.bbox.height);
      context.stroke();
      if (incident) {
        context.font = `600 ${11 * devicePixelRatio}px sans-serif`;
        context.fillText(`▲ ${mark.label}`, x + 4 * devicePixelRatio, u.bbox.top + 12 * devicePixelRatio);
      }
    }
    context.restore();
  };

  const hours = (_, splits) => {
    const fine = splits.length > 1 && splits[1] - splits[0] < 60;
    return splits.map((at) => new Date(at * 1000).toLocaleTimeString([], { hour12: false, hour: "2-digit", minute: "2-digit", ...(fine ? { second: "2-digit" } : {}) }));
  };

  const options = (title, label, hue, width) => ({
    title, width, height: 220, cursor: { sync: { key: "run" } },
    scales: { x: { time: true } },
    series: [{ label: "Time", value: (_, at) => (at == null ? "–" : new Date(at * 1000).toLocaleTimeString([], { hour12: false })) }, { label, stroke: colour(hue), width: 1.6, spanGaps: false, points: { show: false }, value: (_, v) => (v == null ? "–" : v.toLocaleString(undefined, { maximumFractionDigits: 1 })) }],
    axes: [0, 1].map((side) => ({ stroke: colour("--muted"), grid: { stroke: colour("--line"), width: 1 }, ticks: { stroke: colour("--line") }, size: side ? 74 : 32, font: "12px sans-serif", ...(side ? {} : { values: hours }) })),
    hooks: { drawClear: [markPainter] },
  });

  const build = () => {
    plots.forEach((plot) => plot.destroy());
    const style = getComputedStyle(section);
    const width = Math.max(240, section.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight));
    plots = [
      new uPlot(options(`Throughput, ${data.unit || "steps/s"}`, data.unit || "rate", "--accent", width), [data.at, data.rate], document.getElementById("chart-rate")),
      new uPlot(options("Step time, ms", "ms", "--good", width), [data.at, data.duration_ms], document.getElementById("chart-time")),
    ];
  };
  const draw = () => { plots[0].setData([data.at, data.rate]); plots[1].setData([data.at, data.duration_ms]); };

  const tellWords = () => {
    const last = data.at.length - 1;
    words.textContent = last < 0 ? "No step was reported yet." : `Last: ${Math.round(data.rate[last] ?? 0).toLocaleString()} ${data.unit}, ${Math.round(data.duration_ms[last] ?? 0)} ms a step`;
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
