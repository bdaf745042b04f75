// The list of open loops: grouped or one by one, a page at a time.

import { groupings, go, link, orders, query, view } from "./address.js";
import { fill, grouped, h, hash, number, plural, reconcile, setText, since, $ } from "./dom.js";
import { usd } from "./money.js";
import { row, update } from "./row.js";
import { drawSelection } from "./selection.js";

// size is the number of loops on a page: fewer where a loop takes more lines.
const size = () => (innerWidth < 720 ? 20 : 50);

// path returns the path in the API that the list is read from.
export function path() {
  const part = { state: "open", limit: size(), offset: (view.page - 1) * size(), sort: view.sort };
  return view.group ? "groups?" + query({ by: view.group, ...part }) : "loops?" + query(part);
}

export const pastPath = () => "loops?" + query({ state: "resolved", since: view.range, limit: size(), offset: 0 });

// drawList draws the loops or groups that were read.
export function drawList(data, context) {
  const list = data.groups ? [] : data.loops;
  $("selection").hidden = list.length === 0;
  $("live-rows").hidden = Boolean(data.groups);
  $("group-rows").hidden = !data.groups;
  if (data.groups) drawGroups(data.groups);
  else drawRows($("live-rows"), list, context);
  drawSelection(context, list, data.total);
  const shown = (data.groups ?? data.loops).length;
  const open = data.groups ? data.loops : data.total;
  setText($("live-count"), data.groups ? `${plural(data.total, "group")} of ${plural(open, "loop")}` : open > 0 ? plural(open, "loop") : "");
  drawPager(shown, data.total, context);
  drawOnly(context);
}

export function drawRows(el, loops, context) {
  reconcile(el, loops, (l) => l.loop_id, (l) => row(l, context), (node, l) => update(node, l, context));
}

function drawPager(shown, total, context) {
  const pages = Math.max(1, Math.ceil(total / size()));
  const el = $("pager");
  el.hidden = pages === 1;
  if (view.page > pages) {
    go({ page: pages }, true);
    context.refresh(["loops"]);
    return;
  }
  const from = (view.page - 1) * size();
  const to = (page) => () => {
    go({ page });
    context.refresh(["loops"]);
    $("live").scrollIntoView({ block: "start" });
  };
  fill(el, [view.page, shown, total].join(), () => [
    h("button", { type: "button", disabled: view.page === 1, onclick: to(view.page - 1) }, "Previous"),
    h("span", {}, `${grouped(from + 1)}–${grouped(from + shown)} of ${grouped(total)}`),
    h("button", { type: "button", disabled: view.page === pages, onclick: to(view.page + 1) }, "Next"),
  ]);
}

// drawOnly draws the filters of the list as buttons that remove them.
function drawOnly(context) {
  fill($("only"), JSON.stringify(view.only), () => Object.entries(view.only).map(([name, value]) => h("button", {
    type: "button", class: "chip", title: "Show all again", onclick: () => {
      go({ only: without(name) });
      context.refresh(["loops"]);
      $("filter").focus();
    },
  }, `${name}: `, h("b", {}, value || "none"), h("span", { "aria-hidden": "true" }, " ×"))));
}

const without = (name) => Object.fromEntries(Object.entries(view.only).filter(([n]) => n !== name));

// drawGroups draws a line for each group.
function drawGroups(groups) {
  reconcile($("group-rows"), groups, (g) => `${view.group} ${g.name}`, () => h("article", { class: "loop group" }), (el, g) => {
    el.className = `loop group ${g.worst}`;
    const href = link({ group: "", only: { ...view.only, [view.group]: g.name } });
    fill(el, JSON.stringify([g, href, since(g.last_seen)]), () => [
      g.name ? h("a", { class: "lead", href }, h("span", { class: "title" }, view.group === "caller" ? hash(g.name, 16) : g.name), h("span", { class: "soft" }, view.group))
        : h("span", { class: "lead" }, h("span", { class: "title" }, `no ${view.group}`)),
      h("div", { class: "count-of" }, h("strong", {}, number(g.loops)), g.loops === 1 ? " loop" : " loops"),
      h("div", { class: "hits" }, h("strong", {}, number(g.hits)), g.hits === 1 ? " hit" : " hits"),
      h("div", { class: "action" }, h("span", { class: `badge ${g.worst}`, title: "the strongest action on one of them" }, g.worst)),
      h("div", { class: "time" }, h("span", {}, `last ${since(g.last_seen)} ago`), h("small", {}, `first ${since(g.first_seen)} ago`)),
      h("div", { class: "saved" }, h("span", {}, g.saved.usd === undefined ? "–" : usd(g.saved.usd)), h("small", {}, plural(g.saved.requests, "request") + " stopped")),
    ]);
  });
}

// prepareList fills the controls of the list.
export function prepareList(context) {
  const change = (changes, small) => {
    go(changes, small);
    context.refresh(["loops"]);
  };
  $("group").append(h("option", { value: "" }, "no groups"), ...groupings.map((g) => h("option", { value: g }, `by ${g}`)));
  $("sort").append(...Object.entries(orders).map(([name, text]) => h("option", { value: name }, text)));
  $("group").addEventListener("change", (e) => change({ group: e.target.value }));
  $("sort").addEventListener("change", (e) => change({ sort: e.target.value }));
  $("filter").addEventListener("input", (e) => change({ q: e.target.value }, true));
}

// drawControls sets the controls from the address.
export function drawControls() {
  $("group").value = view.group;
  $("sort").value = view.sort;
  if (document.activeElement !== $("filter")) $("filter").value = view.q;
}
