// The keyboard: one key for each frequent action.

import { groupings, go, link, view } from "./address.js";
import { $ } from "./dom.js";

const typing = (el) => /^(INPUT|SELECT|TEXTAREA)$/.test(el?.tagName) && el.type !== "checkbox";
const list = () => [...document.querySelectorAll(view.group ? "#group-rows > *" : "#live-rows > *")];
const current = () => document.activeElement?.closest(".loop");

// move focuses the next or the previous loop, or the first.
function move(by) {
  const all = list();
  const at = all.indexOf(current());
  const next = all[at < 0 ? 0 : Math.min(Math.max(at + by, 0), all.length - 1)];
  next?.querySelector("a[href]")?.focus();
  next?.scrollIntoView({ block: "nearest" });
}

// press presses a button of the focused loop, or of the loop that has a view of its own.
function press(name) {
  const within = view.loop ? $("loop-buttons") : current();
  const button = [...(within?.querySelectorAll("button") ?? [])].find((b) => b.textContent.startsWith(name));
  if (!button || button.disabled) return;
  button.focus();
  button.click();
}

function back() {
  if (view.loop) location.hash = link({ page: view.page });
  else if (view.group || Object.keys(view.only).length > 0) location.hash = link({ group: "", only: {} });
}

// prepareKeys handles key presses.
export function prepareKeys(context) {
  const keys = {
    j: () => move(1), k: () => move(-1),
    x: () => current()?.loop && context.selection.set([current().loop], !context.selection.has(current().loop.loop_id)),
    s: () => press("Silence"), r: () => press("Release"), b: () => (view.loop ? press("Block") : current()?.loop && context.block([current().loop])),
    g: () => {
      if (view.loop) return;
      go({ group: ["", ...groupings][(["", ...groupings].indexOf(view.group) + 1) % (groupings.length + 1)] });
      context.refresh(["loops"]);
    },
    n: () => $("pager").querySelector("button:last-child")?.click(),
    p: () => $("pager").querySelector("button:first-child")?.click(),
    u: back, Escape: back,
    "/": () => (view.loop ? back() : $("filter").focus()),
    "?": () => $("keys-dialog").showModal(),
  };
  addEventListener("keydown", (e) => {
    if (e.ctrlKey || e.metaKey || e.altKey || document.querySelector("dialog[open]")) return;
    if (typing(document.activeElement)) {
      if (e.key !== "Escape" || document.activeElement !== $("filter")) return;
      $("filter").value = "";
      $("filter").dispatchEvent(new Event("input"));
      return;
    }
    if (!Object.hasOwn(keys, e.key)) return;
    e.preventDefault();
    keys[e.key]();
  });
  $("keys-close").addEventListener("click", () => $("keys-dialog").close());
  $("keys").addEventListener("click", () => $("keys-dialog").showModal());
}
