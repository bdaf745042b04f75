// The OpenAI Agents SDK: new Agent({ tools: guardTools(run, tools) }).

const allow = { behavior: { type: 'allow' } };

/** Returns the tools with guardrails around each function. After a break, they end the run. */
export function guardTools(run, tools) {
  const input = {
    type: 'tool_input', name: 'unloop',
    run: async ({ toolCall }) => {
      const decision = await run.before(toolCall.name, toolCall.arguments);
      if (!decision || decision.allowed) return allow;
      return { behavior: run.broken ? { type: 'throwException' } : { type: 'rejectContent', message: decision.message }, outputInfo: decision };
    },
  };
  const output = {
    type: 'tool_output', name: 'unloop',
    run: async ({ toolCall, output: result }) => {
      await run.after(toolCall.name, toolCall.arguments, result);
      return allow;
    },
  };
  return tools.map((tool) => (tool.type === 'function' ? {
    ...tool, inputGuardrails: [...(tool.inputGuardrails ?? []), input], outputGuardrails: [...(tool.outputGuardrails ?? []), output],
  } : tool));
}
