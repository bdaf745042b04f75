// The page: reads what changed, and draws it.

import { go, link, query, read, view } from "./address.js";
import { follow } from "./api.js";
import { drawWhy, openBlock, prepareBlock } from "./block.js";
import { columns } from "./charts.js";
import { clockTime, fill, grouped, h, plural, setText, toast, $ } from "./dom.js";
import { newFeed } from "./feed.js";
import * as insights from "./insights.js";
import { prepareKeys } from "./keys.js";
import { drawControls, drawList, drawRows, pastPath, path, prepareList } from "./list.js";
import * as loops from "./loop.js";
import { newSelection } from "./selection.js";
import * as side from "./side.js";
import { openSilence, prepareSilence } from "./silence.js";
import { draw } from "./timeline.js";
import * as well from "./well.js";

const data = {};
// failing has the first error of each part that can't be read.
const failing = new Map();

const context = { view, readOnly: "", sealed: false, redraw, refresh, silence: openSilence, block: openBlock };
context.selection = newSelection(context);

// sources return what each part of the page reads, by the part's name in the stream of changes.
const sources = {
  loops: () => (view.loop ? [] : [["list", path()], ...($("past").open ? [["past", pastPath()]] : [])]),
  charts: () => [["stats", `stats?since=${view.range}`], ...(view.loop ? [] : [["timeline", "timeline?" + query({ since: view.range })]])],
  loop: () => (view.loop ? [["loop", () => loops.read(view.loop).catch(gone)]] : []),
  deliveries: () => [["deliveries", "deliveries?limit=20"], ["endpoints", "endpoints"]],
  silences: () => [["silences", "silences"], ["overrides", "overrides"], ...(reads($("audit")) ? [["audit", "audit?limit=50"]] : [])],
  policies: () => [["policies", "policies"]],
  health: () => [["health", "health"]],
};
const also = { loops: ["charts", "loop"], events: ["loops", "charts", "loop"], overrides: ["silences", "loop"], silences: ["loops", "loop"], deliveries: ["loop"], endpoints: ["deliveries"] };

// reads reports whether to read the content of details: it is open, and NATS can be used.
const reads = (details) => details.open && !data.health?.nats;

// gone returns what is shown for an unknown loop.
function gone(err) {
  if (err.status !== 404) throw err;
  return { fault: err.message };
}

const feed = newFeed(sources, data, (part, error) => {
  if (error) failing.set(part, { since: failing.get(part)?.since ?? new Date(), error });
  else if (failing.delete(part) && failing.size === 0) toast("Unloop answers again.");
  redraw();
});

function refresh(names) {
  return feed([...new Set(names.flatMap((n) => [n, ...(also[n] ?? [])]))]);
}

function banner() {
  const [f] = failing.values();
  let text = "";
  if (f && f.error.status === 0) text = `Unloop does not answer since ${clockTime(f.since)}. What you see is from before; this page tries again by itself.`;
  else if (f) text = `Unloop answers with an error since ${clockTime(f.since)}: ${f.error.message}. This page tries again by itself.`;
  else if (data.health?.nats) text = `The notifier can't use NATS, so this page may be out of date: ${data.health.nats}`;
  else if (data.list?.omitted) text = "More loops are open than a notifier keeps: the newest 10,000 are shown.";
  setText($("banner"), text);
  $("banner").hidden = text === "";
  document.body.classList.toggle("stale", Boolean(f));
}

function redraw() {
  banner();
  $("loop-view").hidden = !view.loop;
  $("overview").hidden = Boolean(view.loop);
  if (data.overrides) context.sealed = data.overrides.sealed;
  if (data.health) {
    context.readOnly = data.health.read_only ?? "";
    $("add-silence").disabled = Boolean(context.readOnly);
    $("add-silence").title = context.readOnly;
    well.draw(data.health);
  }
  drawWhy();
  if (data.stats) document.title = data.stats.open > 0 ? `(${data.stats.open}) Unloop` : "Unloop";
  if (view.loop) {
    if (data.loop && (data.loop.fault || data.loop.loop.loop_id === view.loop)) loops.drawLoop(data.loop, data.overrides, context);
  } else drawOverview();
}

function drawOverview() {
  drawControls();
  if (data.list?.of === path()) {
    drawList(data.list, context);
    drawEmpty();
  } else if (data.list) refresh(["loops"]); // it is of another view, or of a window of another size
  if (data.timeline) drawTimeline();
  if (data.past) drawPast();
  if (data.stats) {
    insights.summary(data.stats, document.querySelector(`[data-range="${view.range}"]`)?.textContent ?? view.range);
    insights.afterHints(data.stats);
    for (const [name, list] of [["tool", "tools"], ["policy", "policies"], ["caller", "callers"]]) insights.tops($(`top-${list}`), data.stats[list], name, pick);
  }
  if (data.health) side.health(data.health);
  if (data.deliveries && data.endpoints) side.deliveries(data.deliveries, data.endpoints, context);
  if (data.silences && data.overrides) side.silences(data.silences, data.overrides, context);
  if (data.audit) side.audit(data.audit);
  if (data.policies) side.policies(data.policies);
}

// pick narrows the list to one value of a property.
function pick(property, name) {
  go({ group: "", only: { ...view.only, [property]: name } });
  refresh(["loops"]);
  $("live").scrollIntoView({ block: "start" });
  $("live").focus({ preventScroll: true });
}

function drawEmpty() {
  const total = data.list.total;
  const narrowed = view.q.trim() !== "" || Object.keys(view.only).length > 0;
  const gateways = data.health?.parts.filter((p) => p.service === "gateway" && p.state === "ready").length;
  $("live-empty").hidden = total > 0;
  fill($("live-empty"), `${narrowed} ${gateways}`, () => {
    if (narrowed) return h("p", {}, "No open loop is like this. ", h("a", { href: link({ q: "", only: {} }) }, "Show all"));
    if (gateways === 0) return h("p", {}, h("strong", {}, "No gateway is ready, so nothing is watched."), " Start one with ", h("code", {}, "unloop gateway"), " or ", h("code", {}, "unloop up"), ", and point an agent's base URL at it.");
    return h("p", {}, h("strong", {}, "No agent is going in circles."), " A loop appears here within a second of being found. To see one, run ", h("code", {}, "unloop demo"), ".");
  });
}

let drawn = "";

// drawTimeline redraws the charts if they changed.
function drawTimeline() {
  const key = data.timeline.until + $("chart").clientWidth;
  if (drawn === key) return;
  drawn = key;
  const left = draw($("chart"), data.timeline, (bar) => { location.hash = link({ loop: bar.loop_id, page: view.page }); });
  $("open-chart").hidden = data.timeline.total === 0;
  if (data.timeline.total > 0) columns($("open-chart"), data.timeline.steps, "Open loops");
  const note = $("chart-note");
  note.hidden = left === 0 && data.timeline.total > 0;
  setText(note, data.timeline.total === 0 ? "No loop in this time." : `${plural(left, "loop")} of ${grouped(data.timeline.total)} found no room for a bar; the columns above count all.`);
  insights.saved(data.timeline);
}

function drawPast() {
  setText($("past-count"), data.past.total ? plural(data.past.total, "loop") : "");
  drawRows($("past-rows"), data.past.loops, context);
  const more = data.past.total - data.past.loops.length;
  $("past-empty").hidden = more === 0 && data.past.total > 0;
  setText($("past-empty"), data.past.total === 0 ? "No loop has ended in this time." : `${plural(more, "more loop")}: filter for them, or use GET /api/v1/loops?state=resolved.`);
}

// show draws what the address says.
function show() {
  if (!read()) {
    if (!view.loop) return; // the browser goes to the section
    view.loop = "";
    redraw();
    document.getElementById(location.hash.slice(1))?.scrollIntoView();
  }
  for (const b of document.querySelectorAll("[data-range]")) b.setAttribute("aria-pressed", String(b.dataset.range === view.range));
  const before = document.activeElement;
  redraw();
  if (view.loop) {
    scrollTo(0, 0);
    $("loop-view").focus({ preventScroll: true });
  } else if (shown) {
    const row = [...$("live-rows").children].find((el) => el.dataset.key === shown);
    (row?.querySelector("a[href]") ?? $("live")).focus({ preventScroll: true });
    row?.scrollIntoView({ block: "center" });
  } else if (!before.isConnected) $("live").focus({ preventScroll: true });
  shown = view.loop;
  refresh(["loops"]);
}

// shown is the loop that was shown last.
let shown = "";

for (const b of document.querySelectorAll("[data-range]")) {
  b.addEventListener("click", () => {
    go({ range: b.dataset.range, page: view.page }, true);
    show();
  });
}
$("past").addEventListener("toggle", () => refresh(["loops"]));
$("audit").addEventListener("toggle", () => refresh(["silences"]));
addEventListener("hashchange", show);
let resizing;
addEventListener("resize", () => {
  cancelAnimationFrame(resizing);
  resizing = requestAnimationFrame(redraw);
});

prepareSilence(context);
prepareBlock(context);
prepareList(context);
prepareKeys(context);
show();
const everything = Object.keys(sources);
follow((parts) => document.hidden || refresh(parts), (open) => {
  const el = $("connection");
  el.className = `connection ${open ? "live" : "lost"}`;
  setText(el.querySelector(".text"), open ? "live" : "reconnecting");
  if (!open) refresh(["health"]);
});
refresh(everything);
document.addEventListener("visibilitychange", () => document.hidden || refresh(everything));
setInterval(() => document.hidden || refresh(["health", "policies"]), 5000);
setInterval(() => document.hidden || refresh(["charts"]), 10000);
setInterval(() => document.hidden || redraw(), 1000);
