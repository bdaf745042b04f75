// An agent on the AI SDK, with its own retries.
'use strict';
const { generateText, streamText, jsonSchema, stepCountIs, isStepCount, tool } = require('ai');
const { createOpenAI } = require('@ai-sdk/openai');
const { schema, says } = require('./weather');

const openai = createOpenAI({ baseURL: process.env.OPENAI_BASE_URL });

async function agent(question, { streamed, api }) {
  const model = api === 'responses' ? openai.responses('scripted-1') : openai.chat('scripted-1');
  const options = {
    model, prompt: question, stopWhen: (isStepCount ?? stepCountIs)(50), 
    tools: { weather: tool({ inputSchema: jsonSchema(schema), execute: async () => says }) },
  };
  if (!streamed) return (await generateText(options)).text;
  let failed;
  const result = streamText({ ...options, onError: ({ error }) => { failed = error; } });
  let text = '';
  for await (const piece of result.textStream) text += piece;
  if (failed) throw failed;
  return text;
}

module.exports = { agent };
