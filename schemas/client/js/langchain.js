// LangChain and LangGraph: createAgent({ model, tools, middleware: [unloop(run)] }).
import { AIMessage, ToolMessage, createMiddleware } from 'langchain';

/** Returns the middleware that checks each tool call, and ends an agent whose run was broken off. */
export function unloop(run) {
  return createMiddleware({
    name: 'Unloop',
    wrapToolCall: (request, handler) => {
      const { id, name, args } = request.toolCall;
      return run.call(name, args, () => handler(request), {
        stopped: ({ message }) => new ToolMessage({ tool_call_id: id, name, status: 'error', content: message }),
        read: (made) => ({ result: made?.content ?? null, isError: made?.status === 'error' || undefined }),
      });
    },
    beforeModel: {
      canJumpTo: ['end'],
      hook: () => (run.broken ? { jumpTo: 'end', messages: [new AIMessage(run.broken.message)] } : undefined),
    },
  });
}
