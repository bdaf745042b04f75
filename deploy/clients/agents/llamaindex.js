// An agent of LlamaIndex, which reports some errors where nobody waits for them.
'use strict';
const { agent: workflow } = require('@llamaindex/workflow');
const { openai } = require('@llamaindex/openai');
const { tool } = require('llamaindex');
const { schema, says } = require('./weather');

function agent(question) {
  const weather = tool({ name: 'weather', description: 'The weather in a city', parameters: schema, execute: () => says });
  const llm = openai({ model: 'gpt-4o', baseURL: process.env.OPENAI_BASE_URL, apiKey: process.env.OPENAI_API_KEY });
  return new Promise((resolve, reject) => {
    process.once('uncaughtException', reject);
    process.once('unhandledRejection', reject);
    workflow({ llm, tools: [weather], verbose: false }).run(question).then((result) => resolve(String(result.data.result)), reject);
  });
}

module.exports = { agent };
