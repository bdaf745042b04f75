import type { AgentMiddleware } from 'langchain';
import type { Run } from './index.js';
/** Returns the middleware that checks each tool call, and ends an agent whose run was broken off. */
export function unloop(run: Run): AgentMiddleware;
