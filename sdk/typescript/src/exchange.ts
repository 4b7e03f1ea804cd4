// SPDX-License-Identifier: Apache-2.0
// One request and its answer, watched over: for the caller's signal, and for the server's silence while something of it is
// awaited, be it the answer's head, its next piece, or that it takes what is sent.
import { KEY_ADVICE } from "./config.js";
import { APIConnectionError, APITimeoutError, ServerError, type ErrorFacts, type PandastackError } from "./errors.js";
import { fromWire } from "./names.js";
import { errorOf, Misshapen } from "./refusals.js";
import { serverEvents, type ServerEvent } from "./sse.js";
import { VERSION } from "./version.js";
import { versionAdvice, versionOf } from "./versions.js";

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

  /** What `read` makes of its JSON, whose names are as on the wire. */
  async json<T>(read: (wire: unknown) => T): Promise<T> {
    const text = await this.text();
    let wire: unknown;
    try {
      wire = JSON.parse(text);
    } catch (cause) {
      throw this.#foreign(text, cause);
    }
    return this.read(() => read(wire));
  }

  /** Its events as they come. */
  async *events(): AsyncGenerator<ServerEvent> {
    const type = this.response.headers.get("content-type") ?? "";
    if (!type.startsWith("text/event-stream")) {
      this.close();
      throw this.#foreign(`Content-Type: ${type}`);
    }
    try {
      yield* serverEvents(this.chunks());
    } catch (error) {
      throw this.#explain(error);
    }
  }

  /** What `make` makes of a piece of it. */
  read<T>(make: () => T): T {
    try {
      return make();
    } catch (error) {
      throw this.#explain(error);
    }
  }

  #explain(error: unknown): unknown {
    if (!(error instanceof Misshapen)) return error;
    const what = `the server's answer is not what this SDK expects: ${error.message}`;
    return new ServerError(`${what} (${versionAdvice(versionOf(this.response.headers))})`, { cause: error });
  }

  /** Somebody else answers at the server's address. */
  #foreign(text: string, cause?: unknown): ServerError {
    const { status, headers, url } = this.response;
    const name = headers.get("server");
    const who = name === null ? "" : `, by a server that calls itself ${JSON.stringify(name.slice(0, 60))}`;
    const what = `HTTP ${status} from ${new URL(url).origin} is no answer of a pandastack daemon${who}`;
    const advice = `is PANDASTACK_API right? This SDK is for pandastack ${VERSION}. It said: ${JSON.stringify(text.slice(0, 200))}`;
    return new ServerError(`${what}: ${advice}`, { status, cause });
  }

  /** The error that the server's words stand for. */
  refusal(message: string, facts: ErrorFacts): PandastackError {
    const { headers } = this.response;
    return errorOf(message, { requestId: headers.get("x-request-id") ?? undefined, ...facts }, versionOf(headers));
  }

  /** What its refusal stands for. */
  async error(): Promise<PandastackError> {
    const { status } = this.response;
    const body = await this.text();
    const { error, code, request_id, details } = parseObject(body);
    if (typeof error !== "string") return this.#foreign(body);
    return this.refusal(status === 401 ? `${error}. ${KEY_ADVICE}` : error, {
      status,
      code: typeof code === "string" ? code : undefined,
      ...(typeof request_id === "string" && { requestId: request_id }),
      details: typeof details === "object" && details !== null ? fromWire(details) : undefined,
    });
  }
}
