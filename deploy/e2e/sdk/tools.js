// A tool call, plain and streamed, and the round that answers it.
'use strict';
const { client, weather, ask, print } = require('./client');

async function main() {
  const request = { ...ask(), tools: [weather] };
  const plain = await client.chat.completions.create(request);
  const called = plain.choices[0].message;
  const streamed = await client.chat.completions.stream(request).finalChatCompletion();
  const answered = await client.chat.completions.create({
    ...request,
    messages: [
      ...request.messages,
      called,
      { role: 'tool', tool_call_id: called.tool_calls[0].id, content: 'sunny' },
    ],
  });
  const calls = (completion) =>
    completion.choices[0].message.tool_calls.map(({ id, function: f }) => ({ id, name: f.name, arguments: f.arguments }));
  print({ plain: calls(plain), streamed: calls(streamed), content: answered.choices[0].message.content });
}

main();
