// An agent of LangChain, with its own retries.
'use strict';
const { createAgent, tool } = require('langchain');
const { ChatOpenAI } = require('@langchain/openai');
const { schema, says } = require('./weather');
require('./encodings');

async function agent(question, { streamed, api }) {
  const model = new ChatOpenAI({
    model: 'scripted-1', streaming: streamed, useResponsesApi: api === 'responses', configuration: { baseURL: process.env.OPENAI_BASE_URL },
  });
  const weather = tool(() => says, { name: 'weather', description: 'The weather in a city', schema });
  const result = await createAgent({ model, tools: [weather] }).invoke({ messages: [{ role: 'user', content: question }] }, { recursionLimit: 100 });
  return result.messages.at(-1).text;
}

module.exports = { agent };
