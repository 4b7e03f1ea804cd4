// SPDX-License-Identifier: Apache-2.0
// Requests: the address, the key, what is tried again, and for how long the server may be silent.
//
// There is no limit on how long a call takes. Commands and cells come as streams, whose comments arrive every 15 s however
// long they run, so the limits of platforms (Node's fetch gives up after 300 s of silence) are not met either.
import { resolveConfig, type ClientOptions, type Config } from "./config.js";
import { APIConnectionError, APITimeoutError } from "./errors.js";
import { bodyStream, Reply, Watch } from "./exchange.js";
import { fromWire } from "./names.js";
import { otherOrigin } from "./platform.js";
import { Snapshots, Templates } from "./resources.js";
import type { ServerEvent } from "./sse.js";

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

const START = 'start the server with "pandastack serve", or set PANDASTACK_API to its address';
const SILENCE_MS = 120_000;
const FOREVER_MS = 2 ** 31 - 1;
const TRIES = 3;
const RETRY_MS = 200;

const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

function search(query: RequestOptions["query"] = {}): string {
  const given = Object.entries(query).filter(([, value]) => value !== undefined);
  const text = new URLSearchParams(given.map(([name, value]) => [name, String(value)])).toString();
  return text && `?${text}`;
}

function isIterable(body: Body | undefined): body is AsyncIterable<Uint8Array> {
  return typeof body === "object" && Symbol.asyncIterator in body;
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
    return this.json("GET", "/version", options, fromWire<Version>);
  }

  /** What `read` makes of the answer's JSON. */
  async json<T>(method: string, path: string, options: RequestOptions, read: (wire: unknown) => T): Promise<T> {
    return (await this.request(method, path, options)).json(read);
  }

  /** For answers without a body. */
  async send(method: string, path: string, options?: RequestOptions): Promise<void> {
    await (await this.request(method, path, options)).bytes();
  }

  /** What the server tells from now on as it happens, until its stream ends. */
  async events<T>(
    path: string,
    options: RequestOptions,
    take: (event: ServerEvent) => T,
  ): Promise<AsyncGenerator<T, void>> {
    const reply = await this.request("GET", path, { headers: { accept: "text/event-stream" }, ...options });
    const told = (async function* () {
      for await (const event of reply.events()) {
        const { error, code } = event.data;
        if (event.name === "error") throw reply.refusal(String(error), { code: String(code) });
        yield reply.read(() => take(event));
      }
    })();
    const leave = told.return.bind(told);
    // Who leaves before the first next() does so, too, and chunks() has not begun then.
    told.return = (value) => leave(value).finally(() => reply.close());
    return told;
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
    const failed = `${config.url} can't be reached: ${otherOrigin(config.url) ?? START}`;
    try {
      const response = await watch.wait(fetch(`${config.url}${path}${search(options.query)}`, init), failed);
      return new Reply(response, watch);
    } catch (error) {
      throw failure ? failure.error : error;
    }
  }
}
