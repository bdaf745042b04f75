// What the page shows, as the fragment of its address says: a loop, or a list of loops.

export const groupings = ["policy", "tool", "tenant", "project", "caller"];
export const orders = { first_seen: "newest", last_seen: "last seen", hits: "hits", stopped: "requests stopped", saved: "cost saved" };
// properties are those that the list can be filtered by.
export const properties = ["policy", "tool", "tenant", "project", "caller", "session"];

const standard = { loop: "", group: "", sort: "first_seen", page: 1, q: "", range: "1h" };

// view is what is shown. Only read and go change it.
export const view = { ...standard, only: {} };

// read takes the view from the address, and reports whether the address names one.
export function read() {
  const text = location.hash.slice(1);
  if (text !== "" && !text.includes("=")) return false; // a section
  const p = new URLSearchParams(text);
  Object.assign(view, {
    loop: p.get("loop") ?? "",
    group: groupings.includes(p.get("group")) ? p.get("group") : "",
    sort: p.get("sort") in orders ? p.get("sort") : standard.sort,
    page: Math.max(1, Math.floor(Number(p.get("page"))) || 1),
    q: p.get("q") ?? "",
    range: p.get("range") ?? view.range,
    only: Object.fromEntries(properties.filter((name) => p.has(name)).map((name) => [name, p.get(name)])),
  });
  return true;
}

// link returns the address of the view with changes.
export function link(changes = {}) {
  const next = { ...view, loop: "", page: 1, ...changes };
  const p = new URLSearchParams();
  for (const name of ["loop", "group", "sort", "page", "q", "range"]) {
    if (String(next[name]) !== String(standard[name])) p.set(name, next[name]);
  }
  for (const [name, value] of Object.entries(next.only)) p.set(name, value);
  const text = p.toString();
  return "#" + (text || "live=");
}

// loopLink returns the address of a loop, from which "back" returns to the present list.
export const loopLink = (id) => link({ loop: id, page: view.page });

// go changes the view. Small changes replace the entry in the browser's history.
export function go(changes, small = false) {
  const to = link(changes);
  if (small) history.replaceState(null, "", to);
  else history.pushState(null, "", to);
  read();
}

// query returns the parameters of the API for the loops of the view.
export function query(more = {}) {
  const p = new URLSearchParams(more);
  if (view.q.trim()) p.set("q", view.q.trim().split(/\s+/).slice(0, 20).join(" "));
  for (const [name, value] of Object.entries(view.only)) p.set(name, value);
  return p.toString();
}
