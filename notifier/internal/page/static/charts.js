// Charts as SVG: an amount that grows, columns over time, and a bar of parts.

import { clockTime, grouped, h } from "./dom.js";

const axis = 20;

// frame returns an SVG as wide as an element, with a label for screen readers.
function frame(el, height, label) {
  const width = Math.max(el.clientWidth, 240);
  return { width, svg: h("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label }) };
}

// times returns the labels of begin and end below a chart.
const times = (width, height, begin, end) => [
  h("text", { class: "hour", x: 0, y: height - 5 }, clockTime(begin, false)),
  h("text", { class: "hour", x: width, y: height - 5, "text-anchor": "end" }, clockTime(end, false)),
];

// growth draws a growing amount: points are { at, value }, oldest first, with times in
// milliseconds.
export function growth(el, points, begin, end, { write, label }) {
  const height = 110;
  const most = Math.max(...points.map((p) => p.value), 0);
  const { svg, width } = frame(el, height, `${label}: ${write(most)} from ${clockTime(begin, false)} to ${clockTime(end, false)}`);
  const x = (t) => (Math.min(1, Math.max(0, (t - begin) / Math.max(end - begin, 1))) * width).toFixed(1);
  const y = (v) => (height - axis - 2 - (most > 0 ? (v / most) * (height - axis - 20) : 0)).toFixed(1);
  let line = `M0 ${y(0)}`;
  for (const p of points) line += ` H${x(p.at)} V${y(p.value)}`;
  line += ` H${width}`;
  svg.append(
    h("path", { class: "area", d: `${line} V${height - axis} H0 Z` }),
    h("path", { class: "line", d: line }),
    h("line", { class: "base", x1: 0, x2: width, y1: height - axis, y2: height - axis }),
    h("text", { class: "amount", x: width, y: 12, "text-anchor": "end" }, write(most)),
    ...times(width, height, begin, end));
  el.replaceChildren(svg);
}

export const kinds = ["warn", "hint", "throttle", "reject", "break", "shadow"];

// columns draws how many loops were open in each step, by action.
export function columns(el, steps, label) {
  const height = 84;
  const count = (s) => kinds.reduce((n, k) => n + (s.open[k] ?? 0), 0);
  const most = Math.max(1, ...steps.map(count));
  const { svg, width } = frame(el, height, `${label}: at most ${most}, now ${count(steps.at(-1))}`);
  const each = width / steps.length;
  steps.forEach((s, i) => {
    let top = height - 14;
    for (const k of kinds) {
      const tall = ((s.open[k] ?? 0) / most) * (height - 30);
      if (tall === 0) continue;
      top -= Math.max(tall, 1);
      svg.append(h("rect", { class: `bar ${k}`, x: i * each + 0.5, y: top, width: Math.max(each - 1, 1), height: Math.max(tall, 1) },
        h("title", {}, `${clockTime(s.at, false)}: ${kinds.filter((n) => s.open[n]).map((n) => `${s.open[n]} ${n}`).join(", ")}`)));
    }
  });
  svg.append(h("line", { class: "base", x1: 0, x2: width, y1: height - 14, y2: height - 14 }),
    h("text", { class: "amount", x: 0, y: 11 }, `at most ${grouped(most)} open at once`));
  el.replaceChildren(svg);
}

// parts draws a bar of parts: { name, value, kind }.
export function parts(list, label) {
  const all = list.reduce((n, p) => n + p.value, 0);
  let at = 0;
  const svg = h("svg", { viewBox: "0 0 100 8", preserveAspectRatio: "none", class: "parts", role: "img", "aria-label": `${label}: ${list.map((p) => `${p.value} ${p.name}`).join(", ")}` });
  for (const p of list) {
    if (p.value === 0) continue;
    svg.append(h("rect", { class: p.kind, x: at, y: 0, width: (100 * p.value) / all, height: 8 }));
    at += (100 * p.value) / all;
  }
  return [svg, h("ul", { class: "legend" }, list.map((p) => h("li", { class: p.kind }, h("b", {}, grouped(p.value)), ` ${p.name}`)))];
}
