// An agent of Mastra.
'use strict';
const { Agent } = require('@mastra/core/agent');
const { createTool } = require('@mastra/core/tools');
const { schema, says } = require('./weather');

async function agent(question, { streamed }) {
  const weather = createTool({ id: 'weather', description: 'The weather in a city', inputSchema: schema, execute: async () => says });
  const model = { id: 'openai/scripted-1', url: process.env.OPENAI_BASE_URL, apiKey: process.env.OPENAI_API_KEY };
  const runner = new Agent({ id: 'weather', name: 'weather', instructions: 'Say how the weather is.', model, tools: { weather } });
  if (!streamed) return (await runner.generate(question, { maxSteps: 50 })).text;
  const stream = await runner.stream(question, { maxSteps: 50 });
  const text = await stream.text;
  if (stream.error) throw stream.error;
  return text;
}

module.exports = { agent };
