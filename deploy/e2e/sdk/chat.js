// One plain chat completion.
'use strict';
const { client, ask, print } = require('./client');

async function main() {
  const { data, response } = await client.chat.completions.create(ask()).withResponse();
  print({
    status: response.status,
    content: data.choices[0].message.content,
    finish_reason: data.choices[0].finish_reason,
    usage: data.usage,
  });
}

main();
