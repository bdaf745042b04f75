// The findings of a loop: folded into a story, and one by one as evidence.

import { clockTime, h, plural, short, since, span } from "./dom.js";
import { usd } from "./money.js";

const strength = { allow: 0, warn: 1, hint: 2, throttle: 3, reject: 4, break: 5 };

// sorted returns the findings, strongest first.
export const sorted = (loop) => [...loop.findings].sort((a, b) => strength[b.action] - strength[a.action] || b.hit_count - a.hit_count);

// did describes what an action has done since a time.
const did = {
  warn: (at) => `noted it at ${at}`,
  hint: (at) => `told the model at ${at}`,
  throttle: (at) => `has slowed its requests down since ${at}`,
  reject: (at) => `has refused its requests since ${at}`,
  break: (at) => `has stopped its session since ${at}`,
};

// story returns a paragraph about who repeats what, what Unloop did, and what that saved.
export function story(loop, course) {
  const others = new Map(sorted(loop).filter((f) => f.title !== loop.title).map((f) => [f.title, f.text]).reverse()); // of each kind the strongest
  const open = loop.state === "open";
  const end = open ? `It ends at ${clockTime(loop.ends)} if nothing more is found.` : `It ended at ${clockTime(loop.ends)}, and its requests pass.`;
  return h("p", { class: "story" },
    open ? `Since ${clockTime(loop.first_seen)} (${since(loop.first_seen)}) an agent` : `From ${clockTime(loop.first_seen)} an agent`, loop.tenant ? [" of ", h("b", {}, loop.tenant)] : null,
    open ? " has been going in circles: " : " went in circles: ", h("b", {}, loop.text), others.size > 0 ? `; also ${[...others.values()].reverse().join("; ")}` : null, ". ",
    actions(loop, course), " ", cost(loop), end);
}

const list = (words) => (words.length < 2 ? words.join("") : `${words.slice(0, -1).join(", ")} and ${words.at(-1)}`);

function actions(loop, course) {
  if (loop.mode === "shadow") return `The policy ${loop.policy} only watches: it would ${loop.action}.`;
  const first = new Map();
  for (const p of course) if (!first.has(p.action)) first.set(p.action, p.at);
  if (!first.has(loop.action)) first.set(loop.action, loop.last_seen);
  const steps = [...first].filter(([action]) => did[action]).map(([action, at]) => did[action](clockTime(at)));
  return steps.length > 0 ? `Unloop ${list(steps)}.` : "";
}

function cost(loop) {
  const s = loop.saved;
  if (s.requests === 0) return "";
  return `${plural(s.requests, "request")} ${s.requests === 1 ? "was" : "were"} stopped, which saved about ${plural(s.input_tokens, "input token")}${s.usd === undefined ? "" : ` and ${usd(s.usd)}`}. `;
}

// evidence shows each finding with its count and threshold.
export function evidence(loop) {
  return sorted(loop).map((f) => {
    const threshold = f.threshold || (f.detector === loop.detector ? loop.threshold : 0);
    const seconds = f.window_seconds || loop.window_seconds;
    return h("div", { class: "finding" },
      h("p", {}, h("span", { class: `badge ${f.action}${loop.mode === "shadow" ? " shadow" : ""}` }, f.action), " ", h("strong", {}, f.detector), f.rule ? h("span", { class: "soft" }, ` ${f.rule}`) : null, " – ", f.title),
      meter(f.hit_count, threshold, seconds),
      f.similarity ? measure(f.similarity, 1, `similarity ${f.similarity.toFixed(3)}`) : null,
      f.calls?.length ? cycle(f) : null,
      f.excerpt ? h("blockquote", {}, f.excerpt) : null);
  });
}

function meter(hits, threshold, seconds) {
  const text = `${plural(hits, "hit")}${threshold ? `, threshold ${threshold}` : ""}${seconds ? `, within ${span(seconds)}` : ""}`;
  if (!threshold) return h("p", { class: "measure" }, text);
  return measure(hits, Math.max(hits, threshold) * 1.1, text, threshold);
}

function measure(value, top, text, mark) {
  const at = (120 * (mark ?? 0)) / top;
  return h("div", { class: "measure" },
    h("svg", { viewBox: "0 0 120 8", width: 120, height: 8, class: "meter", "aria-hidden": "true" },
      h("rect", { class: "rail", x: 0, y: 1, width: 120, height: 6, rx: 3 }),
      h("rect", { class: "value", x: 0, y: 1, width: Math.max(3, (120 * value) / top), height: 6, rx: 3 }),
      mark ? h("line", { class: "mark", x1: at, x2: at, y1: 0, y2: 8 }) : null),
    h("span", {}, text));
}

// cycle shows the repeated calls, each with the hashes of its arguments and its result.
function cycle(f) {
  const steps = f.calls.map((c) => h("li", {}, h("b", {}, c.tool || "call"), " ", h("code", { title: `tool and arguments ${c.call}` }, short(c.call, 6)),
    c.result ? [" = ", h("code", { title: `result ${c.result}` }, short(c.result, 6))] : null));
  return h("div", { class: "cycle" }, h("ol", {}, steps), h("span", { class: "soft", title: "seen so often" }, `↻ ${f.hit_count}×`));
}
