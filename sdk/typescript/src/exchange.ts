// SPDX-License-Identifier: Apache-2.0
// One request and its answer, watched over: for the caller's signal, and for the server's silence while something of it is
// awaited, be it the answer's head, its next piece, or that it takes what is sent.
import { KEY_ADVICE } from "./config.js";
import { APIConnectionError, APITimeoutError, ServerError, type PandastackError } from "./errors.js";
import { fromWire } from "./names.js";
import { errorOf } from "./refusals.js";

const BROKEN = "the connection to the server broke in the middle of its answer";

/** The words of the innermost error: fetch wraps what happened in "fetch failed". */
function rootCause(error: unknown): string {
  let at = error;
  while (at instanceof Error && at.cause instanceof Error) at = at.cause;
  const { code, message } = Object(at) as { code?: unknown; message?: unknown };
  return [code, message].filter((word) => typeof word === "string" && word !== "").join(": ") || String(at);
}

export class Watch {
  readonly #controller = new AbortController();
  #timer: ReturnType<typeof setTimeout> | undefined;
  #waiting = false;
  #silent = false;

  constructor(
    readonly silenceMs: number,
    readonly outer: AbortSignal | undefined,
  ) {
    outer?.throwIfAborted();
    outer?.addEventListener("abort", this.abort);
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  readonly abort = (): void => {
    this.#controller.abort();
  };

  /** Awaits something of the server. */
  async wait<T>(what: Promise<T>, failed: string): Promise<T> {
    this.#waiting = true;
    this.listen();
    try {
      return await what;
    } catch (error) {
      this.end();
      throw this.#explain(error, failed);
    } finally {
      this.#waiting = false;
      this.rest();
    }
  }

  /** It is the server's turn: its silence begins anew. */
  listen(): void {
    this.rest();
    if (!this.#waiting) return;
    this.#timer = setTimeout(() => {
      this.#silent = true;
      this.abort();
    }, this.silenceMs);
  }

  /** It is our turn. */
  rest(): void {
    clearTimeout(this.#timer);
  }

  end(): void {
    this.outer?.removeEventListener("abort", this.abort);
  }

  #explain(cause: unknown, failed: string): unknown {
    if (this.outer?.aborted) return this.outer.reason;
    if (!this.#silent) return new APIConnectionError(`${failed} (${rootCause(cause)})`, { cause });
    const why = `the server was silent for ${this.silenceMs / 1000} s; the call may still take effect. A larger timeoutMs waits longer`;
    return new APITimeoutError(why, { cause });
  }
}

/** A body that is made while it is sent. The server is not to blame for the time that takes. */
export function bodyStream(
  source: AsyncIterable<Uint8Array>,
  watch: Watch,
  fail: (error: unknown) => void,
): ReadableStream<Uint8Array> {
  const chunks = source[Symbol.asyncIterator]();
  return new ReadableStream<Uint8Array>({
    async pull(controller) {
      watch.rest();
      try {
        const next = await chunks.next();
        watch.signal.throwIfAborted(); // Node's fetch reads on
        if (next.done) controller.close();
        else controller.enqueue(next.value);
      } catch (error) {
        if (watch.signal.aborted) await chunks.return?.();
        else fail(error);
        throw error;
      }
      watch.listen();
    },
    async cancel() {
      await chunks.return?.();
    },
  });
}

function parseObject(text: string): Record<string, unknown> {
  try {
    return Object(JSON.parse(text)) as Record<string, unknown>;
  } catch {
    return {};
  }
}

/** An answer whose head has come. */
export class Reply {
  constructor(
    readonly response: Response,
    readonly watch: Watch,
  ) {}

  /** Its bytes as they come. Who leaves before the end closes the connection, and so cancels what runs for it. */
  async *chunks(): AsyncGenerator<Uint8Array> {
    const reader = this.response.body?.getReader();
    try {
      while (reader) {
        const next = await this.watch.wait(reader.read(), BROKEN);
        if (next.done) return;
        yield next.value;
      }
    } finally {
      this.close();
    }
  }

  /** Closes its connection, if it has not come whole. */
  close(): void {
    this.watch.end();
    this.watch.abort();
  }

  async bytes(): Promise<Uint8Array> {
    const chunks: BlobPart[] = [];
    for await (const chunk of this.chunks()) chunks.push(chunk as Uint8Array<ArrayBuffer>);
    return new Uint8Array(await new Blob(chunks).arrayBuffer());
  }

  async text(): Promise<string> {
    return new TextDecoder().decode(await this.bytes());
  }

  /** Its JSON, with names as they are on the wire. */
  async json(): Promise<unknown> {
    const text = await this.text();
    try {
      return JSON.parse(text) as unknown;
    } catch (cause) {
      throw new ServerError(this.#foreign(text), { status: this.response.status, cause });
    }
  }

  #foreign(text: string): string {
    const what = `HTTP ${this.response.status} from ${new URL(this.response.url).origin} is no answer of pandastack's`;
    return `${what}. Is PANDASTACK_API right? It said: ${text.slice(0, 200)}`;
  }

  /** What its refusal stands for. */
  async error(): Promise<PandastackError> {
    const { status, headers } = this.response;
    const body = await this.text();
    const { error, code, request_id, details } = parseObject(body);
    const message = typeof error === "string" ? error : this.#foreign(body);
    return errorOf(status === 401 ? `${message}. ${KEY_ADVICE}` : message, {
      status,
      code: typeof code === "string" ? code : undefined,
      requestId: typeof request_id === "string" ? request_id : (headers.get("x-request-id") ?? undefined),
      details: typeof details === "object" && details !== null ? fromWire(details) : undefined,
    });
  }
}
