// Blocks: the dialogue that sets them, and the button that ends them. If only the operator's
// command line can do that, both show the command.

import { act, confirmed, each } from "./act.js";
import { call, operator, remember } from "./api.js";
import { h, plural, toast, $ } from "./dom.js";

const scopes = ["session", "caller", "tenant", "project"];

// quote quotes a word for a shell.
const quote = (word) => (/^[\w./:@%+=-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`);

// command returns the equivalent command.
const command = (verb, scope, values, more = []) => ["unloop", verb, ...values.flatMap((v) => [`--${scope}`, quote(v)]), ...more].join(" ");

const lengths = { 600: ["10 minutes", "10m"], 3600: ["1 hour", "1h"], 14400: ["4 hours", "4h"], 86400: ["1 day", "1d"], 604800: ["1 week", "1w"] };

let context;
let choices = [];

// targets returns what can be blocked: the loops' values of each scope.
function targets(loops) {
  return scopes.map((scope) => [scope, [...new Set(loops.map((l) => l[scope]).filter(Boolean))]]).filter(([, values]) => values.length > 0);
}

const chosen = () => choices[Number(document.querySelector("input[name=target]:checked")?.value ?? 0)];

export function openBlock(loops) {
  choices = targets(loops);
  if (choices.length === 0) {
    toast("These loops have neither a session nor a caller to block.", true);
    return;
  }
  const fields = choices.map(([scope, values], i) => h("label", {}, h("input", { type: "radio", name: "target", value: i, checked: i === 0, onchange: drawCommand }),
    values.length === 1 ? [` This ${scope} `, h("code", {}, values[0])] : ` ${plural(values.length, scope)}`));
  $("block-target").replaceChildren(h("legend", {}, "Whose requests"), ...fields);
  $("block-author").value ||= operator();
  $("block-reason").value = "";
  $("block-fault").hidden = true;
  drawWhy();
  drawCommand();
  $("block-dialog").showModal();
}

// drawWhy shows why the page can't block, as soon as that is known.
export function drawWhy() {
  const why = context.readOnly || (context.sealed ? "The records of this NATS server need the operator's seal, so only the command line can block." : "");
  $("block-why").hidden = why === "";
  $("block-why").textContent = why && `${why.replace(/\.?$/, ".")} Run this:`;
  $("block-submit").hidden = why !== "";
}

function drawCommand() {
  const [scope, values] = chosen();
  const reason = $("block-reason").value.trim();
  $("block-command").textContent = command("block", scope, values, ["--for", lengths[$("block-for").value][1], ...(reason ? ["--reason", quote(reason)] : [])]);
}

async function send(e) {
  e.preventDefault();
  const [scope, values] = chosen();
  remember($("block-author").value.trim());
  const body = { actor: operator(), action: "block", scope, reason: $("block-reason").value.trim(), duration_seconds: Number($("block-for").value) };
  const faults = await each(values, (value) => call("POST", "overrides", { ...body, value }));
  if (faults.length > 0) {
    $("block-fault").textContent = `${faults[0].message}. The command above does it as well.`;
    $("block-fault").hidden = false;
  } else {
    $("block-dialog").close();
    toast(`Blocked ${values.length === 1 ? `the ${scope}` : plural(values.length, scope)}: every request is refused.`);
  }
  context.refresh(["silences", "loops", "loop"]);
}

// ended returns the button that ends an override, or the command for it.
export function ended(o, sealed, { readOnly, refresh }) {
  const [verb, text] = o.action === "block" ? ["unblock", "Unblock"] : ["unexempt", "End"];
  if (sealed || readOnly) return h("code", {}, command(verb, o.scope, [o.value]));
  const path = ["overrides", o.action, o.scope, o.value].map(encodeURIComponent).join("/");
  return confirmed(text, `${text} now?`, {}, async () => {
    await act("DELETE", path, {}, o.action === "block" ? "Its requests pass again." : "Its requests are checked again.");
    await refresh(["silences", "loop"]);
  });
}

export function prepareBlock(pageContext) {
  context = pageContext;
  $("block-for").append(...Object.entries(lengths).map(([seconds, [text]]) => h("option", { value: seconds, selected: seconds === "3600" }, text)));
  $("block-form").addEventListener("submit", send);
  $("block-cancel").addEventListener("click", () => $("block-dialog").close());
  $("block-copy").addEventListener("click", () => navigator.clipboard?.writeText($("block-command").textContent).then(() => toast("Copied."), () => toast("The browser does not let the page copy.", true)));
  for (const id of ["block-for", "block-reason"]) $(id).addEventListener("input", drawCommand);
}
