// SPDX-License-Identifier: Apache-2.0
// What a cell of code gave: gathered from the stream of its run, as the server gathers it for a buffered answer.
import type { ServerEvent } from "./sse.js";
import type { CellResult } from "./models.js";
import { fromWire, jsonObject, memberOf } from "./names.js";
import { Outputs } from "./output.js";

/** A picture in a form that every model's API takes: base64, a data URL, bytes. */
export class Picture {
  constructor(
    readonly base64: string,
    readonly mimeType: string,
  ) {}

  /** As a data URL. */
  get url(): string {
    return `data:${this.mimeType};base64,${this.base64}`;
  }
  get data(): Uint8Array<ArrayBuffer> {
    return Uint8Array.from(atob(this.base64), (byte) => byte.charCodeAt(0));
  }

  /** Of what a guest calls a picture; undefined where that is none. */
  static ofBase64(text: string | undefined, mimeType: string): Picture | undefined {
    try {
      return text ? new Picture(btoa(atob(text)), mimeType) : undefined;
    } catch {
      return undefined;
    }
  }
}

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

  /** As a picture, PNG if there is one. */
  get picture(): Picture | undefined {
    return Picture.ofBase64(this.png, "image/png") ?? Picture.ofBase64(this.jpeg, "image/jpeg");
  }
  /** The plainest words for it. */
  get plain(): string | undefined {
    return this.text || this.markdown || this.latex || this.data["application/json"] || undefined;
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

const size = (data: Record<string, string>) =>
  Object.values(data).reduce((n, value) => n + value.length, RESULT_OVERHEAD);

function strings(object: unknown): Record<string, string> {
  const members = Object.entries(Object(object) as Record<string, string>).filter(
    ([, value]) => typeof value === "string",
  );
  return Object.fromEntries(members);
}

/** What comes while a cell runs. */
export class CellOutput extends Outputs {
  #results: Array<Record<string, string>> = [];
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
  override answer(exit: Record<string, unknown>): Record<string, unknown> {
    const unknown = { status: "died", exit_code: 1, kernel_restarted: false, state_lost: false };
    return { ...unknown, ...this.#error, ...super.answer(exit), results: this.#results };
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
    const result = strings(data["data"]);
    const id = typeof data["display_id"] === "string" ? data["display_id"] : undefined;
    const at = data["update"] === true && id !== undefined ? this.#displayIds.indexOf(id) : -1;
    const old = this.#results[at];
    const room = this.#room + (old ? size(old) : 0) - size(result);
    if (room < 0) {
      this.#cut = true;
      return new Result(result);
    }
    this.#room = room;
    if (old) {
      this.#results[at] = result;
    } else {
      this.#results.push(result);
      this.#displayIds.push(id);
    }
    return new Result(result);
  }
}

// The members of an Execution are those of the answer.
// eslint-disable-next-line @typescript-eslint/no-unsafe-declaration-merging
export interface Execution extends Omit<CellResult, "results"> {
  /** What it displayed, and the value of its last expression. */
  readonly results: readonly Result[];
}

/** A cell that ended, well or not: `error` is the traceback, undefined when all went well. */
// eslint-disable-next-line @typescript-eslint/no-unsafe-declaration-merging
export class Execution {
  /** Of a CellResult as the server sends it. */
  constructor(answer: Record<string, unknown>) {
    const { seq: _, exit: __, code: ___, ...facts } = answer;
    const results: unknown[] = Array.isArray(answer["results"]) ? answer["results"] : [];
    Object.assign(this, fromWire<CellResult>(facts), { results: results.map((data) => new Result(strings(data))) });
  }

  /** Of the answer to code that ran once; where there is no kernel for it, that is the answer of a command. */
  static ofAnswer(wire: unknown): Execution {
    const exit_code = memberOf("exit_code", Number)(wire);
    const answer = jsonObject(wire);
    if ("status" in answer) return new Execution(answer);
    const { stderr } = answer;
    const failed = { status: "error", error: stderr || `exit status ${String(exit_code)}` };
    return new Execution({ ...answer, ...(exit_code === 0 ? { status: "ok" } : failed) });
  }

  /** The text of the cell's value, or else of the last thing that it displayed. */
  get text(): string | undefined {
    return this.results.findLast((result) => result.text !== undefined)?.text;
  }

  /** The first picture, base64. */
  get png(): string | undefined {
    return this.results.find((result) => result.png !== undefined)?.png;
  }

  /**
   * What a model is to see of it: a text, which is never empty, and the pictures. The text is output, values and
   * traceback, in the words that cost least; what a picture shows is not said again. Where something was left out, it
   * says so.
   */
  forModel({ maxText = 20_000, maxImages = 4 }: ForModelOptions = {}): { text: string; pictures: Picture[] } {
    const pictures = this.results.flatMap((result) => result.picture ?? []);
    const values = this.results.map((result) => (result.picture ? undefined : result.plain));
    const parts = [this.stdout, this.stderr, ...values, this.error].filter((part) => part);
    const text = shortened(parts.map((part) => part?.replace(/\n+$/, "")).join("\n"), maxText);
    const said = [
      text || (pictures.length ? "[a picture was drawn]" : "[no output]"),
      pictures.length > maxImages && `[${pictures.length - maxImages} more pictures]`,
      this.truncated && "[output was cut]",
      this.stateLost && "[the kernel began anew: its variables are gone]",
    ];
    return { text: said.filter((line) => line).join("\n"), pictures: pictures.slice(0, maxImages) };
  }

  /** Its facts, for JSON.stringify(). */
  toJSON(): object {
    return Object.fromEntries(Object.entries(this));
  }
}

export interface ForModelOptions {
  /** How many characters (20,000); of more, the middle is left out. */
  maxText?: number;
  /** How many pictures (4). */
  maxImages?: number;
}

/** Its beginning and its end, where the traceback's last line is. No character is cut in two. */
function shortened(text: string, limit: number): string {
  if (text.length <= limit) return text;
  const head = text.slice(0, limit >> 1).replace(/[\uD800-\uDBFF]$/, "");
  const tail = text.slice(text.length - (limit - (limit >> 1))).replace(/^[\uDC00-\uDFFF]/, "");
  return `${head}\n[${text.length - head.length - tail.length} characters left out]\n${tail}`;
}
