// What a loop repeats: its newest rounds, whose text the gateway keeps for minutes.

import { get } from "./api.js";
import { h, when } from "./dom.js";

// read caches rounds by loop, so that they are there at once when a loop is drawn again.
const read = new Map();

// rounds returns the element with a loop's rounds. It stays empty if no gateway has them.
export function rounds(loop) {
  const el = h("div", { class: "rounds", hidden: true });
  const known = read.get(loop.loop_id);
  if (known) fill(el, known);
  get(`loops/${encodeURIComponent(loop.loop_id)}/rounds`).then((data) => {
    read.set(loop.loop_id, data);
    if (read.size > 100) read.delete(read.keys().next().value);
    fill(el, data);
  }, () => {});
  return el;
}

function fill(el, data) {
  const list = data.rounds ?? [];
  if (list.length === 0 && !data.prompt) return;
  el.hidden = false;
  el.replaceChildren(...[
    h("h3", {}, "What it repeats"),
    data.prompt ? h("p", { class: "prompt" }, h("b", {}, "Prompt "), data.prompt) : null,
    list.length > 0 ? table(list) : null,
    h("p", { class: "note" }, "As of ", when(data.at), ". The gateway keeps these texts in memory for 15 minutes, with likely secrets masked."),
  ].filter(Boolean));
}

// table lists rounds. It marks what differs from the previous round with the same call.
function table(list) {
  const last = new Map();
  const rows = list.map((r, i) => {
    const name = r.tool || "says";
    const before = last.get(name) ?? {};
    last.set(name, r);
    return h("tr", {}, h("td", {}, String(i + 1)), h("td", {}, r.tool ? h("b", {}, r.tool) : h("i", {}, "says")),
      h("td", {}, h("pre", {}, differing(r.tool ? r.arguments : r.said, r.tool ? before.arguments : before.said))),
      h("td", {}, h("pre", {}, differing(r.result, before.result))));
  });
  return h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Rounds" },
    h("table", {}, h("thead", {}, h("tr", {}, ["#", "Call", "Arguments", "Result"].map((t) => h("th", { scope: "col" }, t)))), h("tbody", {}, rows)));
}

// differing returns a text in which the difference from another one is marked.
function differing(text = "", before) {
  if (before === undefined || before === text) return [text];
  let from = 0;
  while (from < text.length && from < before.length && text[from] === before[from]) from++;
  let end = 0;
  while (end < text.length - from && end < before.length - from && text[text.length - 1 - end] === before[before.length - 1 - end]) end++;
  return [text.slice(0, from), h("mark", {}, text.slice(from, text.length - end)), text.slice(text.length - end)];
}
