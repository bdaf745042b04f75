// Is all well? What gateways did in the last minute, and what is wrong.
import { $, fill, grouped, h } from "./dom.js";

const bar = { width: 10, gap: 3, height: 28 };

// judge returns the state of the system in a sentence: { level, title, says, traffic }.
export function judge(health, now = Date.now()) {
  const ready = (service) => health.parts.filter((p) => p.service === service && p.state === "ready");
  const gateways = health.parts.filter((p) => p.service === "gateway" && p.traffic && p.state !== "silent");
  const traffic = sum(gateways.map((p) => p.traffic));
  const total = traffic.requests.reduce((a, n) => a + n, 0);
  const counted = [`${grouped(total)} request${total === 1 ? "" : "s"} in the last minute`, `${grouped(total - traffic.unchecked)} checked`,
    traffic.hinted && `${grouped(traffic.hinted)} hinted`, traffic.stopped && `${grouped(traffic.stopped)} stopped`].filter(Boolean).join(", ");
  if (health.nats) return { level: "fault", title: "NATS is away, so requests pass unchecked.", says: "Start its servers, or look at /readyz.", traffic };
  if (ready("gateway").length === 0) return { level: "fault", title: "No gateway is ready.", says: "Start one with unloop gateway or unloop up.", traffic };
  if (ready("detector").length === 0) return { level: "fault", title: "No detector is ready, so requests pass unchecked.", says: "Start one with unloop detector.", traffic };
  if (traffic.unchecked > 0) return { level: "fault", title: `${grouped(traffic.unchecked)} of ${grouped(total)} requests were not checked in the last minute.`, says: "unloop doctor says why.", traffic };
  if (!traffic.last) return { level: "idle", title: "No request has come yet.", says: "Point an agent's base URL at the gateway: a wrong one looks like peace.", traffic };
  if (total === 0) return { level: "idle", title: `No traffic since ${clock(traffic.last, now)}.`, says: "Nothing is watched while nothing comes through.", traffic };
  return { level: "good", title: "All is well.", says: `${counted}.`, traffic };
}

// sum adds the traffic of gateways.
function sum(all) {
  const out = { last: "", requests: Array(12).fill(0), unchecked: 0, hinted: 0, stopped: 0 };
  for (const t of all) {
    if (t.last > out.last) out.last = t.last;
    t.requests.forEach((n, i) => { out.requests[i] += n; });
    for (const name of ["unchecked", "hinted", "stopped"]) out[name] += t[name];
  }
  return out;
}

// clock formats the time of day, or the date if it is not today.
function clock(at, now) {
  const time = new Date(at);
  const today = time.toDateString() === new Date(now).toDateString();
  return today ? time.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" }) : time.toLocaleDateString([], { dateStyle: "medium" });
}

export function draw(health) {
  const state = judge(health);
  fill($("well"), JSON.stringify([state.level, state.title, state.says, state.traffic.requests]), () => {
    $("well").className = `well ${state.level}`;
    return [h("span", { class: "dot" }), h("p", { role: "status" }, h("strong", {}, state.title), " ", state.says), chart(state.traffic.requests)];
  });
}

// chart draws a bar for each five seconds.
function chart(requests) {
  const most = Math.max(1, ...requests);
  const width = requests.length * (bar.width + bar.gap);
  return h("svg", { class: "bars", viewBox: `0 0 ${width} ${bar.height}`, width, height: bar.height, role: "img", "aria-label": `Requests in steps of five seconds: ${requests.join(", ")}` },
    requests.map((n, i) => {
      const height = n === 0 ? 1 : Math.max(2, (n / most) * bar.height);
      return h("rect", { x: i * (bar.width + bar.gap), y: bar.height - height, width: bar.width, height, rx: 1 });
    }));
}
