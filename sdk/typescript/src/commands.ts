// SPDX-License-Identifier: Apache-2.0
// Commands in a sandbox, run to their end.
import type { CallOptions, Client } from "./client.js";
import { CommandError } from "./errors.js";
import { toWire } from "./names.js";
import { Outputs, type OutputBytes } from "./output.js";
import { follow, integer, type OutputCallbacks } from "./stream.js";

export interface ExecOptions extends CallOptions, OutputCallbacks {
  cwd?: string | undefined;
  /** Variables beside the sandbox's own. */
  env?: Record<string, string> | undefined;
  /** Without it stdin is at its end. */
  stdin?: string | undefined;
  user?: string | undefined;
  /** After that it is killed with all that it started; 600 without it. */
  timeoutSeconds?: number | undefined;
  /** Throw a CommandError when its exit code is not 0. */
  check?: boolean | undefined;
}

/** A command that ended, well or not: `exitCode` says which. */
export interface ExecResult {
  stdout: string;
  stderr: string;
  /** 128 + the signal that ended it. */
  exitCode: number;
  signal: number | undefined;
  durationMs: number;
  /** There was more output than is kept. */
  truncated: boolean;
  /** Then: how much there was. */
  outputBytes: OutputBytes | undefined;
}

export async function exec(
  client: Client,
  sandboxPath: string,
  cmd: string,
  options: ExecOptions,
): Promise<ExecResult> {
  const { cwd, env, stdin, user, timeoutSeconds } = options;
  const output = new Outputs();
  const result = await follow(
    client,
    `${sandboxPath}/exec/stream`,
    toWire({ cmd, cwd, env, stdin, user, timeoutSeconds }),
    {
      ...options,
      output,
      finish: (exit): ExecResult => ({
        stdout: output.stdout.toString(),
        stderr: output.stderr.toString(),
        exitCode: integer(exit["exit_code"]) ?? -1,
        signal: integer(exit["signal"]),
        durationMs: integer(exit["duration_ms"]) ?? 0,
        truncated: output.cut,
        outputBytes: output.bytesIfCut(),
      }),
    },
  );
  if (options.check && result.exitCode !== 0) {
    const said = (result.stderr.trim() || result.stdout.trim()).slice(-2000);
    throw new CommandError(`exit code ${result.exitCode}: ${cmd}\n${said}`.trimEnd(), result.exitCode, {
      details: result,
    });
  }
  return result;
}
