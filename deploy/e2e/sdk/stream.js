// One streamed chat completion, piece by piece, with its usage.
'use strict';
const { client, ask, print } = require('./client');

async function main() {
  const stream = await client.chat.completions.create({
    ...ask(),
    stream: true,
    stream_options: { include_usage: true },
  });
  const pieces = [];
  let finish_reason;
  let usage;
  for await (const chunk of stream) {
    const choice = chunk.choices[0];
    if (choice?.delta?.content) pieces.push(choice.delta.content);
    finish_reason = choice?.finish_reason ?? finish_reason;
    usage = chunk.usage ?? usage;
  }
  print({ pieces, finish_reason, usage });
}

main();
