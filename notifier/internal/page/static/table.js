// Tables.

import { act } from "./act.js";
import { loopLink } from "./address.js";
import { h, since, span, when } from "./dom.js";

export const cells = (...all) => h("tr", {}, all.map((c) => h("td", {}, c)));
export const empty = (...text) => h("p", { class: "empty" }, ...text);
export const state = (name, text) => h("span", { class: `state ${name}` }, h("span", { class: "dot", "aria-hidden": "true" }), text ?? name.replace("_", " "));

// table returns a table that scrolls if it is wider than the page.
export const table = (head, rows) => h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": head.filter(Boolean).join(", ") },
  h("table", {}, h("thead", {}, h("tr", {}, head.map((t) => (t ? h("th", { scope: "col" }, t) : h("td"))))), h("tbody", {}, rows)));

const stateOf = { delivered: "ready", retrying: "waiting", dead: "failed" };

// deliveryTable lists messages.
export const deliveryTable = (list, context) => table(["", "Endpoint", "Message", "Attempts", "Newest attempt", ""], list.map((d) => cells(...deliveryCells(d, context))));

// auditTable lists actions of operators.
export const auditTable = (actions) => table(["When", "Who", "What", ""],
  actions.map((a) => cells(when(a.at), `${a.actor} (${a.via})`, [`${a.action.replaceAll("-", " ")} `, h("code", {}, a.target)], a.detail ?? "")));

function deliveryCells(d, context) {
  const newest = d.attempts.at(-1);
  const result = newest ? [newest.status ? `${newest.status} ` : "", newest.error ?? "", ` ${newest.milliseconds} ms`, h("small", {}, ` ${since(newest.at)} ago`)] : "none yet";
  const next = d.status === "retrying" && d.next ? h("small", {}, ` next in ${span((Date.parse(d.next) - Date.now()) / 1000)}`) : null;
  const resend = () => act("POST", `deliveries/${encodeURIComponent(d.endpoint)}/${encodeURIComponent(d.id)}/resend`, {}, "Sent again.").then(() => context.refresh(["deliveries"]));
  return [state(stateOf[d.status] ?? "waiting", d.status), d.endpoint,
    [d.loops.slice(0, 3).map((id) => [h("a", { href: loopLink(id), class: "hash", title: id }, id.slice(-8)), " "]), d.loops.length > 3 ? `and ${d.loops.length - 3} more ` : null, h("small", {}, d.type.replace("loop.", ""))],
    [String(d.tried), next], result,
    h("button", { type: "button", disabled: Boolean(context.readOnly), title: context.readOnly || "Send this message again", onclick: resend }, "Resend")];
}
