// OpenAI's Chat Completions, by the npm package openai.
'use strict';
const { client, weather, model } = require('./client');
const { seen } = require('./seen');
const OpenAI = require('openai');

const ask = (question, more) => ({ model, messages: [{ role: 'user', content: question }], ...more });

async function stream(question) {
  const events = await client.chat.completions.create(ask(question, { stream: true, stream_options: { include_usage: true } }));
  return { events, abort: () => events.controller.abort() };
}

async function tools(question) {
  const request = ask(question, { tools: [weather] });
  const plain = await client.chat.completions.create(request);
  const called = plain.choices[0].message;
  const streamed = await client.chat.completions.stream(request).finalChatCompletion();
  const results = called.tool_calls.map((call) => ({ role: 'tool', tool_call_id: call.id, content: 'sunny' }));
  const answered = await client.chat.completions.create({ ...request, messages: [...request.messages, called, ...results] });
  const calls = (completion) =>
    completion.choices[0].message.tool_calls.map(({ id, function: f }) => ({ id, name: f.name, arguments: JSON.parse(f.arguments) }));
  return { plain: calls(plain), streamed: calls(streamed), content: answered.choices[0].message.content };
}

async function agent(question, streamed) {
  const messages = [{ role: 'user', content: question }];
  for (;;) {
    const request = { model, messages, tools: [weather] };
    const completion = streamed
      ? await client.chat.completions.stream({ ...request, stream_options: { include_usage: true } }).finalChatCompletion()
      : await client.chat.completions.create(request);
    const [{ message, finish_reason: end }] = completion.choices;
    if (!message.tool_calls?.length) return { text: message.content, end, model: completion.model, tokens: completion.usage.total_tokens };
    messages.push(message, ...message.tool_calls.map((call) => ({ role: 'tool', tool_call_id: call.id, content: 'sunny' })));
  }
}

module.exports = {
  plain: (question) => client.chat.completions.create(ask(question)),
  stream,
  pieceOf: (chunk) => chunk.choices[0]?.delta?.content,
  tools,
  agent,
  seen: (err) => seen(err, OpenAI.RateLimitError),
};
