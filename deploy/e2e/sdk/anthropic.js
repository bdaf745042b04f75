// Anthropic's Messages API, by the npm package @anthropic-ai/sdk. The base URL and
// the key come from ANTHROPIC_BASE_URL and ANTHROPIC_API_KEY.
'use strict';
const Anthropic = require('@anthropic-ai/sdk');
const { seen } = require('./seen');
const { schema } = require('./weather');

const client = new Anthropic();

const ask = (question, more) => ({ model: 'scripted-1', max_tokens: 256, messages: [{ role: 'user', content: question }], ...more });

async function stream(question) {
  const events = await client.messages.create(ask(question, { stream: true }));
  return { events, abort: () => events.controller.abort() };
}

async function tools(question) {
  const request = ask(question, { tools: [{ name: 'weather', input_schema: schema }] });
  const plain = await client.messages.create(request);
  const streamed = await client.messages.stream(request).finalMessage();
  const results = plain.content.map((call) => ({ type: 'tool_result', tool_use_id: call.id, content: 'sunny' }));
  const answered = await client.messages.create({
    ...request,
    messages: [...request.messages, { role: 'assistant', content: plain.content }, { role: 'user', content: results }],
  });
  const calls = (message) => message.content.map((block) => ({ id: block.id, name: block.name, arguments: block.input }));
  return { plain: calls(plain), streamed: calls(streamed), content: answered.content[0].text };
}

async function agent(question, streamed) {
  const request = ask(question, { tools: [{ name: 'weather', input_schema: schema }] });
  for (;;) {
    const message = streamed ? await client.messages.stream(request).finalMessage() : await client.messages.create(request);
    const calls = message.content.filter((block) => block.type === 'tool_use');
    if (!calls.length) {
      const { input_tokens: input, output_tokens: output } = message.usage;
      return { text: message.content[0].text, end: message.stop_reason, model: message.model, tokens: input + output };
    }
    const results = calls.map((call) => ({ type: 'tool_result', tool_use_id: call.id, content: 'sunny' }));
    request.messages.push({ role: 'assistant', content: message.content }, { role: 'user', content: results });
  }
}

module.exports = {
  plain: (question) => client.messages.create(ask(question)),
  stream,
  pieceOf: (event) => (event.type === 'content_block_delta' ? event.delta.text : undefined),
  tools,
  agent,
  seen: (err) => seen(err, Anthropic.RateLimitError),
};
