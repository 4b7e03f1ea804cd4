// SPDX-License-Identifier: Apache-2.0
// Commands in a sandbox: run to their end, or left to go on by themselves.
import type { CallOptions, Client } from "./client.js";
import { CommandError } from "./errors.js";
import type { ExecResult, ProcessInfo } from "./models.js";
import { fromWire, listOf, toWire } from "./names.js";
import { Outputs } from "./output.js";
import { processOf } from "./shapes.js";
import type { ServerEvent } from "./sse.js";
import { follow, type OutputCallbacks } from "./stream.js";

export interface CommandOptions extends CallOptions {
  cwd?: string | undefined;
  /** Variables beside the sandbox's own. */
  env?: Record<string, string> | undefined;
  user?: string | undefined;
  /** After that it is killed with all that it started. Without it, exec() ends after 600; what is started has no limit. */
  timeoutSeconds?: number | undefined;
}

export interface ExecOptions extends CommandOptions, OutputCallbacks {
  /** Without it stdin is at its end. */
  stdin?: string | undefined;
  /** Throw a CommandError when its exit code is not 0. */
  check?: boolean | undefined;
}

export interface StartOptions extends CommandOptions {
  /** Leave its stdin open, for write(). */
  stdin?: boolean | undefined;
}

export interface StreamOptions extends CallOptions, OutputCallbacks {
  /** Hears, where it happens, of bytes that are lost: only the last 256 KiB are kept. */
  onLost?: ((bytes: number) => unknown) | undefined;
}

function execResult(output: Outputs, exit: Record<string, unknown>): ExecResult {
  const { seq: _, error: __, code: ___, ...answer } = output.answer(exit);
  return fromWire({ exit_code: -1, timed_out: false, ...answer });
}

/** How long one request waits for the end of a process; then the next one does. */
const WAIT_SECONDS = 60;
/** What its answer may take. */
const WAIT_MS = 90_000;

/** A command in the background. */
export class Process {
  #info: ProcessInfo;
  readonly id: number;
  readonly #path: string;

  constructor(
    readonly client: Client,
    processes: string,
    info: ProcessInfo,
  ) {
    this.#info = info;
    this.id = info.id;
    this.#path = `${processes}/${info.id}`;
  }

  /** What the server said of it: at its start, in a list, or at the last wait() or refresh(). */
  get info(): Readonly<ProcessInfo> {
    return this.#info;
  }

  /** Asks the server anew. */
  async refresh(options: CallOptions = {}): Promise<this> {
    this.#info = await this.client.json("GET", this.#path, options, processOf);
    return this;
  }

  /** Waits until it has ended, for so many seconds at most; its exit code, undefined if it still runs. */
  async wait(options: CallOptions & { seconds?: number | undefined } = {}): Promise<number | undefined> {
    const { seconds = Infinity, ...call } = options;
    for (let left = seconds; ; left -= WAIT_SECONDS) {
      const query = { timeout_seconds: Math.ceil(Math.min(left, WAIT_SECONDS)) };
      const request = { query, repeatable: true, timeoutMs: WAIT_MS, ...call };
      this.#info = await this.client.json("POST", `${this.#path}/wait`, request, processOf);
      if (this.#info.status === "exited" || left <= WAIT_SECONDS) return this.#info.exitCode;
    }
  }

  /** Hears what it has written, as far as that is kept, and what it writes, until it ends; its exit code. */
  async stream(options: StreamOptions = {}): Promise<number> {
    const output = new Outputs();
    const finish = (exit: Record<string, unknown>) => execResult(output, exit);
    const onEvent = ({ name, data }: ServerEvent) => name === "truncated" && options.onLost?.(Number(data["bytes"]));
    const followed = { ...options, output, finish, onEvent };
    return (await follow(this.client, "GET", `${this.#path}/stream`, followed)).exitCode;
  }

  /** Writes to its stdin, which `stdin` has left open; with `eof` it ends there. */
  async write(
    data: string | Uint8Array<ArrayBuffer>,
    { eof, ...call }: CallOptions & { eof?: boolean | undefined } = {},
  ): Promise<void> {
    const headers = { "content-type": "application/octet-stream" };
    await this.client.send("POST", `${this.#path}/stdin`, { query: { eof }, headers, body: data, ...call });
  }

  /** Sends a signal, by its number or its name ("INT"), to its process group. */
  async sendSignal(signal: string | number, options: CallOptions = {}): Promise<void> {
    await this.client.send("POST", `${this.#path}/signal`, { json: { signal }, ...options });
  }

  /** Ends it at once, with all that it started. */
  async kill(options: CallOptions = {}): Promise<void> {
    await this.sendSignal("KILL", options);
  }
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

  /** Starts a command (for `sh -c`) and leaves it running. */
  async start(cmd: string, options: StartOptions = {}): Promise<Process> {
    const { cwd, env, stdin, user, timeoutSeconds, ...call } = options;
    const json = toWire({ cmd, background: true, cwd, env, stdin, user, timeoutSeconds });
    return this.#process(await this.client.json("POST", `${this.sandbox}/exec`, { json, ...call }, processOf));
  }

  /** Those that run, and the last ones that ended. */
  async list(options: CallOptions = {}): Promise<Process[]> {
    const infos = await this.client.json("GET", `${this.sandbox}/processes`, options, listOf(processOf));
    return infos.map((info) => this.#process(info));
  }

  /** The one of that id. */
  async get(id: number, options: CallOptions = {}): Promise<Process> {
    return this.#process(await this.client.json("GET", `${this.sandbox}/processes/${id}`, options, processOf));
  }

  #process(info: ProcessInfo): Process {
    return new Process(this.client, `${this.sandbox}/processes`, info);
  }
}
