// An agent on OpenAI's own SDK.
'use strict';
const OpenAI = require('openai');
const { schema, says } = require('./weather');

const client = new OpenAI();

async function chat(question, streamed) {
  const messages = [{ role: 'user', content: question }];
  for (;;) {
    const request = { model: 'scripted-1', messages, tools: [{ type: 'function', function: { name: 'weather', parameters: schema } }] };
    const completion = streamed
      ? await client.chat.completions.stream(request).finalChatCompletion()
      : await client.chat.completions.create(request);
    const { message } = completion.choices[0];
    if (!message.tool_calls?.length) return message.content;
    messages.push(message, ...message.tool_calls.map((call) => ({ role: 'tool', tool_call_id: call.id, content: says })));
  }
}

async function responses(question, streamed) {
  const input = [{ role: 'user', content: question }];
  for (;;) {
    const request = { model: 'scripted-1', input, store: false, tools: [{ type: 'function', name: 'weather', parameters: schema, strict: true }] };
    const response = streamed ? await client.responses.stream(request).finalResponse() : await client.responses.create(request);
    const calls = response.output.filter((item) => item.type === 'function_call');
    if (!calls.length) return response.output_text;
    input.push(...response.output, ...calls.map((call) => ({ type: 'function_call_output', call_id: call.call_id, output: says })));
  }
}

module.exports = { agent: (question, { streamed, api }) => (api === 'responses' ? responses : chat)(question, streamed) };
