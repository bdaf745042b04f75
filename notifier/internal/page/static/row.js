// A loop in the list: one line with what can be done about it.

import { confirmed, release } from "./act.js";
import { loopLink } from "./address.js";
import { clockTime, fill, h, hash, number, plural, setText, since, span } from "./dom.js";
import { usd } from "./money.js";

// actionBadge shows the action on a loop.
export function actionBadge(loop) {
  const shadow = loop.mode === "shadow";
  const text = (shadow ? "would " : "") + (loop.answer === "synthetic" ? "answer" : loop.action);
  return h("span", { class: `badge ${loop.action}${shadow ? " shadow" : ""}`, title: shadow ? "The policy only watches." : undefined }, text);
}

export const silencedBadge = (loop) => loop.silenced_until && h("span", { class: "badge muted", title: `until ${clockTime(loop.silenced_until)}` }, "silenced");

// savedText formats what a loop saved: money, or else tokens.
export function savedText(saved) {
  if (saved.requests === 0) return "–";
  return saved.usd === undefined ? `${number(saved.input_tokens)} tokens` : usd(saved.usd);
}

function who(loop) {
  const parts = [];
  if (loop.tenant || loop.project) parts.push(h("span", { class: "tenant", title: "tenant / project" }, [loop.tenant, loop.project].filter(Boolean).join(" / ")));
  if (loop.caller) parts.push(h("span", { class: "soft" }, "caller ", hash(loop.caller)));
  else if (loop.session) parts.push(h("span", { class: "soft" }, "session ", hash(loop.session)));
  if (parts.length === 0) parts.push(h("span", { class: "soft" }, "unknown"));
  return parts;
}

// row makes the element of a loop; update fills it.
export function row(loop, context) {
  const el = h("article", { class: "loop" });
  const p = {
    check: h("input", { type: "checkbox", "aria-label": `Select ${loop.title}, loop ${loop.loop_id}`, onchange: (e) => context.selection.set([loop], e.target.checked) }),
    open: h("a", { class: "lead" }),
    title: h("span", { class: "title" }),
    policy: h("span", { class: "soft" }),
    who: h("div", { class: "who" }),
    hits: h("div", { class: "hits", title: "hits: how often it came" }),
    action: h("div", { class: "action" }),
    time: h("div", { class: "time" }),
    saved: h("div", { class: "saved", title: "estimate of what the stopped requests would have cost" }),
    buttons: h("div", { class: "buttons" }),
  };
  p.open.append(p.title, p.policy);
  el.append(h("label", { class: "check" }, p.check), p.open, p.who, p.hits, p.action, p.time, p.saved, p.buttons);
  el.parts = p;
  return el;
}

export function update(el, loop, context) {
  const p = el.parts;
  el.loop = loop;
  const selected = context.selection.has(loop.loop_id);
  el.className = `loop ${loop.state} ${loop.action}${loop.mode === "shadow" ? " shadow" : ""}${selected ? " selected" : ""}`;
  p.check.checked = selected;
  p.check.parentElement.hidden = loop.state !== "open";
  p.open.setAttribute("href", loopLink(loop.loop_id));
  setText(p.title, loop.title);
  setText(p.policy, loop.policy);
  fill(p.who, [loop.tenant, loop.project, loop.caller, loop.session].join("\n"), () => who(loop));
  fill(p.hits, String(loop.hit_count), () => [h("strong", {}, number(loop.hit_count)), loop.hit_count === 1 ? " hit" : " hits"]);
  fill(p.action, [loop.action, loop.answer, loop.mode, loop.silenced_until].join(), () => [actionBadge(loop), silencedBadge(loop)]);
  const open = loop.state === "open";
  const lines = open ? [`for ${since(loop.first_seen)}`, `last ${since(loop.last_seen)} ago`]
    : [`ended ${clockTime(loop.ends, false)}`, `after ${span((Date.parse(loop.last_seen) - Date.parse(loop.first_seen)) / 1000)}`];
  fill(p.time, lines.join(), () => [h("span", { title: `since ${new Date(loop.first_seen).toLocaleString()}` }, lines[0]), h("small", {}, lines[1])]);
  fill(p.saved, JSON.stringify(loop.saved), () => [h("span", {}, savedText(loop.saved)), h("small", {}, plural(loop.saved.requests, "request") + " stopped")]);
  fill(p.buttons, `${loop.state} ${context.readOnly}`, () => (open ? buttons(el, context) : []));
}

// buttons acts on the loop that the row shows at the time.
function buttons(el, context) {
  const off = Boolean(context.readOnly);
  const title = context.readOnly || undefined;
  return [
    h("button", { type: "button", disabled: off, title, onclick: () => context.silence([el.loop]) }, "Silence…"),
    confirmed("Release", "Sure?", { class: "release", disabled: off, title: title ?? "End the loop: forget its counts and let its requests through again" }, async () => {
      await release(el.loop.loop_id);
      await context.refresh(["loops"]);
    }),
  ];
}
