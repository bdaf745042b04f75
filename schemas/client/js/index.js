// The SDK of Unloop for JavaScript: the typed error of a request that was stopped, checks of
// requests and tool calls, and a guard around tools. It has no dependencies, and runs where
// there is a fetch: Node 20 and later, Bun, Deno, browsers.
//
// Fields have the names that they have on the wire.

const codeLoop = 'recursive_loop_detected';

/** The header in which a request carries the id of its decision, so that it counts once. */
export const HEADER_CHECK = 'X-Unloop-Check';

/** Why a request or a call must not be sent. The classes below say which reason it is. */
export class StoppedError extends Error {
  constructor(message, options) {
    super(message, options);
    this.name = new.target.name;
  }
}

/** The request or call is part of a loop. The same one would be stopped again. */
export class LoopDetectedError extends StoppedError {
  constructor(fields, options) {
    super(fields.message || `${codeLoop}: seen ${fields.hit_count} times (detector ${fields.detector})`, options);
    const { action, detector, policy, fingerprint, hit_count, window_seconds, cooldown_seconds, loop_id, retry_after_seconds } = fields;
    Object.assign(this, { action, detector, policy, fingerprint, hit_count, window_seconds, cooldown_seconds, loop_id, retry_after_seconds });
  }
}

/** The request could not be checked, and a policy forbids to send such requests. */
export class UncheckedError extends StoppedError {}

/** An operator stops requests like this one. */
export class KilledError extends StoppedError {}

/** The limit of a rule is reached. */
export class LimitedError extends StoppedError {}

const causes = { unchecked: UncheckedError, kill_switch: KilledError, rate_limit_exceeded: LimitedError };

/** An answer of the check API that is no decision: the check is malformed, or refused. */
export class CheckError extends Error {
  constructor(status, { code = '', field = '', message = '' } = {}) {
    super(`check API: HTTP status ${status}${message ? `: ${message}` : ''}`);
    Object.assign(this, { name: 'CheckError', status, code, field });
  }
}

const stops = (action) => action === 'reject' || action === 'break';
const whole = (value) => (Number.isInteger(Number(value)) ? Math.max(Number(value), 0) : 0);

// parsed returns the JSON in a text, and null if there is none.
function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

// detailIn returns the part that all formats' answers to a loop have in common. SDKs keep
// the answer's JSON, or a member of it.
function detailIn(body) {
  const value = typeof body === 'string' ? parsed(body) : body;
  for (const shape of [value, value?.error]) {
    if (shape?.detail?.error === codeLoop) return shape.detail;
  }
  return null;
}

// headerOf returns a header from a Headers or a plain object.
function headerOf(headers, name) {
  if (typeof headers?.get === 'function') return headers.get(name) ?? '';
  const key = Object.keys(headers ?? {}).find((k) => k.toLowerCase() === name.toLowerCase());
  return key === undefined ? '' : String(headers[key]);
}

// fromAnswer returns the error of an answer with an error's status. Its headers are enough
// if a proxy or an SDK replaced the body.
function fromAnswer(headers, bodies, cause) {
  const header = (name) => headerOf(headers, name);
  let detail = bodies.map(detailIn).find(Boolean);
  if (!detail) {
    // An upstream's own rate limit may have the headers of a warning.
    if (!stops(header('X-Loop-Action')) || header('X-Loop-Reason') !== 'loop_detected') return null;
    detail = { detector: header('X-Loop-Detector'), hit_count: whole(header('X-Loop-Count')) };
  }
  return new LoopDetectedError({
    message: detail.message ?? '', action: header('X-Loop-Action') || 'reject', detector: detail.detector ?? '', policy: detail.policy ?? '',
    fingerprint: detail.fingerprint ?? '', hit_count: whole(detail.hit_count), window_seconds: whole(detail.window_seconds),
    cooldown_seconds: whole(detail.cooldown_seconds), loop_id: detail.loop_id ?? '', retry_after_seconds: whole(header('Retry-After')),
  }, { cause });
}

/**
 * Returns the LoopDetectedError of a fetch Response with which Unloop stopped a request, and
 * null for any other answer. The body can be read afterwards.
 */
export async function loopFromResponse(response) {
  if (response.status < 400) return null;
  return fromAnswer(response.headers, [await response.clone().text()], undefined);
}

/**
 * Returns the LoopDetectedError behind the error of an SDK or framework, with that error as
 * its cause, and null if the error has another reason. It knows the errors of OpenAI,
 * Anthropic, Google, AWS, Ollama, the AI SDK and LangChain by their members.
 */
export function loopError(err) {
  const seen = new Set();
  const look = (e) => {
    if (e === null || typeof e !== 'object' || seen.has(e)) return null;
    seen.add(e);
    if (e instanceof LoopDetectedError) return e;
    const headers = e.headers ?? e.responseHeaders ?? e.response?.headers ?? e.$response?.headers;
    const found = fromAnswer(headers, [e.error, e.body, e.data, e.responseBody, e.response?.data, e.message], err);
    if (found) return found;
    for (const inner of [e.cause, e.lastError, ...(Array.isArray(e.errors) ? e.errors : [])]) {
      const behind = look(inner);
      if (behind) return behind;
    }
    return null;
  };
  return look(err);
}

/** The answer to a check. Its fields are those of the check API. */
export class Decision {
  constructor(answer) {
    Object.assign(this, answer);
  }

  /** Whether the request may be sent, after delay_ms, or the call be made. */
  get allowed() {
    return !stops(this.action) && this.action !== 'block';
  }

  /** The headers that mark the request that was checked, so that it counts once. */
  get headers() {
    return { [HEADER_CHECK]: this.request_id };
  }

  /** Why the request or call must not be sent; null if it may. */
  get error() {
    if (this.allowed) return null;
    const cause = causes[this.reason];
    if (cause) return new cause(this.message);
    const first = this.findings?.[0];
    const found = first && !first.shadow ? first : {};
    return new LoopDetectedError({
      message: this.message, action: this.action, detector: found.detector ?? '', policy: found.policy ?? '', fingerprint: found.fingerprint ?? '',
      hit_count: whole(this.hit_count ?? found.hit_count ?? this.counts?.streak), window_seconds: whole(found.window_seconds),
      cooldown_seconds: whole(found.cooldown_seconds), loop_id: this.loop_id ?? '', retry_after_seconds: whole(this.retry_after_seconds),
    });
  }
}

// EncodingError says that a check has no form in JSON, which is no fault of the gateway.
class EncodingError extends TypeError {}

function encoded(check) {
  try {
    return JSON.stringify(check);
  } catch (err) {
    throw new EncodingError(err.message, { cause: err });
  }
}

// checkURL returns the URL of the check API of a gateway, whose URL may have the /v1 of
// OpenAI's clients.
function checkURL(baseURL) {
  let url;
  try {
    url = new URL(baseURL);
  } catch {
    url = null;
  }
  if (!url || !url.host || !/^https?:$/.test(url.protocol)) throw new TypeError(`the gateway's URL must look like http://host:port`);
  return `${baseURL.replace(/\/+$/, '').replace(/\/v1$/, '')}/unloop/v1/check`;
}

/** A client of a gateway's check API. */
export class Client {
  #url;
  #headers;
  #fetch;
  #timeout;
  // What its runs know of a gateway that is away.
  #away = { until: 0, warned: false };

  constructor(baseURL, { apiKey, headers, fetch = globalThis.fetch, timeoutMs = 2000 } = {}) {
    this.#url = checkURL(baseURL);
    this.#headers = new Headers(headers);
    if (apiKey !== undefined) this.#headers.set('Authorization', `Bearer ${apiKey}`);
    this.#fetch = fetch;
    this.#timeout = timeoutMs;
  }

  /**
   * Asks what to do with a request, and counts it. Rejects with a CheckError if the check is
   * malformed, and with fetch's own error if the gateway can't be reached in time.
   */
  async check({ headers, ...request }) {
    return this.#ask(request, headers);
  }

  /** Asks what would happen to a request, and counts nothing. */
  async peek(request) {
    return this.check({ ...request, peek: true });
  }

  /**
   * Asks about a tool's call before it is made, or reports its result. A result that is
   * undefined is none.
   */
  async checkTool({ headers, ...call }) {
    return this.#ask(call, headers);
  }

  /** Returns the calls of one agent, which are counted together. */
  run(session, options) {
    return new Run(this, session, options, this.#away);
  }

  async #ask(check, headers) {
    const all = new Headers(this.#headers);
    new Headers(headers).forEach((value, name) => all.set(name, value));
    all.set('Content-Type', 'application/json');
    const body = encoded(check);
    const response = await this.#fetch.call(undefined, this.#url, {
      method: 'POST', headers: all, body, signal: AbortSignal.timeout(this.#timeout),
    });
    const answer = parsed(await response.text());
    if (response.status !== 200) throw new CheckError(response.status, answer?.error ?? {});
    if (!answer?.action) throw new CheckError(response.status, { message: 'the answer has no action; is this an Unloop gateway?' });
    return new Decision(answer);
  }
}

// pause is for how long the runs of a client ask nothing after the gateway could not be asked, in
// milliseconds, so that tools stay fast while it is away.
const pause = 5000;

/**
 * One call that may be made. It is settled with its result, its error, or with the word that it
 * was not made; what settles it again does nothing. One that is never settled counts as a call
 * whose result is not known, and is forgotten with its session.
 */
class Lease {
  #ways;

  constructor(decision, ways) {
    /** The answer to the check; null if the call was not checked. */
    this.decision = decision;
    this.#ways = ways;
  }

  #settle() {
    const ways = this.#ways;
    this.#ways = null;
    return ways;
  }

  /** Reports the call's result, which may be an error that the tool returned. */
  async done(result, isError) {
    await this.#settle()?.report(result, isError);
  }

  /** Reports what a call threw. */
  async fail(err) {
    await this.#settle()?.report(String(err?.message ?? err), true);
  }

  /** Says that the call was not made. It counts no longer. */
  async cancel() {
    const ways = this.#settle();
    if (this.decision) await ways?.cancel();
  }
}

/**
 * The calls of one agent. While the gateway is away, or refuses a check, calls pass, and
 * onError hears of it; by default the first such error of a client is a warning on the console.
 */
export class Run {
  #client;
  #fields;
  #onError;
  #away;

  /** The decision after which no call may be made until an operator releases the loop; null before. */
  broken = null;

  constructor(client, session, { tenant, project, model, onError } = {}, away = { until: 0, warned: false }) {
    this.#client = client;
    this.#away = away;
    this.#fields = { session, tenant, project, model };
    this.#onError = onError ?? ((err) => {
      if (!away.warned) console.warn(`unloop: tool calls are not checked: ${err.message}`);
      away.warned = true;
    });
  }

  /** The headers for the run's requests to models, so that a gateway counts them with it. */
  get headers() {
    const { session, tenant, project } = this.#fields;
    const all = { 'X-Session-ID': session, 'X-Tenant-ID': tenant, 'X-Project-ID': project };
    return Object.fromEntries(Object.entries(all).filter(([, value]) => value !== undefined));
  }

  /** Asks whether a call may be made. Null means that it was not checked. */
  async before(tool, args) {
    return this.#ask({ tool, arguments: args });
  }

  /** Reports a call's result, or its error. Null means that nobody heard of it. */
  async after(tool, args, result, isError) {
    return this.#ask({ tool, arguments: args, result: result ?? null, is_error: isError });
  }

  async #ask(call) {
    if (Date.now() < this.#away.until) return null;
    try {
      const decision = await this.#client.checkTool({ ...this.#fields, ...call });
      this.broken = decision.action === 'break' ? decision : null;
      return decision;
    } catch (err) {
      const asked = err instanceof EncodingError || (err instanceof CheckError && err.status < 500);
      if (!asked) this.#away.until = Date.now() + pause;
      this.#onError(err);
      return null;
    }
  }

  /**
   * Asks whether a call may be made, and returns its Lease. Of a call that is stopped it rejects
   * with the decision's error.
   */
  async lease(tool, args) {
    const decision = await this.before(tool, args);
    if (decision && !decision.allowed) throw decision.error;
    return this.#held(tool, args, decision);
  }

  #held(tool, args, decision) {
    return new Lease(decision, {
      report: (result, isError) => this.after(tool, args, result, isError),
      cancel: () => this.#ask({ tool, arguments: args, cancel: true }),
    });
  }

  /**
   * Makes a call unless it is stopped, and reports its result. A call that is stopped rejects
   * with the decision's error, or returns what stopped(decision) does. read(made) returns the
   * result in what make() returns, as { result, isError }.
   */
  async call(tool, args, make, { stopped, read = (result) => ({ result }) } = {}) {
    const decision = await this.before(tool, args);
    if (decision && !decision.allowed) {
      if (stopped) return stopped(decision);
      throw decision.error;
    }
    const lease = this.#held(tool, args, decision);
    let made;
    try {
      made = await make();
    } catch (err) {
      await lease.fail(err);
      throw err;
    }
    const { result, isError } = read(made);
    await lease.done(result, isError);
    return made;
  }

  /**
   * Returns the tool with a check before each call, and a report of its result after it; see
   * call. Of what the tool is passed, select(...args) returns its arguments; by default that is
   * a single value or, of several, an array. decision.message is written for a model to read.
   */
  guard(tool, { name = tool.name, stopped, select = (...args) => (args.length === 1 ? args[0] : args) } = {}) {
    const run = this;
    return function guarded(...args) {
      return run.call(name, select(...args), () => tool.apply(this, args), { stopped });
    };
  }
}
