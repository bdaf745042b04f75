// The timeline: a bar for each loop, from its first finding to its end.

import { clockTime, h, plural } from "./dom.js";

const lane = 14;
const gap = 4;
const axis = 22;
const maxLanes = 12;

// steps are the distances of the axis's marks, in milliseconds.
const steps = [60e3, 300e3, 600e3, 1800e3, 3600e3, 3 * 3600e3, 6 * 3600e3, 12 * 3600e3, 24 * 3600e3];

// draw draws the loops of a timeline, and returns how many have no bar.
export function draw(el, timeline, select) {
  const width = Math.max(el.clientWidth, 240);
  const begin = Date.parse(timeline.since);
  const end = Date.parse(timeline.until);
  const range = end - begin;
  const x = (t) => Math.min(width, Math.max(0, ((t - begin) / range) * width));
  const { lanes, drawn } = pack(timeline.bars, begin, end, (3 * range) / width);
  const height = Math.max(lanes.length, 2) * (lane + gap) + gap + axis;
  const svg = h("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `Timeline: ${drawn} of ${plural(timeline.total, "loop")} as bars` });
  svg.append(...marks(begin, end, width, height, x));
  lanes.forEach((bars, i) => bars.forEach((b) => svg.append(bar(b, x, gap + i * (lane + gap), select))));
  el.replaceChildren(svg);
  return timeline.total - drawn;
}

// pack arranges the loops in lanes without overlaps.
function pack(loops, begin, end, least) {
  const bars = loops.map((loop) => {
    const from = Math.max(begin, Date.parse(loop.first_seen));
    const to = loop.state === "open" ? end : Math.max(Date.parse(loop.last_seen), from);
    return { loop, from, to: Math.max(to, from + least) };
  }).sort((a, b) => a.from - b.from);
  const lanes = [];
  let drawn = 0;
  for (const b of bars) {
    let free = lanes.find((l) => l[l.length - 1].to + least < b.from);
    if (!free && lanes.length < maxLanes) lanes.push((free = []));
    if (!free) continue;
    free.push(b);
    drawn++;
  }
  return { lanes, drawn };
}

function bar(b, x, y, select) {
  const from = x(b.from);
  const width = Math.max(3, x(b.to) - from);
  const { loop } = b;
  const rect = h("rect", {
    x: from, y, width, height: lane, rx: 3, class: `bar ${loop.action}${loop.mode === "shadow" ? " shadow" : ""}${loop.state === "open" ? " live" : ""}`,
    onclick: () => select(loop),
  }, h("title", {}, `${loop.policy}: ${loop.title}\n${plural(loop.hit_count, "hit")}, ${loop.mode === "shadow" ? "would " : ""}${loop.action}\n${clockTime(loop.first_seen)} – ${loop.state === "open" ? "now" : clockTime(loop.last_seen)}`));
  if (width < 90) return rect;
  return h("g", {}, rect, h("text", { x: from + 6, y: y + lane - 3.5, class: "label" }, cut(loop.title, width)));
}

const cut = (text, width) => {
  const room = Math.floor((width - 12) / 6.2);
  return text.length <= room ? text : text.slice(0, Math.max(0, room - 1)) + "…";
};

function* marks(begin, end, width, height, x) {
  const step = steps.find((s) => (end - begin) / s <= Math.max(3, width / 90)) ?? steps.at(-1);
  const zone = new Date(begin).getTimezoneOffset() * 60e3;
  yield h("line", { class: "base", x1: 0, x2: width, y1: height - axis, y2: height - axis });
  for (let t = Math.ceil((begin - zone) / step) * step + zone; t <= end; t += step) {
    const at = x(t);
    yield h("line", { class: "tick", x1: at, x2: at, y1: 0, y2: height - axis + 4 });
    if (at > 16 && at < width - 40) yield h("text", { class: "hour", x: at, y: height - 6, "text-anchor": "middle" }, label(t, step));
  }
  yield h("text", { class: "hour", x: width, y: height - 6, "text-anchor": "end" }, "now");
}

function label(t, step) {
  const d = new Date(t);
  if (step >= 12 * 3600e3) return d.toLocaleDateString(undefined, { weekday: "short", day: "numeric" });
  return d.toLocaleTimeString(undefined, { hour: "2-digit", minute: "2-digit", hour12: false });
}
