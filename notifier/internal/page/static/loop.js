// A loop's own view: its story, what it repeats, its cost, its run, its messages, and what
// operators did.

import { confirmed, release } from "./act.js";
import { link, loopLink, view } from "./address.js";
import { get } from "./api.js";
import { growth } from "./charts.js";
import { clockTime, fill, h, number, plural, setText, since, span, when, $ } from "./dom.js";
import { evidence, story } from "./findings.js";
import { usd } from "./money.js";
import { rounds } from "./rounds.js";
import { actionBadge, silencedBadge } from "./row.js";
import { auditTable, cells, deliveryTable, table } from "./table.js";

// read reads a loop and its history.
export async function read(id) {
  const path = `loops/${encodeURIComponent(id)}`;
  const [loop, history] = await Promise.all([get(path), get(`${path}/history`)]);
  return { loop, history };
}

// drawLoop draws the view of a loop, or why it can't be shown.
export function drawLoop(data, overrides, context) {
  $("loop-back").setAttribute("href", link({ page: view.page }));
  if (data.fault) {
    setText($("loop-title"), "This loop can't be shown");
    for (const id of ["loop-buttons", "loop-facts", "loop-findings", "loop-rounds", "loop-cost", "loop-run", "loop-messages", "loop-audit"]) fill($(id), "", () => []);
    fill($("loop-story"), data.fault, () => h("p", {}, data.fault, ". Of loops that ended long ago, ", h("code", {}, `unloop loops show ${view.loop}`), " tells what the stream of events has."));
    return;
  }
  const { loop, history } = data;
  const blocked = blocks(loop, overrides);
  setText($("loop-title"), loop.title);
  fill($("loop-badges"), JSON.stringify([loop.action, loop.mode, loop.answer, loop.silenced_until, loop.state, blocked.length]), () => [actionBadge(loop), silencedBadge(loop), loop.state === "open" ? null : h("span", { class: "badge muted" }, "ended"), blocked.length > 0 ? h("span", { class: "badge reject" }, "blocked") : null]);
  fill($("loop-buttons"), JSON.stringify([loop.loop_id, loop.state, context.readOnly]), () => buttons(loop, context));
  fill($("loop-story"), JSON.stringify([loop, history.course]) + since(loop.first_seen), () => story(loop, history.course));
  fill($("loop-facts"), JSON.stringify([loop, blocked]), () => facts(loop, blocked));
  fill($("loop-findings"), JSON.stringify(loop.findings), () => h("details", { open: $("loop-findings").querySelector("details")?.open }, h("summary", {}, `Evidence: ${plural(loop.findings.length, "finding")}`), evidence(loop)));
  fill($("loop-rounds"), loop.loop_id + loop.last_seen, () => rounds(loop));
  drawCost(loop, history.course);
  fill($("loop-run"), JSON.stringify([history.run, history.run_omitted]) + Math.floor(Date.now() / 30000), () => run(loop, history));
  fill($("loop-messages"), JSON.stringify([history.deliveries, context.readOnly]) + Math.floor(Date.now() / 30000), () => messages(history.deliveries, context));
  fill($("loop-audit"), JSON.stringify([history.actions, history.fault]), () => audit(history));
}

const blocks = (loop, overrides) => (overrides?.overrides ?? []).filter((o) => o.action === "block" && o.value === { session: loop.session, caller: loop.caller, tenant: loop.tenant, project: loop.project }[o.scope]);

function buttons(loop, context) {
  const off = Boolean(context.readOnly);
  const title = context.readOnly || undefined;
  const open = loop.state === "open";
  return [
    open ? h("button", { type: "button", disabled: off, title, onclick: () => context.silence([loop]) }, "Silence…") : null,
    h("button", { type: "button", onclick: () => context.block([loop]) }, "Block…"),
    open ? confirmed("Release", "Release now?", { class: "release", disabled: off, title: title ?? "End the loop: forget its counts and let its requests through again" }, async () => {
      await release(loop.loop_id);
      await context.refresh(["loop", "loops"]);
    }) : null,
  ];
}

// shown are the fields of a loop that the view shows by itself.
const shown = ["action", "answer", "caller", "cooldown_seconds", "detector", "ends", "findings", "fingerprint", "first_seen", "hit_count", "last_seen", "loop_id", "mode", "model", "policy", "project",
  "request_id", "saved", "session", "severity", "silenced_until", "similarity", "state", "tenant", "text", "threshold", "title", "window_seconds"];

const other = (name, value) => [(name[0].toUpperCase() + name.slice(1)).replaceAll("_", " "), typeof value === "object" ? JSON.stringify(value) : String(value)];

// facts lists the properties of a loop. Fields that nothing else shows, such as those of newer
// events, are listed by their names.
function facts(loop, blocked) {
  const all = [
    ["Loop", h("code", {}, loop.loop_id)], ["Policy", loop.policy],
    ["Tenant", loop.tenant], ["Project", loop.project],
    ["Caller", loop.caller && h("code", {}, loop.caller)],
    ["Session", loop.session && h("code", {}, loop.session)],
    ["Blocked", blocked.length > 0 && blocked.map((o) => `its ${o.scope} until ${clockTime(o.expires_at, false)}`).join(", ")],
    ["Model", loop.model],
    ["Fingerprint", loop.fingerprint && h("code", {}, loop.fingerprint)],
    ["Request", loop.request_id && h("code", {}, loop.request_id)],
    ["First seen", when(loop.first_seen)], ["Last seen", when(loop.last_seen)],
    [loop.state === "open" ? "Ends" : "Ended", when(loop.ends)],
    ["Cooldown", loop.cooldown_seconds && span(loop.cooldown_seconds)],
    ...Object.entries(loop).filter(([name]) => !shown.includes(name)).map(([name, value]) => other(name, value)),
  ];
  return all.filter(([, value]) => value).flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]);
}

// drawCost draws what the loop saved over time: money, or requests without a price, or hits if
// nothing was stopped.
function drawCost(loop, course) {
  const el = $("loop-cost");
  const key = JSON.stringify(course) + el.clientWidth;
  if (el.shown === key) return;
  el.shown = key;
  const last = course.at(-1);
  const [name, of, write] = last.saved.requests === 0 ? ["Hits", (p) => p.hit_count, (n) => plural(n, "hit")]
    : last.saved.usd === undefined ? ["Requests stopped", (p) => p.saved.requests, (n) => plural(n, "request")] : ["Cost saved", (p) => p.saved.usd ?? 0, usd];
  const chart = h("div", { class: "chart" });
  el.replaceChildren(h("h3", {}, `${name} over time`), chart);
  growth(chart, course.map((p) => ({ at: Date.parse(p.at), value: of(p) })), Date.parse(loop.first_seen), Math.max(Date.parse(loop.last_seen), Date.parse(loop.first_seen) + 1000), { write, label: name });
}

function run(loop, history) {
  const others = history.run.filter((l) => l.loop_id !== loop.loop_id);
  const head = h("h3", {}, "Its run");
  if (!loop.session) return [head, h("p", { class: "empty" }, "It belongs to no session.")];
  if (others.length === 0) return [head, h("p", { class: "empty" }, "It is the only loop of its session.")];
  return [head, h("p", { class: "note" }, `${plural(history.run.length + history.run_omitted, "loop")} of this session${history.run_omitted ? `, the newest ${history.run.length}` : ""}:`),
    table(["Began", "Loop", "Action", "Hits", ""], history.run.map((l) => cells(when(l.first_seen), l.loop_id === loop.loop_id ? h("strong", {}, l.title) : h("a", { href: loopLink(l.loop_id) }, l.title),
      `${l.mode === "shadow" ? "would " : ""}${l.action}`, number(l.hit_count), l.loop_id === loop.loop_id ? "this one" : l.state === "open" ? "open" : "ended")))];
}

function messages(list, context) {
  const head = h("h3", {}, "What was sent to whom");
  if (list.length === 0) return [head, h("p", { class: "empty" }, "No message about it, as far as the log of deliveries goes back.")];
  return [head, deliveryTable(list, context)];
}

function audit(history) {
  const head = h("h3", {}, "What operators did");
  if (history.fault) return [head, h("p", { class: "fault" }, history.fault)];
  if (history.actions.length === 0) return [head, h("p", { class: "empty" }, "Nothing was done about it.")];
  return [head, auditTable(history.actions)];
}
