/** The header in which a request carries the id of its decision, so that it counts once. */
export const HEADER_CHECK: 'X-Unloop-Check';

/** Why a request or a call must not be sent. */
export class StoppedError extends Error {}

/** The request or call is part of a loop. The same one would be stopped again. */
export class LoopDetectedError extends StoppedError {
  readonly action: 'reject' | 'break' | 'block';
  readonly detector: string;
  readonly policy: string;
  /** Identifies the repeated content, in 64 hex digits. */
  readonly fingerprint: string;
  /** How often it was seen within window_seconds, this time included. */
  readonly hit_count: number;
  readonly window_seconds: number;
  /** How long such a block lasts; 0 if only the window matters. */
  readonly cooldown_seconds: number;
  /** Names the incident in events and for `unloop loops`. */
  readonly loop_id: string;
  /** How long to wait until the request passes again; 0 where waiting does not help. */
  readonly retry_after_seconds: number;
}

/** The request could not be checked, and a policy forbids to send such requests. */
export class UncheckedError extends StoppedError {}
/** An operator stops requests like this one. */
export class KilledError extends StoppedError {}
/** The limit of a rule is reached. */
export class LimitedError extends StoppedError {}

/** An answer of the check API that is no decision. */
export class CheckError extends Error {
  readonly status: number;
  readonly code: string;
  /** The faulty field of the check; empty if there is none. */
  readonly field: string;
}

/** Returns the error of a Response with which Unloop stopped a request; null for any other. */
export function loopFromResponse(response: Response): Promise<LoopDetectedError | null>;

/** Returns the LoopDetectedError behind the error of any SDK; null if it has another reason. */
export function loopError(err: unknown): LoopDetectedError | null;

/** What one detector of one policy found. */
export interface Finding {
  policy: string;
  detector: string;
  action: string;
  /** Marks a finding that is only reported. */
  shadow: boolean;
  fingerprint: string;
  hit_count: number;
  threshold: number;
  window_seconds: number;
  cooldown_seconds: number;
  loop_id: string;
  rule?: string;
  tool?: string;
  backoff_seconds?: number;
  message?: string;
}

interface Answer {
  /** Explains the action; empty without one. For a tool's call it is for the model to read. */
  readonly message: string;
  readonly reason: '' | 'loop_detected' | 'rate_limit_exceeded' | 'kill_switch' | 'unchecked' | 'exempt';
  readonly loop_id: string;
  /** Why there is no full decision; empty if there is. */
  readonly degraded: string;
  readonly request_id: string;
  /** The first finding decided. */
  readonly findings: Finding[];
  /** Whether the request may be sent, or the call be made. */
  readonly allowed: boolean;
  /** The headers that mark the request that was checked, so that it counts once. */
  readonly headers: Record<string, string>;
  /** Why it must not; null if it may. */
  readonly error: StoppedError | null;
}

export interface Decision extends Answer {
  readonly action: 'allow' | 'warn' | 'hint' | 'throttle' | 'reject' | 'break';
  readonly hit_count: number;
  readonly delay_ms: number;
  readonly retry_after_seconds: number;
}

export interface ToolDecision extends Answer {
  readonly action: 'allow' | 'warn' | 'block' | 'break';
  readonly counts: {
    streak: number;
    repeats: number;
    warn_threshold: number;
    block_threshold: number;
    poll: boolean;
    calls: number;
    total: number;
    unique: number;
    blocked: number;
    most_repeated: string;
    most_repeated_count: number;
  };
  readonly backoff_seconds: number;
}

interface Check {
  model?: string;
  user?: string;
  session?: string;
  tenant?: string;
  project?: string;
  request_id?: string;
  path?: string;
  peek?: boolean;
  /** Sent with the check: the request's own key, and the headers that policies use. */
  headers?: HeadersInit;
}

/** A request as it would be sent: a body with its path or format, a prompt, or messages. */
export interface CheckRequest extends Check {
  format?: string;
  method?: string;
  body?: unknown;
  prompt?: string;
  messages?: unknown[];
  probe?: boolean;
}

export interface ToolCall extends Check {
  tool?: string;
  arguments?: unknown;
  result?: unknown;
  is_error?: boolean;
  /** Takes back the newest check of the call: it was not made. */
  cancel?: boolean;
  explain?: boolean;
}

export interface ClientOptions {
  apiKey?: string;
  headers?: HeadersInit;
  fetch?: typeof fetch;
  /** How long a check may take; 2,000 by default. */
  timeoutMs?: number;
}

/** A client of a gateway's check API. */
export class Client {
  constructor(baseURL: string, options?: ClientOptions);
  check(request: CheckRequest): Promise<Decision>;
  peek(request: CheckRequest): Promise<Decision>;
  checkTool(call: ToolCall): Promise<ToolDecision>;
  run(session: string, options?: RunOptions): Run;
}

export interface RunOptions {
  tenant?: string;
  project?: string;
  model?: string;
  onError?: (err: Error) => void;
}

/** One call that may be made, until it is settled. What settles it again does nothing. */
export interface Lease {
  /** The answer to the check; null if the call was not checked. */
  readonly decision: ToolDecision | null;
  /** Reports the call's result, which may be an error that the tool returned. */
  done(result: unknown, isError?: boolean): Promise<void>;
  /** Reports what the call threw. */
  fail(err: unknown): Promise<void>;
  /** Says that the call was not made. It counts no longer. */
  cancel(): Promise<void>;
}

/** The calls of one agent. While the gateway is away, they pass. */
export class Run {
  /** The headers for the run's requests to models. */
  readonly headers: Record<string, string>;
  before(tool: string, args: unknown): Promise<ToolDecision | null>;
  after(tool: string, args: unknown, result: unknown, isError?: boolean): Promise<ToolDecision | null>;
  /** The decision after which no call may be made until an operator releases the loop. */
  readonly broken: ToolDecision | null;
  /** Asks whether a call may be made; of one that is stopped it rejects with the decision's error. */
  lease(tool: string, args: unknown): Promise<Lease>;
  /** Makes a call unless it is stopped, and reports its result. */
  call<R>(
    tool: string,
    args: unknown,
    make: () => R | Promise<R>,
    options?: { stopped?: (decision: ToolDecision) => R | Promise<R>; read?: (made: R) => { result: unknown; isError?: boolean } },
  ): Promise<R>;
  guard<A extends unknown[], R>(
    tool: (...args: A) => R | Promise<R>,
    options?: { name?: string; stopped?: (decision: ToolDecision) => R | Promise<R>; select?: (...args: A) => unknown },
  ): (...args: A) => Promise<R>;
}
