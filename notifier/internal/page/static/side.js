// The sections beside the loops: deliveries, silences, policies and health.

import { act, confirmed } from "./act.js";
import { ended } from "./block.js";
import { bytes, clockTime, fill, h, plural, setText, since, span, when, $ } from "./dom.js";
import { auditTable, cells, deliveryTable, empty, state, table } from "./table.js";

export function deliveries(data, endpoints, context) {
  const failed = data.deliveries.filter((d) => d.status === "dead").length;
  const waiting = data.deliveries.filter((d) => d.status === "retrying").length;
  setText($("deliveries-count"), [waiting && `${waiting} to be tried again`, failed && `${failed} given up`].filter(Boolean).join(", "));
  fill($("endpoints"), JSON.stringify([endpoints, context.readOnly]), () => drawEndpoints(endpoints.endpoints, context));
  fill($("delivery-rows"), JSON.stringify([data.deliveries, context.readOnly]) + Math.floor(Date.now() / 30000), () => {
    if (data.deliveries.length === 0) return endpoints.endpoints.length === 0 ? "" : empty("Nothing was delivered yet. The test button sends a message that says so.");
    return deliveryTable(data.deliveries, context);
  });
}

function drawEndpoints(list, context) {
  if (list.length === 0) return empty("No endpoint is configured. Start the notifier with ", h("code", {}, "--webhook URL"), " or ", h("code", {}, "--notify FILE"), " to hear of loops where you already look.");
  const off = Boolean(context.readOnly);
  const title = context.readOnly || undefined;
  return h("ul", {}, list.map((e) => h("li", {}, state(e.state === "active" ? "ready" : e.state === "paused" ? "waiting" : "failed", e.state), h("b", {}, e.name), h("small", {}, e.kind),
    e.reason ? h("span", { class: "reason" }, e.reason) : null,
    h("button", { type: "button", disabled: off, title: title ?? "Send a test message", onclick: () => act("POST", `endpoints/${encodeURIComponent(e.name)}/test`, {}, `Test message sent to ${e.name}.`).then(() => context.refresh(["deliveries"])) }, "Test"),
    e.state === "disabled" ? h("button", { type: "button", disabled: off, title, onclick: () => act("POST", `endpoints/${encodeURIComponent(e.name)}/enable`, {}, `${e.name} is used again.`).then(() => context.refresh(["deliveries"])) }, "Enable") : null)));
}

const matchers = (m) => Object.entries(m).map(([field, all]) => [h("code", {}, `${field}=${all.slice(0, 3).join("|")}`), all.length > 3 ? ` and ${all.length - 3} more ` : " "]);

export function silences(data, overrides, context) {
  const active = data.silences.filter((s) => s.state !== "ended");
  setText($("silences-count"), [active.length && plural(active.length, "silence"), overrides.overrides.length && `${overrides.overrides.length} blocked or exempt`].filter(Boolean).join(", "));
  fill($("silence-rows"), JSON.stringify([data.silences, context.readOnly]) + Math.floor(Date.now() / 30000), () => {
    if (data.silences.length === 0) return empty("Nothing is silenced.");
    return table(["", "Loops", "Until", "By", "Why", ""], data.silences.map((s) => cells(state(s.state === "active" ? "waiting" : "ended", s.state), matchers(s.matchers),
      [when(s.end, clockTime(s.end, false)), s.state === "active" ? h("small", {}, ` ${span((Date.parse(s.end) - Date.now()) / 1000)} left`) : null], s.author, s.comment,
      s.state === "ended" ? "" : confirmed("End", "End now?", { disabled: Boolean(context.readOnly), title: context.readOnly || "Let messages through again" }, () => act("DELETE", `silences/${encodeURIComponent(s.id)}`, {}, "The silence has ended.").then(() => context.refresh(["silences", "loops"]))))));
  });
  fill($("override-rows"), JSON.stringify([overrides, context.readOnly]), () => {
    if (overrides.overrides.length === 0) return "";
    return table(["", "Whose requests", "Until", "Why", ""], overrides.overrides.map((o) => cells(state(o.action === "block" ? "failed" : "waiting", o.action === "block" ? "blocked" : "exempt"),
      [`${o.scope} `, h("code", {}, o.value)], when(o.expires_at, clockTime(o.expires_at, false)), o.reason ?? "", ended(o, overrides.sealed, context))));
  });
}

export function audit(data) {
  fill($("audit-rows"), JSON.stringify(data), () => {
    if (data.actions.length === 0) return empty("Nothing yet: releases, silences, blocks and pushed policies are recorded here.");
    return auditTable(data.actions);
  });
}

export function policies(data) {
  const versions = data.in_force.length;
  setText($("policies-count"), versions > 1 ? `${versions} bundles in force` : "");
  fill($("policy-rows"), JSON.stringify(data), () => {
    const out = [];
    if (data.pushed) {
      const everywhere = data.in_force.every((b) => b.version === data.pushed.version);
      out.push(h("p", { class: "note" }, "Pushed: ", data.pushed.fault ? h("span", { class: "fault" }, data.pushed.fault) : h("code", {}, data.pushed.version), " at ", when(data.pushed.at),
        data.pushed.fault || everywhere ? null : h("span", { class: "fault" }, " – not in force at every gateway")));
    }
    if (versions === 0) out.push(empty("No gateway answers, so no policy is in force. Start one with ", h("code", {}, "unloop gateway"), " or ", h("code", {}, "unloop up"), "."));
    for (const b of data.in_force) out.push(bundle(b));
    return out;
  });
}

const sources = { file: "from a file", pushed: "pushed", default: "built in" };

function bundle(b) {
  return h("div", { class: "bundle" },
    h("p", {}, "Bundle ", h("code", {}, b.version), ` ${sources[b.source] ?? b.source}, at `, b.gateways.length === 1 ? `gateway ${b.gateways[0].host}` : plural(b.gateways.length, "gateway"),
      b.kill_switches ? h("span", { class: "fault" }, ` · ${plural(b.kill_switches, "kill switch")}`.replace("switchs", "switches")) : null),
    table(["Policy", "Mode", "If unchecked", "Detectors", "Limits"], b.policies.map((p) => cells(h("b", {}, p.id),
      h("span", { class: `badge ${p.mode === "shadow" ? "shadow warn" : "plain"}` }, p.mode), p.failure_mode === "closed" ? "refuse" : "let pass",
      p.detectors.length ? h("ul", { class: "detectors" }, p.detectors.map((d) => h("li", {}, h("b", {}, d.name), " ", steps(d)))) : "none", (p.rules ?? []).join(", ") || "–"))),
    b.omitted ? h("p", { class: "note" }, `${b.omitted} more policies are not listed.`) : null);
}

const steps = (d) => [d.steps.map((s) => h("span", { class: `step ${s.action}` }, `${s.action} from ${s.at}`)),
  h("small", {}, [d.window_seconds && `in ${span(d.window_seconds)}`, d.similarity && `over ${d.similarity}`].filter(Boolean).join(", "))];

export function health(data) {
  const bad = data.parts.filter((p) => p.state !== "ready");
  setText($("health-count"), data.parts.length === 0 ? "" : bad.length === 0 ? `all ${data.parts.length} parts are ready` : `${bad.length} of ${data.parts.length} parts are not ready`);
  $("health-count").classList.toggle("fault", bad.length > 0);
  fill($("parts"), JSON.stringify(data.parts.map((p) => [p.id, p.state, p.reason, p.server])) + Math.floor(Date.now() / 30000), () => {
    if (data.parts.length === 0) return empty("No part answers. ", data.nats ? `NATS: ${data.nats}` : "");
    return table(["", "Part", "Host", "Version", "Up for", "NATS", ""], data.parts.map((p) => cells(
      state(p.state === "ready" ? "ready" : p.state === "silent" ? "ended" : "failed", p.state.replace("_", " ")), h("b", {}, p.service), p.host, h("code", {}, p.version), since(p.started), p.server ?? "–",
      p.state === "silent" ? `last answer ${since(p.heard)} ago` : h("span", { class: "reason" }, p.reason ?? ""))));
  });
  fill($("storage"), JSON.stringify([data.streams, data.partitions]), () => [growth(data.partitions), table(["Stream or bucket", "Records", "Size", "Room", "Replicas"], data.streams.map((s) => cells(
    h("code", {}, s.name), String(s.messages), bytes(s.bytes), s.max_bytes ? `${bytes(s.max_bytes)} (${((100 * s.bytes) / s.max_bytes).toFixed(0)} % taken)` : "no bound", String(s.replicas))))]);
}

const phases = { sealing: "services learn of it", moving: "records move" };

function growth(p) {
  if (!p || p.count === 1) return null;
  return h("p", { class: "note" }, p.phase ? h("span", { class: "fault" }, `Partitions grow from ${p.before} to ${p.count}: ${phases[p.phase]}`) : `${p.count} partitions of each bucket of state`);
}
