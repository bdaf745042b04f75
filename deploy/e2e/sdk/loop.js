// The same request again and again, until the SDK throws: what an agent that
// repeats itself sees. The second argument is the number of tries, the third
// "stream" asks for streams.
'use strict';
const { OpenAI, client, ask, print } = require('./client');

async function once(streamed) {
  const completion = await client.chat.completions.create({ ...ask(), stream: streamed });
  if (!streamed) return;
  for await (const _ of completion);
}

// seen is everything that a caller can read from an error.
function seen(err) {
  const headers = {};
  for (const name of ['retry-after', 'x-should-retry', 'x-loop-action', 'x-loop-reason', 'x-loop-detector', 'x-loop-count']) {
    headers[name] = err.headers?.get(name) ?? null;
  }
  return {
    rate_limit_error: err instanceof OpenAI.RateLimitError,
    status: err.status,
    code: err.code,
    type: err.type,
    text: String(err),
    detail: err.error?.detail,
    headers,
  };
}

async function main() {
  const tries = Number(process.argv[3]);
  const errors = [];
  let answered = 0;
  for (let i = 0; i < tries; i += 1) {
    try {
      await once(process.argv[4] === 'stream');
      answered += 1;
    } catch (err) {
      errors.push(seen(err));
    }
  }
  print({ answered, errors });
}

main();
