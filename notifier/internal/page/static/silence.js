// The dialogue that silences messages.

import { call, operator, remember } from "./api.js";
import { h, plural, toast, $ } from "./dom.js";

// scopes returns what a silence of loops can match, with names.
function scopes(loops) {
  if (loops.length === 0) return [["Every loop", { loop: ["*"] }]];
  const all = [[loops.length === 1 ? "This loop" : `These ${plural(loops.length, "loop")}`, { loop: loops.map((l) => l.loop_id) }]];
  for (const [field, name, value] of [["policy", "Policy", (v) => exact(v)], ["tenant", "Tenant", (v) => exact(v)], ["session", "Session", (v) => v]]) {
    const values = [...new Set(loops.map((l) => l[field]).filter(Boolean))];
    if (values.length > 0 && values.length <= most) all.push([`${name}${values.length > 1 ? "s" : ""} ${values.slice(0, 3).join(", ")}${values.length > 3 ? ", …" : ""}`, { [field]: values.map(value) }]);
  }
  return all;
}

// most bounds the patterns of a silence for a field.
const most = 100;

// parts splits matchers for several silences.
function parts(matchers) {
  const [[field, patterns]] = Object.entries(matchers);
  return Array.from({ length: Math.ceil(patterns.length / most) }, (_, i) => ({ [field]: patterns.slice(i * most, (i + 1) * most) }));
}

// exact returns a pattern that matches a name: a wildcard for each character with a meaning.
const exact = (name) => name.replace(/[*?\[\]\\]/g, "?").replace(/^!/, "?");

let chosen = [];
let context;

export function openSilence(loops) {
  chosen = scopes(loops);
  const fields = chosen.map(([name], i) => h("label", {}, h("input", { type: "radio", name: "scope", value: i, checked: i === 0 }), ` ${name}`));
  $("silence-scope").replaceChildren(h("legend", {}, "Which loops"), ...fields);
  $("silence-author").value ||= operator();
  $("silence-comment").value = "";
  $("silence-fault").hidden = true;
  $("silence-dialog").showModal();
}

async function send(e) {
  e.preventDefault();
  const picked = document.querySelector("input[name=scope]:checked");
  const author = $("silence-author").value.trim();
  remember(author);
  try {
    for (const matchers of parts(chosen[Number(picked.value)][1])) {
      await call("POST", "silences", { matchers, author, comment: $("silence-comment").value.trim(), duration_seconds: Number($("silence-for").value) });
    }
    $("silence-dialog").close();
    toast("Silenced.");
    context.refresh(["silences", "loops", "loop"]);
  } catch (err) {
    $("silence-fault").textContent = err.message;
    $("silence-fault").hidden = false;
  }
}

export function prepareSilence(pageContext) {
  context = pageContext;
  $("silence-form").addEventListener("submit", send);
  $("silence-cancel").addEventListener("click", () => $("silence-dialog").close());
  $("add-silence").addEventListener("click", () => openSilence([]));
}
