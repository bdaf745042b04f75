// Elements and texts. Content from the API becomes text, never markup.

const svgNames = new Set(["svg", "g", "rect", "line", "text", "title", "path"]);

// h makes an element: properties that begin with "on" are listeners, "class" and the
// rest are attributes, and children are elements or text.
export function h(name, props = {}, ...children) {
  const el = svgNames.has(name) ? document.createElementNS("http://www.w3.org/2000/svg", name) : document.createElement(name);
  for (const [key, value] of Object.entries(props)) {
    if (value === undefined || value === null || value === false) continue;
    if (key.startsWith("on")) el.addEventListener(key.slice(2), value);
    else el.setAttribute(key, value === true ? "" : String(value));
  }
  el.append(...present(children));
  return el;
}

// present returns the children without those that are null, undefined or false.
const present = (children) => children.flat(Infinity).filter((c) => c !== null && c !== undefined && c !== false);

export const $ = (id) => document.getElementById(id);

// setText changes an element's text only if it differs, which keeps the user's selection.
export function setText(el, text) {
  if (el.textContent !== text) el.textContent = text;
}

// fill replaces the children of an element if the key differs from that of the last call.
export function fill(el, key, make) {
  if (el.shown === key) return;
  el.shown = key;
  keepFocus(el, () => el.replaceChildren(...present([make()])));
}

const focusable = "a[href], button, input, select, summary, [tabindex]";

// keepFocus redraws an element. Focus within it stays at the same position.
export function keepFocus(el, redraw) {
  const within = el.contains(document.activeElement) && document.activeElement !== el;
  const place = within ? [...el.querySelectorAll(focusable)].indexOf(document.activeElement) : -1;
  redraw();
  if (place < 0 || el.contains(document.activeElement)) return;
  const now = el.querySelectorAll(focusable);
  const next = now[Math.min(place, now.length - 1)] ?? el.closest("[tabindex]");
  next?.focus({ preventScroll: true });
}

// reconcile updates the children of a container to those of the items, in their order. An item
// keeps its element, and so its focus. If the focused item is removed, the one in its place gets
// the focus.
export function reconcile(container, items, keyOf, create, update) {
  const focused = [...container.children].findIndex((el) => el.contains(document.activeElement));
  const holder = container.children[focused];
  const active = document.activeElement;
  const before = new Map();
  for (const el of container.children) before.set(el.dataset.key, el);
  let at = container.firstElementChild;
  for (const item of items) {
    const key = keyOf(item);
    let el = before.get(key);
    if (el) before.delete(key);
    else {
      el = create(item);
      el.dataset.key = key;
    }
    update(el, item);
    if (el === at) at = at.nextElementSibling;
    else container.insertBefore(el, at);
  }
  for (const el of before.values()) el.remove();
  if (!holder) return;
  if (holder.isConnected) {
    if (document.activeElement !== active && active.isConnected) active.focus({ preventScroll: true }); // it was moved
    return;
  }
  const next = container.children[Math.min(focused, container.children.length - 1)];
  (next?.querySelector("a[href]") ?? container.closest("[tabindex]"))?.focus({ preventScroll: true });
}

// clock.ahead is by how many milliseconds the server's clock is ahead.
export const clock = { ahead: 0 };
export const now = () => Date.now() + clock.ahead;

// span formats a number of seconds.
export function span(seconds) {
  const s = Math.max(0, Math.round(seconds));
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min`;
  if (s < 86400) return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`.replace(" 0 min", "");
  return `${Math.floor(s / 86400)} d ${Math.floor((s % 86400) / 3600)} h`.replace(" 0 h", "");
}

export const since = (time) => span((now() - Date.parse(time)) / 1000);

// clockTime formats a time of day, with the date if it is not today.
export function clockTime(time, seconds = true) {
  const t = new Date(time);
  const day = t.toDateString() === new Date(now()).toDateString() ? "" : t.toLocaleDateString(undefined, { month: "short", day: "numeric" }) + " ";
  return day + t.toLocaleTimeString(undefined, { hour: "2-digit", minute: "2-digit", second: seconds ? "2-digit" : undefined, hour12: false });
}

export function when(time, text) {
  return h("time", { datetime: time, title: new Date(time).toLocaleString() }, text ?? clockTime(time));
}

// number abbreviates large numbers, and formats others with commas.
export function number(n) {
  if (n >= 1e9) return (n / 1e9).toFixed(1) + " G";
  if (n >= 1e6) return (n / 1e6).toFixed(1) + " M";
  if (n >= 1e5) return (n / 1e3).toFixed(0) + " k";
  return grouped(n);
}

export const grouped = (n) => n.toLocaleString("en");

export function bytes(n) {
  for (const unit of ["B", "KB", "MB", "GB"]) {
    if (n < 1024 || unit === "GB") return `${n < 10 && unit !== "B" ? n.toFixed(1) : Math.round(n)} ${unit}`;
    n /= 1024;
  }
  return "";
}

export const plural = (n, noun) => `${grouped(n)} ${noun}${n === 1 ? "" : "s"}`;

// short returns the beginning of a hash.
export const short = (hash, n = 8) => (hash.length > n + 2 ? hash.slice(0, n) : hash);

// hash returns an element with the beginning of a hash; its title is the whole.
export const hash = (text, n) => h("code", { class: "hash", title: text }, short(text, n));

let toastTimer;
export function toast(text, bad = false) {
  const el = $("toast");
  el.textContent = text;
  el.className = "toast show" + (bad ? " bad" : "");
  clearTimeout(toastTimer);
  toastTimer = setTimeout(() => (el.className = "toast"), bad ? 8000 : 4000);
}
