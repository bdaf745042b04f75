// An agent of Genkit, with its plugin for compatible APIs.
'use strict';
const { openAICompatible } = require('@genkit-ai/compat-oai');
const { genkit } = require('genkit');
const { schema, says } = require('./weather');

async function agent(question, { streamed }) {
  const ai = genkit({ plugins: [openAICompatible({ name: 'unloop', apiKey: process.env.OPENAI_API_KEY, baseURL: process.env.OPENAI_BASE_URL })] });
  const weather = ai.defineTool({ name: 'weather', description: 'The weather in a city', inputJsonSchema: schema }, async () => says);
  const options = { model: 'unloop/scripted-1', prompt: question, tools: [weather], maxTurns: 50 };
  if (!streamed) return (await ai.generate(options)).text;
  return (await ai.generateStream(options).response).text;
}

module.exports = { agent };
