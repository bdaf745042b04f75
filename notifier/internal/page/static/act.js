// Actions: calls of the API that change something, and buttons with a confirmation.

import { call, operator } from "./api.js";
import { h, plural, toast } from "./dom.js";

// act asks the API for a change and shows the result. It returns whether it succeeded.
export async function act(method, path, body, done) {
  try {
    const answer = await call(method, path, { actor: operator(), ...body });
    toast(typeof done === "function" ? done(answer) : done);
    return true;
  } catch (err) {
    toast(err.message, true);
    return false;
  }
}

export const release = (id) => act("POST", `loops/${encodeURIComponent(id)}/release`, {},
  (done) => `Released: ${plural(done.counters, "counter")} ${done.counters === 1 ? "starts" : "start"} anew.`);

// atOnce bounds the concurrent requests of a selection.
const atOnce = 4;

// each calls run for all items, a few at a time, and returns the errors.
export async function each(items, run) {
  const faults = [];
  const rest = [...items];
  await Promise.all(Array.from({ length: atOnce }, async () => {
    while (rest.length > 0) {
      try {
        await run(rest.shift());
      } catch (err) {
        faults.push(err);
      }
    }
  }));
  return faults;
}

// releaseAll releases loops and shows the result.
export async function releaseAll(ids) {
  const faults = await each(ids, (id) => call("POST", `loops/${encodeURIComponent(id)}/release`, { actor: operator() }));
  const gone = faults.filter((f) => f.code === "not_open").length;
  const failed = faults.length - gone;
  const text = [`Released ${plural(ids.length - faults.length, "loop")}.`, gone && `${plural(gone, "loop")} had ended already.`,
    failed && `${plural(failed, "loop")} could not be released: ${faults.find((f) => f.code !== "not_open").message}.`].filter(Boolean).join(" ");
  toast(text, failed > 0);
}

// confirmed returns a button that acts when it is pressed twice. Its width does not change.
export function confirmed(text, again, props, run) {
  let timer;
  const first = h("span", {}, text);
  const second = h("span", { "aria-hidden": "true" }, again);
  const button = h("button", { type: "button", ...props, class: `confirmed ${props.class ?? ""}` }, first, second);
  const ask = (sure) => {
    clearTimeout(timer);
    button.classList.toggle("sure", sure);
    first.setAttribute("aria-hidden", String(sure));
    second.setAttribute("aria-hidden", String(!sure));
    if (sure) timer = setTimeout(() => ask(false), 4000);
  };
  ask(false);
  button.addEventListener("click", async () => {
    if (button.getAttribute("aria-busy") === "true") return;
    if (!button.classList.contains("sure")) {
      ask(true);
      return;
    }
    ask(false);
    button.setAttribute("aria-busy", "true"); // a disabled button would lose the focus
    try {
      await run();
    } finally {
      button.removeAttribute("aria-busy");
    }
  });
  button.addEventListener("blur", () => ask(false));
  return button;
}
