// The client as a user would make it: the base URL and the key come from
// OPENAI_BASE_URL and OPENAI_API_KEY. It counts what it sends, so that a
// retry of the SDK's own shows.
'use strict';
const OpenAI = require('openai');
const { schema } = require('./weather');

let sent = 0;

const client = new OpenAI({
  fetch: (url, init) => {
    sent += 1;
    return fetch(url, init);
  },
});

const model = 'scripted-1';

const weather = { type: 'function', function: { name: 'weather', parameters: schema } };

// ask is a conversation of one question, the first argument of the script.
function ask() {
  return { model, messages: [{ role: 'user', content: process.argv[2] }] };
}

// print writes the one line that the Go test reads.
function print(result) {
  process.stdout.write(JSON.stringify({ ...result, sent }) + '\n');
}

module.exports = { OpenAI, client, model, weather, ask, print };
