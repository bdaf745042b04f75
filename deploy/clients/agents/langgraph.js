// A graph of LangGraph that calls a model and its tools by turns.
'use strict';
const { StateGraph, MessagesAnnotation } = require('@langchain/langgraph');
const { ToolNode, toolsCondition } = require('@langchain/langgraph/prebuilt');
const { tool } = require('@langchain/core/tools');
const { ChatOpenAI } = require('@langchain/openai');
const { schema, says } = require('./weather');
require('./encodings');

async function agent(question, { streamed, api }) {
  const tools = [tool(() => says, { name: 'weather', description: 'The weather in a city', schema })];
  const model = new ChatOpenAI({
    model: 'scripted-1', streaming: streamed, useResponsesApi: api === 'responses', configuration: { baseURL: process.env.OPENAI_BASE_URL },
  }).bindTools(tools);
  const graph = new StateGraph(MessagesAnnotation)
    .addNode('model', async ({ messages }) => ({ messages: [await model.invoke(messages)] }))
    .addNode('tools', new ToolNode(tools))
    .addEdge('__start__', 'model')
    .addConditionalEdges('model', toolsCondition)
    .addEdge('tools', 'model')
    .compile();
  const result = await graph.invoke({ messages: [{ role: 'user', content: question }] }, { recursionLimit: 100 });
  return result.messages.at(-1).text;
}

module.exports = { agent };
