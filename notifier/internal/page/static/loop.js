// One loop: its line, why it fired, and what can be done about it.

import { call, operator } from "./api.js";
import { clockTime, h, hash, money, number, plural, setText, short, since, span, toast, when } from "./dom.js";
import { rounds } from "./rounds.js";

const strength = { allow: 0, warn: 1, hint: 2, throttle: 3, reject: 4, break: 5 };

// matches reports whether a loop has all words of a filter.
export function matches(loop, words) {
  if (words.length === 0) return true;
  const text = [loop.id, loop.policy, loop.tenant, loop.project, loop.caller, loop.session, loop.model, loop.action, loop.detector, loop.fingerprint, loop.request_id,
    ...loop.findings.flatMap((f) => [f.tool, f.rule, f.detector])].join(" ").toLowerCase();
  return words.every((w) => text.includes(w));
}

export function actionBadge(loop) {
  const shadow = loop.mode === "shadow";
  const text = (shadow ? "would " : "") + (loop.answer === "synthetic" ? "answer" : loop.action);
  return h("span", { class: `badge ${loop.action}${shadow ? " shadow" : ""}`, title: shadow ? "The policy only watches." : undefined }, text);
}

function who(loop) {
  const parts = [];
  if (loop.tenant || loop.project) parts.push(h("span", { class: "tenant", title: "tenant / project" }, [loop.tenant, loop.project].filter(Boolean).join(" / ")));
  if (loop.caller) parts.push(h("span", { class: "caller" }, "caller ", hash(loop.caller)));
  else if (loop.session) parts.push(h("span", { class: "caller" }, "session ", hash(loop.session)));
  if (parts.length === 0) parts.push(h("span", { class: "caller" }, "unknown"));
  return parts;
}

// row makes the element of a loop; update fills it. The opened ones are in open.
export function row(loop, context) {
  const el = h("article", { class: "loop" });
  const detailId = `detail-${loop.id}`;
  const open = () => {
    if (context.open.has(loop.id)) context.open.delete(loop.id);
    else context.open.add(loop.id);
    context.redraw();
  };
  el.parts = {
    toggle: h("button", { type: "button", class: "toggle", "aria-controls": detailId, onclick: open }),
    title: h("span", { class: "title" }),
    policy: h("span", { class: "policy" }),
    who: h("div", { class: "who" }),
    hits: h("div", { class: "hits", title: "hits, and how many it takes" }),
    action: h("div", { class: "action" }),
    time: h("div", { class: "time" }),
    saved: h("div", { class: "saved", title: "estimate of what the stopped requests would have cost" }),
    buttons: h("div", { class: "buttons" }),
    detail: h("div", { class: "detail", id: detailId, role: "region" }),
  };
  const p = el.parts;
  p.toggle.append(h("span", { class: "chevron", "aria-hidden": "true" }), p.title, p.policy);
  el.append(p.toggle, p.who, p.hits, p.action, p.time, p.saved, p.buttons, p.detail);
  return el;
}

export function update(el, loop, context) {
  const p = el.parts;
  const open = context.open.has(loop.id);
  el.className = `loop ${loop.state} ${loop.action}${loop.mode === "shadow" ? " shadow" : ""}${open ? " opened" : ""}`;
  p.toggle.setAttribute("aria-expanded", String(open));
  setText(p.title, loop.title);
  setText(p.policy, loop.policy);
  once(p.who, [loop.tenant, loop.project, loop.caller, loop.session].join("\n"), () => who(loop));
  once(p.hits, `${loop.hits}/${loop.threshold}`, () => [h("strong", {}, number(loop.hits)), loop.hits === 1 ? " hit" : " hits"]);
  once(p.action, [loop.action, loop.answer, loop.mode, silenced(loop)].join(), () => [actionBadge(loop), silenced(loop) ? h("span", { class: "badge muted", title: `until ${clockTime(loop.silenced_until)}` }, "silenced") : null].filter(Boolean));
  const seen = loop.state === "open" ? `${since(loop.first_seen)}, last ${since(loop.last_seen)} ago` : `ended ${clockTime(loop.ends, false)}`;
  once(p.time, seen, () => [h("span", { title: `since ${new Date(loop.first_seen).toLocaleString()}` }, loop.state === "open" ? `for ${since(loop.first_seen)}` : `ended ${clockTime(loop.ends, false)}`),
    h("small", {}, loop.state === "open" ? `last ${since(loop.last_seen)} ago` : `after ${span((Date.parse(loop.last_seen) - Date.parse(loop.first_seen)) / 1000)}`)]);
  once(p.saved, JSON.stringify(loop.saved), () => [h("span", {}, savedText(loop)), h("small", {}, plural(loop.saved.requests, "request") + " stopped")]);
  drawButtons(p.buttons, loop, context);
  p.detail.hidden = !open;
  if (open) once(p.detail, JSON.stringify([loop, context.readOnly]), () => detail(loop));
}

const silenced = (loop) => Boolean(loop.silenced_until);

function savedText(loop) {
  if (loop.saved.requests === 0) return "–";
  return loop.saved.usd === undefined ? `${number(loop.saved.input_tokens)} tokens` : money(loop.saved.usd);
}

// once replaces the children of an element if what they show differs.
function once(el, key, make) {
  if (el.shown === key) return;
  el.shown = key;
  el.replaceChildren(...make());
}

function drawButtons(el, loop, context) {
  const key = `${loop.state} ${context.readOnly}`;
  once(el, key, () => {
    if (loop.state !== "open") return [];
    const off = Boolean(context.readOnly);
    const title = context.readOnly || undefined;
    return [
      h("button", { type: "button", disabled: off, title, onclick: () => context.silence(loop) }, "Silence…"),
      confirmed("Release", "Release now?", { disabled: off, title: title ?? "End the loop: forget its counts and let its requests through again" }, () => release(loop, context)),
    ];
  });
}

// confirmed is a button that acts when it is pressed twice.
export function confirmed(text, again, props, act) {
  let timer;
  const button = h("button", { type: "button", ...props }, text);
  const calm = () => {
    clearTimeout(timer);
    button.classList.remove("sure");
    button.textContent = text;
  };
  button.addEventListener("click", async () => {
    if (!button.classList.contains("sure")) {
      button.classList.add("sure");
      button.textContent = again;
      timer = setTimeout(calm, 4000);
      return;
    }
    calm();
    button.disabled = true;
    try {
      await act();
    } finally {
      button.disabled = false;
    }
  });
  button.addEventListener("blur", calm);
  return button;
}

async function release(loop, context) {
  try {
    const done = await call("POST", `loops/${encodeURIComponent(loop.id)}/release`, { actor: operator() });
    toast(`Released: ${plural(done.counters, "counter")} ${done.counters === 1 ? "starts" : "start"} anew.`);
  } catch (err) {
    toast(err.message, true);
  }
  context.refresh(["loops"]);
}

function detail(loop) {
  const findings = [...loop.findings].sort((a, b) => strength[b.action] - strength[a.action] || b.hit_count - a.hit_count);
  return [
    h("div", { class: "why" }, h("h3", {}, "Why it fired"), findings.map((f) => finding(f, loop))),
    h("dl", { class: "facts" }, facts(loop)),
    rounds(loop),
  ];
}

function finding(f, loop) {
  const threshold = f.threshold || (f.detector === loop.detector ? loop.threshold : 0);
  const seconds = f.window_seconds || loop.window_seconds;
  return h("div", { class: "finding" },
    h("p", {}, h("span", { class: `badge ${f.action}${loop.mode === "shadow" ? " shadow" : ""}` }, f.action), " ", h("strong", {}, f.detector), f.rule ? h("span", { class: "rule" }, ` ${f.rule}`) : null, " – ", f.title),
    meter(f.hit_count, threshold, seconds),
    f.similarity ? similarity(f.similarity) : null,
    f.calls?.length ? cycle(f) : null,
    f.excerpt ? h("blockquote", {}, f.excerpt) : null);
}

function meter(hits, threshold, seconds) {
  const text = `${plural(hits, "hit")}${threshold ? `, threshold ${threshold}` : ""}${seconds ? `, within ${span(seconds)}` : ""}`;
  if (!threshold) return h("p", { class: "measure" }, text);
  const top = Math.max(hits, threshold) * 1.1;
  return h("div", { class: "measure" },
    h("svg", { viewBox: "0 0 120 8", width: 120, height: 8, class: "meter", "aria-hidden": "true" },
      h("rect", { class: "rail", x: 0, y: 1, width: 120, height: 6, rx: 3 }),
      h("rect", { class: "value", x: 0, y: 1, width: Math.max(3, (120 * hits) / top), height: 6, rx: 3 }),
      h("line", { class: "mark", x1: (120 * threshold) / top, x2: (120 * threshold) / top, y1: 0, y2: 8 })),
    h("span", {}, text));
}

function similarity(value) {
  return h("div", { class: "measure" },
    h("svg", { viewBox: "0 0 120 8", width: 120, height: 8, class: "meter", "aria-hidden": "true" },
      h("rect", { class: "rail", x: 0, y: 1, width: 120, height: 6, rx: 3 }),
      h("rect", { class: "value", x: 0, y: 1, width: 120 * value, height: 6, rx: 3 })),
    h("span", {}, `similarity ${value.toFixed(3)}`));
}

// cycle shows the calls that come again, each with the hashes of its arguments and its
// result.
function cycle(f) {
  const steps = f.calls.map((c) => h("li", {}, h("b", {}, c.tool || "call"), " ", h("code", { title: `tool and arguments ${c.call}` }, short(c.call, 6)),
    c.result ? [" = ", h("code", { title: `result ${c.result}` }, short(c.result, 6))] : null));
  return h("div", { class: "cycle" }, h("ol", {}, steps), h("span", { class: "times", title: "seen so often" }, `↻ ${f.hit_count}×`));
}

function facts(loop) {
  const all = [
    ["Loop", h("a", { href: `#loop=${encodeURIComponent(loop.id)}`, class: "hash" }, loop.id)],
    ["Tenant", loop.tenant], ["Project", loop.project],
    ["Caller", loop.caller && h("code", {}, loop.caller)],
    ["Session", loop.session && h("code", {}, loop.session)],
    ["Model", loop.model],
    ["Fingerprint", loop.fingerprint && h("code", {}, loop.fingerprint)],
    ["Request", loop.request_id && h("code", {}, loop.request_id)],
    ["First seen", when(loop.first_seen)], ["Last seen", when(loop.last_seen)],
    [loop.state === "open" ? "Ends" : "Ended", h("span", {}, when(loop.ends), loop.state === "open" ? " if nothing more is found" : null)],
    ["Cooldown", loop.cooldown_seconds && span(loop.cooldown_seconds)],
    ["Saved", `${plural(loop.saved.requests, "request")}, ${number(loop.saved.input_tokens)} input tokens${loop.saved.usd === undefined ? "" : `, about ${money(loop.saved.usd)}`}`],
  ];
  return all.filter(([, value]) => value).flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]);
}
