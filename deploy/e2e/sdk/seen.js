// What a caller can read from an error of the SDKs that keep the answer's body
// and headers: those of OpenAI and Anthropic.
'use strict';

const names = ['retry-after', 'x-should-retry', 'x-loop-action', 'x-loop-reason', 'x-loop-detector', 'x-loop-count'];

function seen(err, RateLimitError) {
  const headers = {};
  for (const name of names) headers[name] = err.headers?.get(name) ?? null;
  // OpenAI's SDK takes the inner error out of the body, Anthropic's does not.
  const inner = err.error?.error ?? err.error;
  return { rate_limit_error: err instanceof RateLimitError, code: inner?.code, detail: inner?.detail, headers };
}

module.exports = { seen };
