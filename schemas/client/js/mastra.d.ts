import type { Run } from './index.js';
/** Returns the hooks that check each tool call. */
export function hooks(run: Run): {
  beforeToolCall(context: { toolName: string; input: unknown }): Promise<{ proceed: false; output: string } | undefined>;
  afterToolCall(context: { toolName: string; input: unknown; output?: unknown; error?: unknown }): Promise<void>;
};
