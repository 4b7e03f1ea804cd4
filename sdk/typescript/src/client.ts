// SPDX-License-Identifier: Apache-2.0
// Requests: the address, the key, time limits, retries, and what every failure is told as.
//
// There is no limit on how long a call takes, only on how long the server may be silent while something of it is awaited:
// an answer's head, or its next piece. Commands and cells come as streams, whose comments arrive every 15 s however long
// they run, so the limits of platforms (Node's fetch gives up after 300 s of silence) are not met either.
import { KEY_ADVICE, resolveConfig, type ClientOptions, type Config } from "./config.js";
import { APIConnectionError, APITimeoutError, errorOf, ServerError, type PandastackError } from "./errors.js";
import { fromWire } from "./names.js";
import { Snapshots, Templates } from "./resources.js";
import { serverEvents, type ServerEvent } from "./sse.js";

export interface CallOptions {
  /** Ends the call, and what runs for it. */
  signal?: AbortSignal | undefined;
  /** The client's, for this call. */
  timeoutMs?: number | undefined;
}

/** An iterable is read while it is sent. Browsers can't do that. */
export type Body = string | Uint8Array<ArrayBuffer> | Blob | AsyncIterable<Uint8Array>;

export interface RequestOptions extends CallOptions {
  query?: Record<string, string | number | boolean | undefined>;
  json?: object;
  body?: Body | undefined;
  headers?: Record<string, string>;
  /** May be sent twice, as a GET may. */
  repeatable?: boolean;
}

const SILENCE_MS = 120_000;
const FOREVER_MS = 2 ** 31 - 1;
const TRIES = 3;
const RETRY_MS = 200;

const BROKEN = "the connection to the server broke in the middle of its answer";

const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

/** The words of the innermost error: fetch wraps what happened in "fetch failed". */
function rootCause(error: unknown): string {
  let at = error;
  while (at instanceof Error && at.cause instanceof Error) at = at.cause;
  const { code, message } = Object(at) as { code?: unknown; message?: unknown };
  return [code, message].filter((word) => typeof word === "string" && word !== "").join(": ") || String(at);
}

function search(query: RequestOptions["query"] = {}): string {
  const given = Object.entries(query).filter(([, value]) => value !== undefined);
  const text = new URLSearchParams(given.map(([name, value]) => [name, String(value)])).toString();
  return text && `?${text}`;
}

function isIterable(body: Body | undefined): body is AsyncIterable<Uint8Array> {
  return typeof body === "object" && Symbol.asyncIterator in body;
}

function parseObject(text: string): Record<string, unknown> {
  try {
    return Object(JSON.parse(text)) as Record<string, unknown>;
  } catch {
    return {};
  }
}

/** A body that is made while it is sent. The server is not to blame for the time that takes. */
function bodyStream(source: AsyncIterable<Uint8Array>, watch: Watch, fail: (error: unknown) => void) {
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

/** Watches over one exchange: for the caller's signal, and the server's silence. */
class Watch {
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
      this.watch.end();
      this.watch.abort();
    }
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

export interface Version {
  semver: string;
  os: string;
  arch: string;
}

/** The server's address and key, and what there is beside sandboxes. */
export class Client {
  readonly #options: ClientOptions;
  #config: Promise<Config> | undefined;
  readonly templates = new Templates(this);
  readonly snapshots = new Snapshots(this);

  constructor(options: ClientOptions = {}) {
    this.#options = options;
  }

  /** What the server is. */
  async version(options: CallOptions = {}): Promise<Version> {
    return fromWire(await this.json("GET", "/version", options));
  }

  async json(method: string, path: string, options?: RequestOptions): Promise<unknown> {
    return (await this.request(method, path, options)).json();
  }

  /** For answers without a body. */
  async send(method: string, path: string, options?: RequestOptions): Promise<void> {
    await (await this.request(method, path, options)).bytes();
  }

  /** What the server tells as it happens, until its stream ends. */
  async *events(path: string, options?: RequestOptions): AsyncGenerator<ServerEvent> {
    const reply = await this.request("GET", path, { headers: { accept: "text/event-stream" }, ...options });
    for await (const event of serverEvents(reply.chunks())) {
      const { error, code } = event.data;
      if (event.name === "error") throw errorOf(String(error), { code: String(code) });
      yield event;
    }
  }

  /** Where a WebSocket finds that path. It can't send a header with the key. */
  async socketUrl(path: string, query: RequestOptions["query"]): Promise<string> {
    const { url, key } = await this.#resolved();
    return `${url.replace(/^http/, "ws")}${path}${search({ ...query, access_token: key })}`;
  }

  #resolved(): Promise<Config> {
    return (this.#config ??= resolveConfig(this.#options));
  }

  /** Any request; an answer that is an error is thrown. `path` is from the root. */
  async request(method: string, path: string, options: RequestOptions = {}): Promise<Reply> {
    const config = await this.#resolved();
    for (let tries = 1; ; tries++) {
      try {
        const reply = await this.#exchange(config, method, path, options);
        if (reply.response.ok) return reply;
        throw await reply.error();
      } catch (error) {
        const lost = error instanceof APIConnectionError && !(error instanceof APITimeoutError);
        if (!lost || !(options.repeatable ?? method === "GET") || tries === TRIES) throw error;
      }
      await pause(RETRY_MS * tries);
    }
  }

  async #exchange(config: Config, method: string, path: string, options: RequestOptions): Promise<Reply> {
    const { body } = options;
    // A browser does not tell how far it has sent a file.
    const limit = options.timeoutMs ?? (body instanceof Blob ? FOREVER_MS : (this.#options.timeoutMs ?? SILENCE_MS));
    const watch = new Watch(limit, options.signal);
    let failure: { error: unknown } | undefined; // of the body's source: fetch would wrap it
    const init: RequestInit & { duplex: "half" } = {
      method,
      headers: {
        accept: "application/json",
        authorization: `Bearer ${config.key}`,
        ...(options.json ? { "content-type": "application/json" } : {}),
        ...options.headers,
      },
      body: options.json
        ? JSON.stringify(options.json)
        : isIterable(body)
          ? bodyStream(body, watch, (error) => (failure = { error }))
          : (body ?? null),
      duplex: "half",
      redirect: "manual",
      signal: watch.signal,
    };
    const failed = `${config.url} can't be reached: start the server with "pandastack serve", or set PANDASTACK_API to its address`;
    try {
      const response = await watch.wait(fetch(`${config.url}${path}${search(options.query)}`, init), failed);
      return new Reply(response, watch);
    } catch (error) {
      throw failure ? failure.error : error;
    }
  }
}
