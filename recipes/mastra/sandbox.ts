// SPDX-License-Identifier: Apache-2.0
// A sandbox as a provider for Mastra's workspaces: it is made by the workspace's init(), and ended by its destroy().
import { MastraSandbox, type CommandResult, type ExecuteCommandOptions } from "@mastra/core/workspace";
import { Sandbox, type CreateOptions } from "@pandastack/sdk";

export class PandastackSandbox extends MastraSandbox {
  readonly id = crypto.randomUUID();
  readonly name = "pandastack";
  readonly provider = "pandastack";
  status: MastraSandbox["status"] = "pending";
  readonly #options: CreateOptions;
  #machine: Sandbox | undefined;

  constructor(options: CreateOptions) {
    super({ name: "pandastack" });
    this.#options = options;
  }

  /** The sandbox itself, for what a workspace has no word for. */
  get machine(): Sandbox {
    if (!this.#machine) throw new Error("the sandbox is not there yet: workspace.init() makes it");
    return this.#machine;
  }

  override async start(): Promise<void> {
    this.#machine = await Sandbox.create(this.#options);
  }

  override async destroy(): Promise<void> {
    await this.#machine?.kill();
  }

  override async executeCommand(command: string, args: string[] = [], options: ExecuteCommandOptions = {}) {
    await this.ensureRunning();
    const { cwd = this.workingDirectory, timeout, onStdout, onStderr, abortSignal: signal } = options;
    const env = Object.entries({ ...this.getEnv(), ...options.env }).filter(
      (e): e is [string, string] => e[1] !== undefined,
    );
    const timeoutSeconds = timeout === undefined ? undefined : timeout / 1000;
    const cmd = [command, ...args.map((arg) => `'${arg.replaceAll("'", `'\\''`)}'`)].join(" ");
    const settings = { cwd, env: Object.fromEntries(env), timeoutSeconds, onStdout, onStderr, signal };
    const { exitCode, stdout, stderr, timedOut, durationMs = 0 } = await this.machine.exec(cmd, settings);
    const result = { success: exitCode === 0, exitCode, stdout, stderr, timedOut, executionTimeMs: durationMs };
    return result satisfies CommandResult;
  }

  override getInstructions(): string {
    return "Commands run in a Linux machine of your own, as root, in /workspace.";
  }
}
