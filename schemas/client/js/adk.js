// Google's ADK: new Runner({ …, plugins: [new UnloopPlugin(run)] }).
import { BasePlugin } from '@google/adk';

/** Checks each tool call of a runner. A stopped call answers with why. */
export class UnloopPlugin extends BasePlugin {
  #run;

  constructor(run) {
    super('unloop');
    this.#run = run;
  }

  async beforeToolCallback({ tool, toolArgs }) {
    const decision = await this.#run.before(tool.name, toolArgs);
    return decision && !decision.allowed ? { error: decision.message } : undefined;
  }

  async afterToolCallback({ tool, toolArgs, result }) {
    await this.#run.after(tool.name, toolArgs, result);
    return undefined;
  }

  async onToolErrorCallback({ tool, toolArgs, error }) {
    await this.#run.after(tool.name, toolArgs, String(error?.message ?? error), true);
    return undefined;
  }
}
