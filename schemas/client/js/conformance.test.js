// Runs the cases that the SDKs of all languages have in common.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { CheckError, Client, KilledError, LimitedError, LoopDetectedError, UncheckedError, loopError, loopFromResponse } from './index.js';

const cases = JSON.parse(readFileSync(new URL('../conformance.json', import.meta.url)));
const classes = { loop: LoopDetectedError, unchecked: UncheckedError, killed: KilledError, limited: LimitedError, check: CheckError };
const methods = { check: 'check', peek: 'peek', check_tool: 'checkTool' };
const text = (body) => (typeof body === 'string' ? body : JSON.stringify(body));

// gateway answers a client's fetch in turn, and keeps what was sent. It is away after that.
function gateway(answers) {
  const sent = [];
  const rest = [...answers];
  const fetch = async (url, { headers, body }) => {
    const next = rest.shift();
    if (!next) throw new TypeError('fetch failed');
    sent.push({ url, headers, body: JSON.parse(body) });
    return new Response(text(next.body), { status: next.status });
  };
  return { sent, fetch };
}

function wantsFields(error, { class: name = 'loop', ...fields }) {
  assert.ok(error instanceof classes[name], `${error} is no ${name} error`);
  for (const [field, value] of Object.entries(fields)) assert.equal(error[field], value, field);
}

for (const c of cases.answers) {
  test(`answer: ${c.name}`, async () => {
    const body = text(c.body);
    const response = new Response(body, { status: c.status, headers: c.headers });
    const found = await loopFromResponse(response);
    assert.equal(await response.text(), body, 'the body can be read again');
    const asSDK = loopError(Object.assign(new Error('x', { cause: undefined }), { headers: response.headers, error: c.body?.error, responseBody: body }));
    const behind = loopError(new Error('outer', { cause: { response: { headers: c.headers, data: c.body } } }));
    for (const error of [found, asSDK, behind]) {
      if (c.error === null) assert.equal(error, null);
      else wantsFields(error, c.error);
    }
    assert.equal(await loopFromResponse(new Response(body, { status: 200, headers: c.headers })), null);
  });
}

for (const c of cases.checks) {
  test(`check: ${c.name}`, async () => {
    const { sent, fetch } = gateway([c.answer]);
    const client = new Client('http://127.0.0.1:8080/v1/', { apiKey: 'sk-one', headers: { 'X-Team': 'red', 'X-Own': 'no' }, fetch });
    const asked = client[methods[c.call]]({ ...c.with, headers: { 'X-Own': 'yes' } });
    if (c.error?.class === 'check') {
      await asked.then(() => assert.fail('no error'), (err) => wantsFields(err, c.error));
    } else {
      const decision = await asked;
      assert.equal(decision.allowed, c.allowed);
      if (c.allowed) assert.deepEqual([decision.error, decision.headers], [null, { 'X-Unloop-Check': c.tag || undefined }]);
      else wantsFields(decision.error, c.error);
    }
    assert.deepEqual(sent.map((s) => s.body), [c.sent]);
    assert.equal(sent[0].url, 'http://127.0.0.1:8080/unloop/v1/check');
    const header = (name) => sent[0].headers.get(name);
    assert.deepEqual(['Authorization', 'X-Team', 'X-Own', 'Content-Type'].map(header), ['Bearer sk-one', 'red', 'yes', 'application/json']);
  });
}

for (const c of cases.guards) {
  test(`guard: ${c.name}`, async () => {
    const { sent, fetch } = gateway(c.answers);
    let problems = 0;
    let called = false;
    const run = new Client('http://127.0.0.1:8080', { fetch }).run('s', { project: 'demo', onError: () => { problems += 1; } });
    const weather = async () => {
      called = true;
      if (c.fails) throw new Error(c.fails);
      return c.result;
    };
    const outcome = await run.guard(weather)({ city: 'Oslo' }).then((result) => ({ result, error: '' }), (err) => ({ error: err.message }));
    assert.equal(outcome.error, c.error);
    if (c.error === '') assert.deepEqual(outcome.result, c.result);
    assert.deepEqual([called, problems, sent.map((s) => s.body)], [c.called, c.problems ?? 0, c.sent]);
    assert.deepEqual(run.headers, { 'X-Session-ID': 's', 'X-Project-ID': 'demo' });
  });
}

for (const c of cases.leases) {
  test(`lease: ${c.name}`, async () => {
    const { sent, fetch } = gateway(c.answers);
    let problems = 0;
    const run = new Client('http://127.0.0.1:8080', { fetch }).run('s', { project: 'demo', onError: () => { problems += 1; } });
    let error = '';
    try {
      const lease = await run.lease('weather', { city: 'Oslo' });
      for (const [how, what] of c.settle) await lease[how](how === 'fail' ? new Error(what) : what);
    } catch (err) {
      error = err.message;
    }
    assert.deepEqual([error, problems, sent.map((s) => s.body)], [c.error, c.problems ?? 0, c.sent]);
  });
}

test('a stopped call can return words for the model', async () => {
  const { fetch } = gateway([{ status: 200, body: { action: 'block', message: 'try another city' } }]);
  const guarded = new Client('http://127.0.0.1:8080', { fetch }).run('s').guard(() => assert.fail(), { name: 'weather', stopped: (d) => d.message });
  assert.equal(await guarded({ city: 'Oslo' }), 'try another city');
});

test('the runs of a client know that the gateway is away', async (t) => {
  const warned = t.mock.method(console, 'warn', () => {});
  const allow = { status: 200, body: { action: 'allow' } };
  const { sent, fetch } = gateway([allow, { status: 503, body: {} }, allow]);
  const client = new Client('http://127.0.0.1:8080', { fetch });
  const circle = {};
  circle.circle = circle;
  for (const [run, args] of [['a', circle], ['b', {}], ['c', {}], ['d', {}]]) {
    assert.equal(await client.run(run).call('weather', args, async () => 'sunny'), 'sunny');
  }
  assert.deepEqual([sent.map((s) => s.body.session), warned.mock.callCount()], [['b', 'b'], 1]);
});

test('the URL of a gateway', () => {
  for (const url of ['', '127.0.0.1:8080', 'ftp://host', 'http://']) assert.throws(() => new Client(url), TypeError, url);
});
