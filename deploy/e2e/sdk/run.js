// One task with one SDK: run.js SDK TASK QUESTION [TRIES]. It prints one line of
// JSON for the Go test: what the caller saw, and how many requests left, so that
// a retry of the SDK's own shows.
'use strict';

let sent = 0;
const realFetch = globalThis.fetch;
globalThis.fetch = (...args) => {
  sent += 1;
  return realFetch(...args);
};

const [name, task, question, tries] = process.argv.slice(2);
const sdk = require('./' + name);

// Each SDK has the same six functions:
//   plain(question)       the answer, whole
//   stream(question)      { events, abort }: what the SDK hands out, as it comes
//   pieceOf(event)        the text in one of them
//   tools(question)       what came of a round of tool calls
//   agent(question, streamed)
//                         what an agent ends with that calls tools until the model
//                         asks for none
//   seen(err)             what a caller can read from an error

async function collect(stream) {
  const events = [];
  for await (const event of stream.events) events.push(event);
  return events;
}

// attempt repeats one request and notes what came of each try.
async function attempt(ask) {
  const errors = [];
  let answered = 0;
  for (let i = 0; i < Number(tries); i += 1) {
    try {
      await ask();
      answered += 1;
    } catch (err) {
      const { loopError } = await import('../../../schemas/client/js/index.js');
      errors.push({ ...sdk.seen(err), status: err.status, text: String(err), typed: loopError(err) });
    }
  }
  return { answered, errors };
}

const tasks = {
  plain: async () => ({ answer: await sdk.plain(question) }),
  streamed: async () => ({ events: await collect(await sdk.stream(question)) }),
  tools: async () => sdk.tools(question),
  agent: async () => sdk.agent(question, false),
  agentStreamed: async () => sdk.agent(question, true),
  abort: async () => {
    const pieces = [];
    const stream = await sdk.stream(question);
    let aborted = false;
    try {
      for await (const event of stream.events) {
        const piece = sdk.pieceOf(event);
        if (!piece) continue;
        pieces.push(piece);
        stream.abort();
        aborted = true;
      }
    } catch (err) {
      // Some SDKs end the loop, others throw what the caller asked for.
      if (!aborted) throw err;
    }
    return { pieces };
  },
  loop: () => attempt(() => sdk.plain(question)),
  loopStreamed: () => attempt(async () => collect(await sdk.stream(question))),
};

tasks[task]().then((result) => process.stdout.write(JSON.stringify({ ...result, sent }) + '\n'));
