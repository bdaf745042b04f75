// Gemini's API, by the npm package @google/genai. The base URL and the key come
// from GOOGLE_GEMINI_BASE_URL and GEMINI_API_KEY.
'use strict';
const { GoogleGenAI, ApiError } = require('@google/genai');
const { schema } = require('./weather');

const client = new GoogleGenAI({});
const model = 'scripted-1';

const user = (...parts) => ({ role: 'user', parts });

// shown is what an answer says, without the headers of the HTTP response, which
// bear the time.
function shown(answer) {
  const { sdkHttpResponse, ...rest } = answer;
  return rest;
}

async function* each(stream) {
  for await (const answer of stream) yield shown(answer);
}

async function stream(question) {
  const controller = new AbortController();
  const events = await client.models.generateContentStream({ model, contents: question, config: { abortSignal: controller.signal } });
  return { events: each(events), abort: () => controller.abort() };
}

async function tools(question) {
  const config = { tools: [{ functionDeclarations: [{ name: 'weather', parametersJsonSchema: schema }] }] };
  const contents = [user({ text: question })];
  const plain = await client.models.generateContent({ model, contents, config });
  const streamed = [];
  for await (const answer of await client.models.generateContentStream({ model, contents, config })) {
    streamed.push(...(answer.functionCalls ?? []));
  }
  const results = plain.functionCalls.map(({ id, name }) => ({ functionResponse: { id, name, response: { output: 'sunny' } } }));
  const answered = await client.models.generateContent({
    model,
    contents: [...contents, plain.candidates[0].content, user(...results)],
    config,
  });
  const calls = (all) => all.map(({ id, name, args }) => ({ id, name, arguments: args }));
  return { plain: calls(plain.functionCalls), streamed: calls(streamed), content: answered.text };
}

async function agent(question, streamed) {
  const config = { tools: [{ functionDeclarations: [{ name: 'weather', parametersJsonSchema: schema }] }] };
  const contents = [user({ text: question })];
  for (;;) {
    const request = { model, contents, config };
    const answers = [];
    if (streamed) for await (const answer of await client.models.generateContentStream(request)) answers.push(answer);
    else answers.push(await client.models.generateContent(request));
    const last = answers.at(-1);
    const calls = answers.flatMap((answer) => answer.functionCalls ?? []);
    if (!calls.length) {
      const text = answers.map((answer) => answer.text).join('');
      return { text, end: last.candidates[0].finishReason, model: last.modelVersion, tokens: last.usageMetadata.totalTokenCount };
    }
    const results = calls.map(({ id, name }) => ({ functionResponse: { id, name, response: { output: 'sunny' } } }));
    contents.push(...answers.map((answer) => answer.candidates[0].content), user(...results));
  }
}

// This SDK's error has the status, and the answer's body as its message; no
// headers.
function seen(err) {
  const body = JSON.parse(err.message);
  return { rate_limit_error: err instanceof ApiError && err.status === 429, code: body.error.details?.[0]?.reason, detail: body.detail };
}

module.exports = {
  plain: async (question) => shown(await client.models.generateContent({ model, contents: question })),
  stream,
  pieceOf: (answer) => answer.candidates?.[0]?.content?.parts?.[0]?.text,
  tools,
  agent,
  seen,
};
