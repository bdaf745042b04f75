// The API of the port that serves this page.

import { clock } from "./dom.js";

// Fault is an error answer, or none.
export class Fault extends Error {
  constructor(status, code, message) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

const patience = 10000;

export async function call(method, path, body) {
  const stop = new AbortController();
  const timer = setTimeout(() => stop.abort(), method === "GET" ? patience : 2 * patience);
  try {
    const res = await fetch("/api/v1/" + path, {
      method,
      signal: stop.signal,
      headers: method === "GET" ? {} : { "Content-Type": "application/json" },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
    let data;
    try {
      data = await res.json();
    } catch {
      throw new Fault(res.status, "no_json", `the port answered ${res.status} ${res.statusText}`.trim());
    }
    if (!res.ok) throw new Fault(res.status, data.error?.code ?? "", data.error?.message ?? res.statusText);
    if (data.as_of) clock.ahead = Date.parse(data.as_of) - Date.now();
    return data;
  } catch (err) {
    if (err instanceof Fault) throw err;
    throw new Fault(0, "no_answer", "the port does not answer");
  } finally {
    clearTimeout(timer);
  }
}

// operator returns the name that was last entered, for the audit.
const remembered = "unloop-operator";
export const operator = () => localStorage.getItem(remembered) ?? "";
export const remember = (name) => localStorage.setItem(remembered, name);

export const get = (path) => call("GET", path);

// follow calls changed with the names of the parts that changed, and state with whether the
// stream is open. The browser reconnects by itself, except after an answer that is not a
// stream: then follow does.
export function follow(changed, state) {
  const source = new EventSource("/api/v1/events");
  source.addEventListener("open", () => state(true));
  source.addEventListener("changed", (e) => changed(JSON.parse(e.data).parts));
  source.addEventListener("error", () => {
    state(false);
    if (source.readyState === EventSource.CLOSED) setTimeout(() => follow(changed, state), 3000);
  });
  addEventListener("pagehide", () => source.close());
}
