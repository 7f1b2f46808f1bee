// What pages do by themselves: parts that stay fresh, plots, keys, typed confirmations.
"use strict";
(() => {
  const LOST = document.getElementById("lost");
  let lostSince = null;

  const said = (answers) => {
    if (!LOST) return;
    if (answers) { lostSince = null; LOST.hidden = true; return; }
    lostSince = lostSince || new Date();
    LOST.textContent = "The console doesn't answer since " + lostSince.toLocaleTimeString() +
      ". What you see is of before; it goes on by itself when it answers again.";
    LOST.hidden = false;
  };

  // Asks for a path; null when there is no answer that can be used.
  const asked = async (path) => {
    try {
      const answer = await fetch(path, { credentials: "same-origin", cache: "no-store" });
      if (answer.status === 401) { location.reload(); return null; }
      said(true);
      return answer.ok ? answer : null;
    } catch { said(false); return null; }
  };

  // Calls `work` each `every` ms while the page is seen, one call after the other.
  const whileSeen = (every, work) => {
    const turn = async () => {
      if (!document.hidden) await work();
      setTimeout(turn, every);
    };
    setTimeout(turn, every);
  };

  // Parts of a page: replaced when they say something else, unless somebody works in them.
  for (const part of document.querySelectorAll("[data-live]")) {
    const fresh = async () => {
      const answer = await asked(part.dataset.live);
      if (!answer) return;
      const text = await answer.text();
      const selected = getSelection();
      const busy = part.contains(document.activeElement) ||
        (selected && !selected.isCollapsed && part.contains(selected.anchorNode));
      if (text === part.dataset.shown || busy) return;
      part.innerHTML = text;
      part.dataset.shown = text;
    };
    whileSeen(Number(part.dataset.every || 1000), fresh);
    if ("atOnce" in part.dataset) fresh();
  }

  // Plots: the columns of all plots of a page come in one answer, each time what is new.
  const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const short = (value) => value == null ? "–" : value >= 1e6 ? (value / 1e6).toFixed(1) + " M" :
    value >= 1e4 ? (value / 1e3).toFixed(0) + " k" : value >= 100 || value === Math.round(value) ?
      value.toLocaleString("en", { maximumFractionDigits: 0 }) : value.toFixed(1);

  const SHOWN_SECONDS = 300;
  const clock = (at) => new Date(at * 1e3).toLocaleTimeString("en-GB");

  class Plot {
    constructor(place) {
      this.place = place;
      this.lines = place.dataset.lines.split(";").filter(Boolean).map((one) => one.split("="));
      this.chart = null;
    }
    draw(columns) {
      if (columns.at.length < 2) return;
      const data = [columns.at, ...this.lines.map(([name]) => columns[name])];
      if (this.chart) { this.chart.setData(data); this.showLast(); return; }
      const axis = { stroke: color("--faint"), grid: { stroke: color("--line"), width: 1 },
        ticks: { show: false }, font: "11px " + color("--font"), };
      this.chart = new uPlot({
        width: this.place.clientWidth, height: 150, legend: { live: true },
        cursor: { y: false, points: { size: 6 } },
        hooks: { setCursor: [() => this.showLast()] },
        scales: { x: { range: (_chart, low, high) => [Math.min(Math.max(low, high - SHOWN_SECONDS), high - 60), high] }, y: { range: (_chart, _low, high) => [0, high > 0 ? high * 1.1 : 1] } },
        axes: [{ ...axis, space: 90, size: 28, values: (_chart, ticks) => ticks.map(clock) }, { ...axis, size: 48, values: (_chart, ticks) => ticks.map(short) }],
        series: [{ value: (_chart, at) => at == null ? "" : new Date(at * 1e3).toLocaleTimeString() },
          ...this.lines.map(([, label], nth) => ({
            label, stroke: color("--plot-" + (nth + 1)), width: nth ? 1.6 : 2,
            fill: nth ? undefined : color("--plot-1") + "1f", points: { show: false },
            value: (_chart, value) => value == null ? "–" : short(value) + this.place.dataset.unit,
          }))],
      }, data, this.place);
      this.showLast();
    }
    // Where nobody points at a moment the legend says the newest values.
    showLast() {
      const chart = this.chart;
      if (chart && !(chart.cursor.left >= 0)) chart.setLegend({ idx: chart.data[0].length - 1 });
    }
    forget() { if (this.chart) { this.chart.destroy(); this.chart = null; } }
    fit() { if (this.chart) this.chart.setSize({ width: this.place.clientWidth, height: 150 }); }
  }

  for (const group of document.querySelectorAll("[data-columns]")) {
    const plots = [...group.querySelectorAll("[data-plot]")].map((place) => new Plot(place));
    let columns = null;
    const more = async () => {
      const after = columns && columns.at.length ? columns.at[columns.at.length - 1] : 0;
      const answer = await asked(group.dataset.columns + "?after=" + after);
      if (!answer) return;
      const newer = await answer.json();
      if (columns === null) columns = newer;
      else {
        const oldest = Date.now() / 1e3 - 2 * SHOWN_SECONDS;
        const gone = columns.at.filter((at) => at < oldest).length;
        for (const name of Object.keys(columns)) columns[name] = columns[name].slice(gone).concat(newer[name]);
      }
      for (const plot of plots) plot.draw(columns);
      group.dataset.points = columns.at.length;
    };
    more();
    whileSeen(1000, more);
    addEventListener("resize", () => plots.forEach((plot) => plot.fit()));
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
      for (const plot of plots) { plot.forget(); if (columns) plot.draw(columns); }
    });
  }

  // Keys.
  const PLACES = { n: "/", s: "/subscriptions", q: "/queues", t: "/topics", m: "/messages", p: "/proof" };
  const dialog = document.getElementById("keys");
  const help = () => { if (dialog && !dialog.open) dialog.showModal(); };
  let going = 0;
  for (const button of document.querySelectorAll("[data-keys]")) button.addEventListener("click", help);
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.closest && event.target.closest("input, textarea, select")) return;
    if (event.key === "?") { help(); event.preventDefault(); return; }
    if (event.key === "/") {
      const search = document.querySelector("input[type=search]");
      if (search) { search.focus(); search.select(); event.preventDefault(); }
      return;
    }
    if (event.key === "g") { going = event.timeStamp; return; }
    if (going && event.timeStamp - going < 1500 && PLACES[event.key]) location.href = PLACES[event.key];
    going = 0;
  });

  // What takes data away is typed before its button can be pressed.
  for (const field of document.querySelectorAll("[data-confirm]")) {
    const button = field.form.querySelector("button[data-guarded]");
    const look = () => { button.disabled = field.value !== field.dataset.confirm; };
    field.addEventListener("input", look);
    look();
  }
  document.documentElement.dataset.ready = "yes";
})();
