// Vercel's AI SDK with OpenAI's Responses API, by the npm packages ai and
// @ai-sdk/openai. It keeps the history with OpenAI, and refers to its items.
'use strict';
const { generateText, jsonSchema, stepCountIs, tool } = require('ai-5');
const { createOpenAI } = require('ai-sdk-openai-2');
const { schema } = require('./weather');

const model = createOpenAI({ baseURL: process.env.OPENAI_BASE_URL })('scripted-1');

// agent calls the tool, which always says the same, until the model asks for none.
async function agent(prompt) {
  const weather = tool({ inputSchema: jsonSchema(schema), execute: async () => 'Weather noted.' });
  try {
    const { steps, text } = await generateText({ model, prompt, tools: { weather }, maxRetries: 0, stopWhen: stepCountIs(20) });
    return { steps: steps.length, text };
  } catch (err) {
    return { status: err.statusCode, text: err.message };
  }
}

module.exports = { agent };
