// SPDX-License-Identifier: Apache-2.0
// What a cell of code gave: gathered from the stream of its run, as the server gathers it for a buffered answer.
import type { ServerEvent } from "./sse.js";
import { Outputs, type OutputBytes } from "./output.js";
import { integer, text } from "./stream.js";

/** A value that a cell displayed or ended with, in all its forms. */
export class Result {
  constructor(
    /** By MIME type: text as it is, JSON as text, binary as base64. */
    readonly data: Readonly<Record<string, string>>,
  ) {}

  get text(): string | undefined {
    return this.data["text/plain"];
  }
  get html(): string | undefined {
    return this.data["text/html"];
  }
  get markdown(): string | undefined {
    return this.data["text/markdown"];
  }
  get latex(): string | undefined {
    return this.data["text/latex"];
  }
  get svg(): string | undefined {
    return this.data["image/svg+xml"];
  }
  /** Base64. */
  get png(): string | undefined {
    return this.data["image/png"];
  }
  /** Base64. */
  get jpeg(): string | undefined {
    return this.data["image/jpeg"];
  }
  /** The value of a result that is JSON. */
  get json(): unknown {
    return this.#parsed("application/json");
  }
  /** The data of a figure: titles, axes, points (docs/charts.md). */
  get chart(): unknown {
    return this.#parsed("application/vnd.pandastack.chart+json");
  }
  /** The rows of a DataFrame (docs/charts.md). */
  get table(): unknown {
    return this.#parsed("application/vnd.dataresource+json");
  }

  /** Undefined also for what a guest sends under that name and is none. */
  #parsed(type: string): unknown {
    try {
      return JSON.parse(this.data[type] ?? "");
    } catch {
      return undefined;
    }
  }

  toJSON(): Record<string, string> {
    return { ...this.data };
  }
}

/** Of all results of a cell, as the server's default. */
const RESULTS_CHARS_MAX = 32 * 1024 * 1024;
/** What a result costs beside its text, so that a flood of empty ones ends too. */
const RESULT_OVERHEAD = 128;

const size = ({ data }: Result) => Object.values(data).reduce((n, value) => n + value.length, RESULT_OVERHEAD);

function strings(object: unknown): Record<string, string> {
  const members = Object.entries(Object(object) as Record<string, string>).filter(
    ([, value]) => typeof value === "string",
  );
  return Object.fromEntries(members);
}

/** What comes while a cell runs. */
export class CellOutput extends Outputs {
  #results: Result[] = [];
  /** Beside `results`: the names by which displays are updated. */
  #displayIds: Array<string | undefined> = [];
  #room = RESULTS_CHARS_MAX;
  #cut = false;
  #clearNext = false;
  #error: Record<string, unknown> = {};

  override write(to: "stdout" | "stderr", chunk: string): void {
    this.#clearIfAsked();
    super.write(to, chunk);
  }

  /** An event of the cell's; the result that it brings, if any. */
  take({ name, data }: ServerEvent): Result | undefined {
    if (name === "result") return this.#add(data);
    if (name === "error") this.#error = data;
    if (name === "truncated") this.#cut = true;
    if (name === "clear_output") {
      this.#clearNext = true;
      if (data["wait"] !== true) this.#clearIfAsked();
    }
    return undefined;
  }

  /** All of it, as the server would have answered, with the facts of the cell's end. */
  answer(exit: Record<string, unknown>): Record<string, unknown> {
    return {
      ...this.#error,
      stdout: this.stdout.toString(),
      stderr: this.stderr.toString(),
      results: this.#results,
      truncated: this.cut,
      output_bytes: this.bytesIfCut(),
      ...exit,
    };
  }

  override get cut(): boolean {
    return this.#cut || super.cut;
  }

  #clearIfAsked(): void {
    if (!this.#clearNext) return;
    this.stdout.clear();
    this.stderr.clear();
    this.#results = [];
    this.#displayIds = [];
    this.#room = RESULTS_CHARS_MAX;
    this.#cut = this.#clearNext = false;
  }

  #add(data: Record<string, unknown>): Result {
    this.#clearIfAsked();
    const result = new Result(strings(data["data"]));
    const id = typeof data["display_id"] === "string" ? data["display_id"] : undefined;
    const at = data["update"] === true && id !== undefined ? this.#displayIds.indexOf(id) : -1;
    const old = this.#results[at];
    const room = this.#room + (old ? size(old) : 0) - size(result);
    if (room < 0) {
      this.#cut = true;
      return result;
    }
    this.#room = room;
    if (old) {
      this.#results[at] = result;
    } else {
      this.#results.push(result);
      this.#displayIds.push(id);
    }
    return result;
  }
}

export type CellStatus = "ok" | "error" | "timeout" | "interrupted" | "died" | "oom";

export class Execution {
  readonly status: CellStatus;
  /** What it displayed, and the value of its last expression. */
  readonly results: readonly Result[];
  readonly stdout: string;
  readonly stderr: string;
  /** The traceback, where it failed. */
  readonly error: string | undefined;
  readonly errorName: string | undefined;
  readonly errorValue: string | undefined;
  readonly errorLine: number | undefined;
  /** 0, or 1; that of a cell of bash, of sys.exit(), of a kernel that ended. */
  readonly exitCode: number;
  readonly executionCount: number | undefined;
  readonly durationMs: number | undefined;
  /** There was more output, or there were larger results, than are kept. */
  readonly truncated: boolean;
  /** Then: how much output there was. */
  readonly outputBytes: OutputBytes | undefined;
  /** The kernel that ran it is gone, and there is a new one. */
  readonly kernelRestarted: boolean;
  /** The session's variables are gone. */
  readonly stateLost: boolean;
  /** What ended the kernel. */
  readonly signal: number | undefined;
  readonly reason: string | undefined;
  /** Files below /workspace that were written while the cell ran. */
  readonly filesChanged: readonly string[];
  /** There were more than these. */
  readonly filesChangedTruncated: boolean;

  constructor(answer: Record<string, unknown>) {
    const list = (value: unknown): unknown[] => (Array.isArray(value) ? value : []);
    this.status = (text(answer["status"]) || "died") as CellStatus;
    this.results = list(answer["results"]).map((bundle) =>
      bundle instanceof Result ? bundle : new Result(strings(bundle)),
    );
    this.stdout = text(answer["stdout"]);
    this.stderr = text(answer["stderr"]);
    this.error = text(answer["error"]) || undefined;
    this.errorName = text(answer["error_name"]) || undefined;
    this.errorValue = text(answer["error_value"]) || undefined;
    this.errorLine = integer(answer["error_line"]);
    this.exitCode = integer(answer["exit_code"]) ?? 1;
    this.executionCount = integer(answer["execution_count"]);
    this.durationMs = integer(answer["duration_ms"]);
    this.truncated = answer["truncated"] === true;
    this.outputBytes = answer["output_bytes"] as OutputBytes | undefined;
    this.kernelRestarted = answer["kernel_restarted"] === true;
    this.stateLost = answer["state_lost"] === true;
    this.signal = integer(answer["signal"]);
    this.reason = text(answer["reason"]) || undefined;
    this.filesChanged = list(answer["files_changed"]).filter((file) => typeof file === "string");
    this.filesChangedTruncated = answer["files_changed_truncated"] === true;
  }

  /** Of the answer to code that ran once; where there is no kernel for it, that is the answer of a command. */
  static ofAnswer(answer: Record<string, unknown>): Execution {
    if ("status" in answer) return new Execution(answer);
    const code = integer(answer["exit_code"]);
    const failed = { status: "error", error: text(answer["stderr"]) || `exit status ${code}` };
    return new Execution({ ...answer, ...(code === 0 ? { status: "ok" } : failed) });
  }

  /** The text of the cell's value, or else of the last thing that it displayed. */
  get text(): string | undefined {
    return this.results.findLast((result) => result.text !== undefined)?.text;
  }

  /** The first picture, base64. */
  get png(): string | undefined {
    return this.results.find((result) => result.png !== undefined)?.png;
  }

  /** Its facts, for JSON.stringify(). */
  toJSON(): object {
    return Object.fromEntries(Object.entries(this));
  }
}
