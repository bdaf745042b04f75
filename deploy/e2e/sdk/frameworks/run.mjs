// An agent of one framework whose tool is guarded by Unloop's SDK: run.mjs FRAMEWORK GATEWAY.
// The model, which is asked past the gateway, calls the tool until it hears something new.
// Prints how often the tool was called, and what the agent ended with.
import { Client } from '@unloop/client';

const [framework, gateway] = process.argv.slice(2);
const run = new Client(gateway, { apiKey: 'sk-guard' }).run(`agent-${framework}`);
const schema = { type: 'object', properties: { city: { type: 'string' } }, required: ['city'], additionalProperties: false };
const question = 'How is the weather in Oslo?';
const description = 'The weather in a city';
let made = 0;
const weather = ({ city }) => { made += 1; return `It is sunny in ${city}.`; };

const agents = {
  async langchain() {
    const { createAgent, tool } = await import('langchain');
    const { ChatOpenAI } = await import('@langchain/openai');
    const { unloop } = await import('@unloop/client/langchain');
    const model = new ChatOpenAI({ model: 'scripted-1', maxRetries: 0 });
    const agent = createAgent({ model, tools: [tool(weather, { name: 'weather', description, schema })], middleware: [unloop(run)] });
    const result = await agent.invoke({ messages: [{ role: 'user', content: question }] }, { recursionLimit: 60 });
    return result.messages.at(-1).text;
  },

  async 'ai-7'() {
    const { generateText, isStepCount, jsonSchema, tool } = await import('ai');
    const { createOpenAI } = await import('@ai-sdk/openai');
    const { unloop } = await import('@unloop/client/ai');
    const tools = { weather: tool({ description, inputSchema: jsonSchema(schema), execute: weather }) };
    const { text } = await generateText({ model: createOpenAI().chat('scripted-1'), prompt: question, tools, stopWhen: isStepCount(20), ...unloop(run) });
    return text;
  },

  async 'ai-5'() {
    const { generateText, jsonSchema, stepCountIs, tool } = await import('ai-5');
    const { createOpenAI } = await import('ai-sdk-openai-2');
    const { guardTools } = await import('@unloop/client/ai');
    const tools = guardTools(run, { weather: tool({ description, inputSchema: jsonSchema(schema), execute: weather }) });
    const { text } = await generateText({ model: createOpenAI({ baseURL: process.env.OPENAI_BASE_URL }).chat('scripted-1'), prompt: question, tools, stopWhen: stepCountIs(20) });
    return text;
  },

  async 'openai-agents'() {
    const { Agent, run: start, tool, setOpenAIAPI, setTracingDisabled } = await import('@openai/agents');
    const { guardTools } = await import('@unloop/client/openai-agents');
    setTracingDisabled(true);
    setOpenAIAPI('chat_completions');
    const tools = guardTools(run, [tool({ name: 'weather', description, parameters: schema, strict: true, execute: weather })]);
    const { finalOutput } = await start(new Agent({ name: 'forecaster', model: 'scripted-1', tools }), question, { maxTurns: 20 });
    return finalOutput;
  },
};

const text = await agents[framework]();
console.log(JSON.stringify({ made, text }));
