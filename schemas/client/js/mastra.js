// Mastra: new Agent({ tools, hooks: hooks(run) }).

/** Returns the hooks that check each tool call. */
export function hooks(run) {
  return {
    async beforeToolCall({ toolName, input }) {
      const decision = await run.before(toolName, input);
      return decision && !decision.allowed ? { proceed: false, output: decision.message } : undefined;
    },
    async afterToolCall({ toolName, input, output, error }) {
      if (error === undefined) await run.after(toolName, input, output);
      else await run.after(toolName, input, String(error?.message ?? error), true);
    },
  };
}
