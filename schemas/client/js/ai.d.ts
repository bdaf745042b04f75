import type { Run } from './index.js';
/** Returns options of generateText and streamText, version 7. */
export function unloop(run: Run): {
  toolApproval: (options: { toolCall: { toolName: string; input: unknown } }) => Promise<'not-applicable' | { type: 'denied'; reason: string }>;
  prepareStep: (options: { steps: any[] }) => Promise<{ toolChoice?: 'none' }>;
};
/** Returns the tools with a guard around each that runs here. */
export function guardTools<T extends Record<string, any>>(run: Run, tools: T): T;
