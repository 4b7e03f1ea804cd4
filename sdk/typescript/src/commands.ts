// SPDX-License-Identifier: Apache-2.0
// Commands in a sandbox, run to their end.
import type { CallOptions, Client } from "./client.js";
import { CommandError } from "./errors.js";
import type { ExecResult } from "./models.js";
import { fromWire, toWire } from "./names.js";
import { Outputs } from "./output.js";
import { follow, type OutputCallbacks } from "./stream.js";

export interface CommandOptions extends CallOptions {
  cwd?: string | undefined;
  /** Variables beside the sandbox's own. */
  env?: Record<string, string> | undefined;
  user?: string | undefined;
  /** After that it is killed with all that it started; 600 without it. */
  timeoutSeconds?: number | undefined;
}

export interface ExecOptions extends CommandOptions, OutputCallbacks {
  /** Without it stdin is at its end. */
  stdin?: string | undefined;
  /** Throw a CommandError when its exit code is not 0. */
  check?: boolean | undefined;
}

function execResult(output: Outputs, exit: Record<string, unknown>): ExecResult {
  const { seq: _, error: __, code: ___, ...answer } = output.answer(exit);
  return fromWire({ exit_code: -1, timed_out: false, ...answer });
}

/** Commands: `sandbox.commands`. */
export class Commands {
  constructor(
    readonly client: Client,
    readonly sandbox: string,
  ) {}

  /** Runs a command (for `sh -c`) to its end. */
  async run(cmd: string, options: ExecOptions = {}): Promise<ExecResult> {
    const { cwd, env, stdin, user, timeoutSeconds } = options;
    const output = new Outputs();
    const json = toWire({ cmd, cwd, env, stdin, user, timeoutSeconds });
    const finish = (exit: Record<string, unknown>) => execResult(output, exit);
    const result = await follow(this.client, "POST", `${this.sandbox}/exec/stream`, {
      ...options,
      json,
      output,
      finish,
    });
    if (!options.check || result.exitCode === 0) return result;
    const said = (result.stderr.trim() || result.stdout.trim()).slice(-2000);
    const message = `exit code ${result.exitCode}: ${cmd}\n${said}`.trimEnd();
    throw new CommandError(message, result.exitCode, { details: result });
  }
}
