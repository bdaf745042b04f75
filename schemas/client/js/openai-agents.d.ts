import type { Run } from './index.js';
/** Returns the tools with guardrails around each function. */
export function guardTools<T>(run: Run, tools: T[]): T[];
