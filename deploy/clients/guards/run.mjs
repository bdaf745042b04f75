// An agent of one framework whose tool is guarded by Unloop's SDK: run.mjs FRAMEWORK GATEWAY.
// Its model, which is asked past the gateway, calls the tool until it hears something new.
// Prints how often the tool was called, and what the agent ended with.
import { Client } from '@unloop/client';

const [framework, gateway] = process.argv.slice(2);
const run = new Client(gateway, { apiKey: 'sk-guard' }).run(`agent-${framework}`);
const question = 'How is the weather in Oslo?';
const description = 'The weather in a city';
const schema = { type: 'object', properties: { city: { type: 'string' } }, required: ['city'], additionalProperties: false };
let made = 0;
const weather = async ({ city }) => { made += 1; return `It is sunny in ${city}.`; };
// For frameworks that need no more than a function with a guard around it.
const guarded = run.guard(weather, { name: 'weather', select: (input) => input, stopped: (decision) => decision.message });

const agents = {
  async mastra() {
    const { Agent } = await import('@mastra/core/agent');
    const { createTool } = await import('@mastra/core/tools');
    const { hooks } = await import('@unloop/client/mastra');
    const tool = createTool({ id: 'weather', description, inputSchema: schema, execute: weather });
    const model = { id: 'openai/scripted-1', url: process.env.OPENAI_BASE_URL, apiKey: 'sk-test' };
    const agent = new Agent({ id: 'weather', name: 'weather', instructions: 'Say how the weather is.', model, tools: { weather: tool }, hooks: hooks(run) });
    return (await agent.generate(question, { maxSteps: 20 })).text;
  },

  async genkit() {
    const { openAICompatible } = await import('@genkit-ai/compat-oai');
    const { genkit } = await import('genkit');
    const ai = genkit({ plugins: [openAICompatible({ name: 'unloop', apiKey: 'sk-test', baseURL: process.env.OPENAI_BASE_URL })] });
    const tool = ai.defineTool({ name: 'weather', description, inputJsonSchema: schema }, guarded);
    return (await ai.generate({ model: 'unloop/scripted-1', prompt: question, tools: [tool], maxTurns: 20 })).text;
  },

  async llamaindex() {
    const { openai } = await import('@llamaindex/openai');
    const { agent } = await import('@llamaindex/workflow');
    const { tool } = await import('llamaindex');
    const tools = [tool({ name: 'weather', description, parameters: schema, execute: guarded })];
    const llm = openai({ model: 'gpt-4o', baseURL: process.env.OPENAI_BASE_URL, apiKey: 'sk-test' });
    return String((await agent({ llm, tools, verbose: false }).run(question)).data.result);
  },

  // The model of ADK's agent is a class of its own here: ADK knows no address for its models.
  async adk() {
    const { BaseLlm, FunctionTool, InMemoryRunner, LlmAgent } = await import('@google/adk');
    const { UnloopPlugin } = await import('@unloop/client/adk');
    class Scripted extends BaseLlm {
      async *generateContentAsync({ contents }) {
        const said = contents.at(-1).parts.find((part) => part.functionResponse)?.functionResponse.response;
        const parts = said && !JSON.stringify(said).includes('sunny')
          ? [{ text: `I was told: ${JSON.stringify(said)}` }] : [{ functionCall: { name: 'weather', args: { city: 'Oslo' } } }];
        yield { content: { role: 'model', parts } };
      }
    }
    const tool = new FunctionTool({ name: 'weather', description, parameters: { type: 'OBJECT', properties: { city: { type: 'STRING' } }, required: ['city'] }, execute: weather });
    const agent = new LlmAgent({ name: 'weather', model: new Scripted({ model: 'scripted-1' }), instruction: 'Say how the weather is.', tools: [tool] });
    const runner = new InMemoryRunner({ agent, appName: 'weather', plugins: [new UnloopPlugin(run)] });
    const session = await runner.sessionService.createSession({ appName: 'weather', userId: 'u' });
    let text = '';
    for await (const event of runner.runAsync({ userId: 'u', sessionId: session.id, newMessage: { role: 'user', parts: [{ text: question }] } })) {
      text = event.content?.parts?.map((part) => part.text ?? '').join('') || text;
    }
    return text;
  },
};

const text = await agents[framework]();
process.stdout.write(JSON.stringify({ made, text }) + '\n', () => process.exit(0));
