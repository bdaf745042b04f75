// An agent of the OpenAI Agents SDK.
'use strict';
const { Agent, run, tool, setOpenAIAPI, setTracingDisabled } = require('@openai/agents');
const { schema, says } = require('./weather');

setTracingDisabled(true);

async function agent(question, { streamed, api }) {
  setOpenAIAPI(api === 'responses' ? 'responses' : 'chat_completions');
  const weather = tool({ name: 'weather', description: 'The weather in a city', parameters: schema, strict: true, execute: async () => says });
  const result = await run(new Agent({ name: 'forecaster', model: 'scripted-1', tools: [weather] }), question, { stream: streamed, maxTurns: 50 });
  if (streamed) await result.completed;
  return result.finalOutput;
}

module.exports = { agent };
