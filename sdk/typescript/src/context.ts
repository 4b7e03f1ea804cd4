// SPDX-License-Identifier: Apache-2.0
// Code contexts: kernels that remember.
import type { CallOptions } from "./client.js";
import { NotFoundError, SandboxFailed } from "./errors.js";
import { CellOutput, Execution, type Result } from "./execution.js";
import { memberOf, toWire } from "./names.js";
import { asyncDispose } from "./platform.js";
import type { Sandbox } from "./sandbox.js";
import { follow, text, type OutputCallbacks } from "./stream.js";

export interface RunCodeOptions extends CallOptions, OutputCallbacks {
  /** After that the cell is interrupted; 30 without it. The variables survive that, unless `details.stateLost` says otherwise. */
  timeoutSeconds?: number | undefined;
  /** Hears what is displayed, and the value, as they come. */
  onResult?: ((result: Result) => unknown) | undefined;
  /** Answers input(), which else fails at once. */
  onInput?: ((prompt: string, password: boolean) => string | Promise<string>) | undefined;
  /** Variables of the environment for this cell alone. */
  env?: Record<string, string> | undefined;
  /** The cell goes on when the connection ends; else it is interrupted. */
  detach?: boolean | undefined;
}

/**
 * A kernel of a sandbox: what a cell defines, the next one sees. Cells run one after the other.
 * Sandbox.createCodeContext() makes one. In a sandbox that was forked or restored from a snapshot the kernels of the
 * original live on under their ids: `new CodeContext(fork, context.id)`.
 */
export class CodeContext {
  readonly #path: string;

  constructor(
    readonly sandbox: Sandbox,
    readonly id: string,
    readonly language = "python",
  ) {
    this.#path = `/v1/sandboxes/${encodeURIComponent(sandbox.id)}/repl/sessions/${encodeURIComponent(id)}`;
  }

  /** Runs a cell. An exception in it is no exception here: the traceback is `error` of what is returned. */
  async runCode(code: string, options: RunCodeOptions = {}): Promise<Execution> {
    const { timeoutSeconds, env, detach, onInput, onResult } = options;
    const timeoutMs = timeoutSeconds === undefined ? undefined : Math.ceil(timeoutSeconds * 1000);
    const json = toWire({ code, timeoutMs, env, detach, stream: true, allowStdin: onInput !== undefined });
    const output = new CellOutput();
    return follow(this.sandbox.client, "POST", `${this.#path}/run`, {
      ...options,
      json,
      output,
      finish: (exit) => new Execution(output.answer(exit)),
      onEvent: async (event) => {
        const result = output.take(event);
        if (result) await onResult?.(result);
        if (event.name === "input_request" && onInput)
          await this.#answer(await onInput(text(event.data["prompt"]), event.data["password"] === true));
      },
    });
  }

  async #answer(value: string): Promise<void> {
    await this.sandbox.client.send("POST", `${this.#path}/input`, { json: { value } });
  }

  /** Interrupts the cell that runs; false if none does. */
  async interrupt(options: CallOptions = {}): Promise<boolean> {
    return this.sandbox.client.json("POST", `${this.#path}/interrupt`, options, memberOf("interrupted", Boolean));
  }

  /** Begins anew, with a fresh kernel. */
  async restart(options: CallOptions = {}): Promise<void> {
    await this.sandbox.client.send("POST", `${this.#path}/restart`, options);
  }

  /** Ends the kernel; nothing happens to one that is gone. */
  async close(options: CallOptions = {}): Promise<void> {
    try {
      await this.sandbox.client.send("DELETE", this.#path, { repeatable: true, ...options });
    } catch (error) {
      if (!(error instanceof NotFoundError || error instanceof SandboxFailed)) throw error;
    }
  }

  async [asyncDispose](): Promise<void> {
    await this.close();
  }
}
