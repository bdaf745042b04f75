// One agent with a question: run.js AGENT API QUESTION, where API is chat or responses,
// with +stream for streams. It prints what the agent says at its end, or the error that
// ends it, as one line of JSON.
'use strict';
const [name, api, question] = process.argv.slice(2);
const { agent } = require('./' + name);

const options = { api: api.split('+')[0], streamed: api.endsWith('+stream') };
const print = (result) => process.stdout.write(JSON.stringify(result) + '\n', () => process.exit(0));
agent(question, options).then((text) => print({ text }), (err) => print({ error: String(err.message), name: err.name }));
