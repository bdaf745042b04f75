// The dialogue that silences messages.

import { call, operator, remember } from "./api.js";
import { h, toast, $ } from "./dom.js";

// scopes are what a silence can be about, for one loop.
function scopes(loop) {
  if (!loop) return [["Every loop", { loop: ["*"] }]];
  const all = [["This loop", { loop: [loop.id] }], [`Policy ${loop.policy}`, { policy: [exact(loop.policy)] }]];
  if (loop.tenant) all.push([`Tenant ${loop.tenant}`, { tenant: [exact(loop.tenant)] }]);
  if (loop.session) all.push(["This session", { session: [loop.session] }]);
  return all;
}

// exact makes of a name the pattern of itself: characters that mean more match one
// character each.
const exact = (name) => name.replace(/[*?\[\]\\]/g, "?").replace(/^!/, "?");

let chosen = [];
let context;

export function openSilence(loop) {
  chosen = scopes(loop);
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
    await call("POST", "silences", {
      matchers: chosen[Number(picked.value)][1], author, comment: $("silence-comment").value.trim(), duration_seconds: Number($("silence-for").value),
    });
    $("silence-dialog").close();
    toast("Silenced.");
    context.refresh(["silences", "loops"]);
  } catch (err) {
    $("silence-fault").textContent = err.message;
    $("silence-fault").hidden = false;
  }
}

export function prepareSilence(pageContext) {
  context = pageContext;
  $("silence-form").addEventListener("submit", send);
  $("silence-cancel").addEventListener("click", () => $("silence-dialog").close());
  $("add-silence").addEventListener("click", () => openSilence(null));
}
