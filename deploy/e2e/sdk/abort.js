// A streamed chat completion that the client leaves after the first piece.
'use strict';
const { client, ask, print } = require('./client');

async function main() {
  const stream = await client.chat.completions.create({ ...ask(), stream: true });
  const pieces = [];
  for await (const chunk of stream) {
    const piece = chunk.choices[0]?.delta?.content;
    if (!piece) continue;
    pieces.push(piece);
    stream.controller.abort();
  }
  print({ pieces });
}

main();
