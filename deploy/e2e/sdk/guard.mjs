// A tool behind the guard of Unloop's SDK, called ten times with the same result, then with
// others: guard.mjs URL.
import { Client, LoopDetectedError } from '../../../schemas/client/js/index.js';

const run = new Client(process.argv[2], { apiKey: 'sk-guard' }).run('agent-js');
let made = 0;
const weather = run.guard(({ city }) => { made += 1; return `It is sunny in ${city}.`; }, { name: 'weather' });
let stopped = null;
for (let i = 0; i < 10 && !stopped; i += 1) {
  stopped = await weather({ city: 'Oslo' }).then(() => null, (err) => err);
}
const other = await weather({ city: 'Rome' });
console.log(JSON.stringify({ made, typed: stopped instanceof LoopDetectedError, says: stopped.message, loop: stopped.loop_id, other }));
