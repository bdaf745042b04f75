// Charts of the overview: cost saved over time, what became of hints, and top lists.

import { growth, parts } from "./charts.js";
import { fill, h, hash, number, plural, setText, $ } from "./dom.js";
import { usd } from "./money.js";

const empty = (text) => h("p", { class: "empty" }, text);

// saved draws what was saved over time: money, or requests if no price is known.
export function saved(timeline) {
  const steps = timeline.steps;
  const priced = steps.some((s) => s.saved.usd !== undefined);
  const amount = (s) => (priced ? s.saved.usd ?? 0 : s.saved.requests);
  const write = priced ? usd : (n) => plural(n, "request");
  const length = steps.length > 1 ? Date.parse(steps[1].at) - Date.parse(steps[0].at) : 0;
  let sum = 0;
  const points = steps.map((s) => ({ at: Date.parse(s.at) + length / 2, value: (sum += amount(s)) }));
  setText($("saved-note"), priced ? "" : "no price is known, so requests are counted");
  if (sum === 0) $("saved-chart").replaceChildren(empty("Nothing was stopped in this time."));
  else growth($("saved-chart"), points, Date.parse(timeline.since), Date.parse(timeline.until), { write, label: priced ? "Cost saved" : "Requests stopped" });
}

// afterHints shows what became of loops after a hint to the model.
export function afterHints(stats) {
  const a = stats.after_hints;
  const all = a.recovered + a.open + a.stopped;
  fill($("hints-chart"), JSON.stringify(a), () => {
    if (all === 0) return empty("No loop had a hint in this time.");
    const over = a.recovered + a.stopped;
    return [
      over > 0 ? h("p", { class: "figure" }, h("strong", {}, `${Math.round((100 * a.recovered) / over)} %`), " went on without being stopped") : null,
      parts([{ name: "recovered", value: a.recovered, kind: "good" }, { name: "open", value: a.open, kind: "hint" }, { name: "stopped later", value: a.stopped, kind: "reject" }], "Loops after a hint"),
    ];
  });
}

// summary shows the numbers of a time range.
export function summary(stats, range) {
  const s = stats.saved;
  const list = [
    ["open now", number(stats.open), stats.open > 0 ? "alert" : ""],
    [`loops in ${range}`, number(stats.detected), ""],
    ["requests stopped", number(s.requests), ""],
    ["input tokens saved", number(s.input_tokens), ""],
    ["saved, estimated", s.usd === undefined ? "–" : usd(s.usd), s.unpriced ? "partial" : ""],
  ];
  const note = s.unpriced ? `${plural(s.unpriced, "request")} of models without a price are left out` : undefined;
  fill($("numbers"), JSON.stringify(list) + note, () => list.map(([name, value, kind]) => h("div", { class: kind, title: kind === "partial" ? note : undefined }, h("dt", {}, name), h("dd", {}, value))));
}

// tops draws the names with the most loops. pick filters the list by one.
export function tops(el, list, property, pick) {
  fill(el, JSON.stringify(list), () => {
    if (list.length === 0) return empty(`No ${property} had a loop in this time.`);
    const most = Math.max(...list.map((t) => t.saved.requests || t.loops), 1);
    return h("ol", {}, list.map((t) => h("li", {},
      h("button", { type: "button", class: "name", title: `Show the open loops of ${t.name}`, onclick: () => pick(property, t.name) }, property === "caller" ? hash(t.name, 12) : t.name),
      h("svg", { viewBox: "0 0 100 6", preserveAspectRatio: "none", class: "meter", "aria-hidden": "true" },
        h("rect", { class: "rail", width: 100, height: 6 }), h("rect", { class: "value", width: (100 * (t.saved.requests || t.loops)) / most, height: 6 })),
      h("span", { class: "figures" }, `${plural(t.loops, "loop")}${t.open ? `, ${number(t.open)} open` : ""} · ${number(t.saved.requests)} stopped${t.saved.usd === undefined ? "" : ` · ${usd(t.saved.usd)}`}`))));
  });
}
