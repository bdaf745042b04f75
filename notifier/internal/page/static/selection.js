// The loops that are selected, and what can be done about all of them.

import { confirmed, releaseAll } from "./act.js";
import { get } from "./api.js";
import { query } from "./address.js";
import { fill, grouped, h, plural, toast, $ } from "./dom.js";

// most bounds a selection.
const most = 1000;

// newSelection returns the selection of the list: loops by id.
export function newSelection(context) {
  const loops = new Map();
  return {
    has: (id) => loops.has(id),
    all: () => [...loops.values()],
    set(list, selected) {
      for (const l of list) {
        if (!selected) loops.delete(l.loop_id);
        else if (loops.size < most) loops.set(l.loop_id, l);
      }
      context.redraw();
    },
    clear() {
      loops.clear();
      context.redraw();
    },
  };
}

// drawSelection draws the bar above the list. shown are the loops on this page, total is the
// number of all.
export function drawSelection(context, shown, total) {
  const open = shown.filter((l) => l.state === "open");
  const chosen = context.selection.all().length;
  const page = $("select-page");
  const here = open.filter((l) => context.selection.has(l.loop_id)).length;
  page.checked = open.length > 0 && here === open.length;
  page.indeterminate = here > 0 && here < open.length;
  page.onchange = () => context.selection.set(open, page.checked);
  page.disabled = open.length === 0;
  fill($("selected"), [chosen, total, page.checked, context.readOnly].join(), () => (chosen === 0 ? h("span", { class: "soft" }, "Select all on this page") : bar(context, chosen, page.checked ? total : 0)));
}

function bar(context, chosen, total) {
  const off = Boolean(context.readOnly);
  const title = context.readOnly || undefined;
  const loops = () => context.selection.all();
  return [
    h("strong", {}, `${grouped(chosen)} selected`),
    total > chosen && chosen < most ? h("button", { type: "button", class: "link", onclick: () => selectAll(context) }, total > most ? `Select the first ${grouped(most)}` : `Select all ${grouped(total)}`) : null,
    h("button", { type: "button", disabled: off, title, onclick: () => context.silence(loops()) }, "Silence…"),
    h("button", { type: "button", onclick: () => context.block(loops()) }, "Block…"),
    confirmed("Release", `Release ${plural(chosen, "loop")}?`, { class: "release", disabled: off, title }, async () => {
      await releaseAll(loops().map((l) => l.loop_id));
      context.selection.clear();
      $("select-page").focus();
      await context.refresh(["loops"]);
    }),
    h("button", { type: "button", onclick: () => { context.selection.clear(); $("select-page").focus(); } }, "Clear"),
  ];
}

async function selectAll(context) {
  try {
    const data = await get("loops?" + query({ state: "open", limit: most, sort: context.view.sort }));
    context.selection.set(data.loops, true);
  } catch (err) {
    toast(err.message, true);
  }
}
