import { BasePlugin } from '@google/adk';
import type { Run } from './index.js';
/** Checks each tool call of a runner. A stopped call answers with why. */
export class UnloopPlugin extends BasePlugin {
  constructor(run: Run);
}
