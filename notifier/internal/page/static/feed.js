// Reading of the page's data: again after a change, but not without a pause, which is longer for
// what takes the server longer.

import { get } from "./api.js";

// pause is the time between two readings of one part, in milliseconds.
const pause = { loops: 200, charts: 3000 };
const usual = 600;
const afterFault = 3000;

// newFeed returns a function that reads parts. sources has a function for each part, which returns
// the [name, path] pairs to read into data; tell is called after each reading with the part and its
// error, or null.
export function newFeed(sources, data, tell) {
  const parts = new Map(Object.keys(sources).map((name) => [name, { wanted: false, waiting: [], running: false }]));

  async function run(name, part) {
    part.running = true;
    while (part.wanted) {
      const waiting = part.waiting.splice(0);
      part.wanted = false;
      let fault = null;
      try {
        await Promise.all(sources[name]().map(async ([into, path]) => {
          data[into] = typeof path === "function" ? await path() : Object.assign(await get(path), { of: path });
        }));
      } catch (err) {
        fault = err;
        part.wanted = true;
      }
      tell(name, fault);
      for (const done of waiting) done();
      await new Promise((resolve) => setTimeout(resolve, fault ? afterFault : pause[name] ?? usual));
    }
    part.running = false;
  }

  // refresh reads parts again, and resolves after that.
  return function refresh(names) {
    return Promise.all(names.filter((n) => parts.has(n)).map((name) => new Promise((resolve) => {
      const part = parts.get(name);
      part.wanted = true;
      part.waiting.push(resolve);
      if (!part.running) run(name, part);
    })));
  };
}
