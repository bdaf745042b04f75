// OpenAI's Responses API, by the npm package openai.
'use strict';
const { client, model } = require('./client');
const { seen } = require('./seen');
const { schema } = require('./weather');
const OpenAI = require('openai');

async function stream(question) {
  const events = await client.responses.create({ model, input: question, stream: true });
  return { events, abort: () => events.controller.abort() };
}

async function tools(question) {
  const request = {
    model,
    input: [{ role: 'user', content: question }],
    tools: [{ type: 'function', name: 'weather', parameters: schema, strict: false }],
  };
  const plain = await client.responses.create(request);
  const streamed = await client.responses.stream(request).finalResponse();
  const called = plain.output;
  const results = called.map((call) => ({ type: 'function_call_output', call_id: call.call_id, output: 'sunny' }));
  const answered = await client.responses.create({ ...request, input: [...request.input, ...called, ...results] });
  const calls = (response) => response.output.map((item) => ({ id: item.call_id, name: item.name, arguments: JSON.parse(item.arguments) }));
  return { plain: calls(plain), streamed: calls(streamed), content: answered.output_text };
}

async function agent(question, streamed) {
  const input = [{ role: 'user', content: question }];
  for (;;) {
    const request = { model, input, tools: [{ type: 'function', name: 'weather', parameters: schema, strict: false }] };
    const response = streamed ? await client.responses.stream(request).finalResponse() : await client.responses.create(request);
    const calls = response.output.filter((item) => item.type === 'function_call');
    if (!calls.length) {
      return { text: response.output_text, end: response.status, model: response.model, tokens: response.usage.total_tokens };
    }
    input.push(...response.output, ...calls.map((call) => ({ type: 'function_call_output', call_id: call.call_id, output: 'sunny' })));
  }
}

module.exports = {
  plain: (question) => client.responses.create({ model, input: question }),
  stream,
  pieceOf: (event) => (event.type === 'response.output_text.delta' ? event.delta : undefined),
  tools,
  agent,
  seen: (err) => seen(err, OpenAI.RateLimitError),
};
