// The page: fetches what changed, and draws it.

import { follow, get } from "./api.js";
import { clockTime, h, hash, plural, reconcile, setText, toast, $ } from "./dom.js";
import { matches, row, update } from "./loop.js";
import { openSilence, prepareSilence } from "./silence.js";
import * as side from "./side.js";
import * as well from "./well.js";
import { draw } from "./timeline.js";

const ranges = { "15m": 900e3, "1h": 3600e3, "6h": 6 * 3600e3, "24h": 24 * 3600e3, "168h": 168 * 3600e3 };
const data = {};
const view = { range: "1h", words: [], since: null, failing: null };

const context = {
  open: new Set(),
  readOnly: "",
  redraw,
  refresh,
  silence: (loop) => openSilence(loop, context),
};

// sources are the paths that parts of the page are read from, by the name that the
// stream of changes gives them.
const sources = {
  loops: () => [["loops", "loops?limit=500&state=open"], ["history", `loops?limit=1000&since=${view.range}`], ["stats", `stats?since=${view.range}`]],
  deliveries: () => [["deliveries", "deliveries?limit=20"], ["endpoints", "endpoints"]],
  silences: () => [["silences", "silences"], ["overrides", "overrides"], ["audit", "audit?limit=50"]],
  policies: () => [["policies", "policies"]],
  health: () => [["health", "health"]],
};
const aliases = { events: "loops", overrides: "silences", endpoints: "deliveries" };

let wanted = new Set();
let busy = false;

// refresh reads parts again, those of several calls together.
async function refresh(parts) {
  for (const p of parts) wanted.add(aliases[p] ?? p);
  if (busy) return;
  busy = true;
  while (wanted.size > 0) {
    const now = [...wanted];
    wanted = new Set();
    try {
      await Promise.all(now.flatMap((p) => sources[p]?.() ?? []).map(async ([name, path]) => (data[name] = await get(path))));
      working();
    } catch (err) {
      failed(err);
      setTimeout(() => refresh(now), 3000);
    }
    redraw();
  }
  busy = false;
}

function working() {
  if (view.failing) toast("Unloop answers again.");
  view.failing = null;
}

function failed(err) {
  view.failing ??= { since: new Date() };
  view.failing.error = err;
}

function banner() {
  const el = $("banner");
  const f = view.failing;
  let text = "";
  if (f && f.error.status === 0) text = `Unloop does not answer since ${clockTime(f.since)}. What you see is from before; this page tries again by itself.`;
  else if (f) text = `Unloop answers with an error since ${clockTime(f.since)}: ${f.error.message}. This page tries again by itself.`;
  else if (data.health?.nats) text = `The notifier can't use NATS, so this page may be out of date: ${data.health.nats}`;
  else if (data.loops?.omitted) text = "More loops are open than this page keeps: the newest 2,000 are shown.";
  setText(el, text);
  el.hidden = text === "";
  document.body.classList.toggle("stale", Boolean(f));
}

function redraw() {
  banner();
  if (data.health) {
    context.readOnly = data.health.read_only ?? "";
    $("add-silence").disabled = Boolean(context.readOnly);
    $("add-silence").title = context.readOnly;
    side.health(data.health);
    well.draw(data.health);
  }
  if (data.loops) drawLoops();
  if (data.history) drawHistory();
  if (data.stats) {
    side.summary(data.stats, document.querySelector(`[data-range="${view.range}"]`).textContent);
    side.tops($("top-policies"), data.stats.policies, "policy", (name) => name, pick);
    side.tops($("top-callers"), data.stats.callers, "caller", (name) => hash(name, 12), pick);
  }
  if (data.deliveries && data.endpoints) side.deliveries(data.deliveries, data.endpoints, context);
  if (data.silences && data.overrides) side.silences(data.silences, data.overrides, context);
  if (data.audit) side.audit(data.audit);
  if (data.policies) side.policies(data.policies);
}

function pick(name) {
  $("filter").value = name;
  filter();
  $("live").scrollIntoView({ block: "start" });
}

function drawRows(el, loops) {
  reconcile(el, loops, (l) => l.id, (l) => row(l, context), (node, l) => update(node, l, context));
}

function drawLoops() {
  const all = data.loops.loops;
  const shown = all.filter((l) => matches(l, view.words));
  drawRows($("live-rows"), shown);
  setText($("live-count"), all.length === 0 ? "" : shown.length === data.loops.total ? plural(all.length, "loop") : `${shown.length} of ${data.loops.total}`);
  document.title = all.length > 0 ? `(${data.loops.total}) Unloop` : "Unloop";
  const empty = $("live-empty");
  empty.hidden = shown.length > 0;
  if (shown.length === 0) drawEmpty(empty, all.length);
}

function drawEmpty(el, hidden) {
  const gateways = data.health?.parts.filter((p) => p.service === "gateway" && p.state === "ready").length;
  const key = `${hidden > 0} ${gateways}`;
  if (el.dataset.key === key) return;
  el.dataset.key = key;
  if (hidden > 0) el.replaceChildren(h("p", {}, "No open loop has these words. ", h("button", { type: "button", onclick: () => { $("filter").value = ""; filter(); } }, "Show all")));
  else if (gateways === 0) el.replaceChildren(h("p", {}, h("strong", {}, "No gateway is ready, so nothing is watched."), " Start one with ", h("code", {}, "unloop gateway"), " or ", h("code", {}, "unloop up"), ", and point an agent's base URL at it."));
  else el.replaceChildren(h("p", {}, h("strong", {}, "No agent goes in circles."), " A loop appears here within a second of being found. To see one, run ", h("code", {}, "unloop demo"), "."));
}

function drawHistory() {
  const all = data.history.loops.filter((l) => matches(l, view.words));
  const left = draw($("chart"), all, ranges[view.range], select);
  const note = $("chart-note");
  note.hidden = left === 0 && all.length > 0;
  setText(note, all.length === 0 ? "No loop in this time." : `${left} more at the same time are not drawn; the list has them.`);
  const past = all.filter((l) => l.state !== "open");
  setText($("past-count"), past.length ? String(past.length) : "");
  if ($("past").open) drawRows($("past-rows"), past.slice(0, 200));
  $("past-empty").hidden = past.length > 0;
  setText($("past-empty"), "No loop has ended in this time.");
}

// select opens a loop and shows it.
function select(loop) {
  context.open.add(loop.id);
  if (loop.state !== "open") $("past").open = true;
  redraw();
  const el = document.querySelector(`[data-key="${CSS.escape(loop.id)}"]`);
  el?.scrollIntoView({ block: "center" });
  el?.querySelector("button")?.focus({ preventScroll: true });
}

// fromAddress shows the loop that the address names.
async function fromAddress() {
  const id = new URLSearchParams(location.hash.slice(1)).get("loop");
  if (!id) return;
  try {
    const loop = await get(`loops/${encodeURIComponent(id)}`);
    if (loop.state !== "open" && Date.now() - Date.parse(loop.ends) > ranges[view.range]) setRange("168h");
    await refresh(["loops"]);
    select(loop);
  } catch (err) {
    toast(err.message, true);
  }
}

function filter() {
  view.words = $("filter").value.toLowerCase().split(/\s+/).filter(Boolean);
  redraw();
}

function setRange(range) {
  view.range = range;
  for (const b of document.querySelectorAll("[data-range]")) b.setAttribute("aria-pressed", String(b.dataset.range === range));
}

for (const b of document.querySelectorAll("[data-range]")) {
  b.addEventListener("click", () => {
    setRange(b.dataset.range);
    refresh(["loops"]);
  });
}
$("filter").addEventListener("input", filter);
$("past").addEventListener("toggle", redraw);
addEventListener("keydown", (e) => {
  if (e.key === "/" && !/^(INPUT|SELECT|TEXTAREA)$/.test(document.activeElement?.tagName) && !e.ctrlKey && !e.metaKey && !e.altKey) {
    e.preventDefault();
    $("filter").focus();
  }
  if (e.key === "Escape" && document.activeElement === $("filter")) {
    $("filter").value = "";
    filter();
  }
});
addEventListener("hashchange", fromAddress);
let resizing;
new ResizeObserver(() => {
  cancelAnimationFrame(resizing);
  resizing = requestAnimationFrame(() => data.history && drawHistory());
}).observe($("chart"));

prepareSilence(context);
const everything = Object.keys(sources);
follow((parts) => refresh(parts), (open) => {
  const el = $("connection");
  el.className = `connection ${open ? "live" : "lost"}`;
  setText(el.querySelector(".text"), open ? "live" : "reconnecting");
  if (!open) refresh(["health"]);
});
await refresh(everything);
fromAddress();
setInterval(() => document.hidden || refresh(["health", "policies"]), 5000);
setInterval(() => document.hidden || redraw(), 1000);
