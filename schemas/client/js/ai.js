// Vercel's AI SDK. In version 7: generateText({ model, tools, ...unloop(run) }); in earlier
// ones: generateText({ model, tools: guardTools(run, tools) }).

/** Returns toolApproval, which denies calls that are stopped, and prepareStep, which reports results. */
export function unloop(run) {
  return {
    async toolApproval({ toolCall }) {
      const decision = await run.before(toolCall.toolName, toolCall.input);
      return decision && !decision.allowed ? { type: 'denied', reason: decision.message } : 'not-applicable';
    },
    async prepareStep({ steps }) {
      for (const { type, toolName, input, output, error } of steps.at(-1)?.content ?? []) {
        if (type === 'tool-result') await run.after(toolName, input, output);
        if (type === 'tool-error') await run.after(toolName, input, String(error?.message ?? error), true);
      }
      return run.broken ? { toolChoice: 'none' } : {};
    },
  };
}

/** Returns the tools with a guard around each that runs here. */
export function guardTools(run, tools) {
  return Object.fromEntries(Object.entries(tools).map(([name, tool]) => [name, tool.execute ? {
    ...tool, execute: run.guard(tool.execute, { name, select: (input) => input, stopped: ({ message }) => message }),
  } : tool]));
}
