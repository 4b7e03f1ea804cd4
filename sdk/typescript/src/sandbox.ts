// SPDX-License-Identifier: Apache-2.0
// A sandbox: a virtual machine of its own, and the handle on it.
import { Client, type CallOptions, type RequestOptions } from "./client.js";
import { Commands, type ExecOptions } from "./commands.js";
import type { ClientOptions } from "./config.js";
import { CodeContext } from "./context.js";
import { NotFoundError } from "./errors.js";
import { Execution } from "./execution.js";
import { explore, type Exploration, type ExploreOptions } from "./explore.js";
import { Filesystem } from "./filesystem.js";
import type {
  ExecResult,
  Lifecycle,
  Metrics,
  Network,
  NetworkState,
  Port,
  SandboxEvent,
  SandboxInfo,
  Snapshot,
} from "./models.js";
import { listOf, memberOf, reader, toWire } from "./names.js";
import { asyncDispose } from "./platform.js";
import { Pty, type PtyOptions } from "./pty.js";
import { lifecycleOf, metricsOf, networkOf, portOf, sandboxEventOf, sandboxOf, snapshotOf } from "./shapes.js";
import { text } from "./stream.js";

/** For calls that need no sandbox: where to send them. The sandbox keeps to it. */
export interface ConnectOptions extends ClientOptions {
  /** Instead of the others. */
  client?: Client | undefined;
  signal?: AbortSignal | undefined;
}

export interface CreateOptions extends ConnectOptions {
  /** code-interpreter without it. */
  template?: string | undefined;
  /** Id of a snapshot to go on from, instead of a template. */
  fromSnapshot?: string | undefined;
  /** Without a call for so long it ends; 3,600 without it. */
  ttlSeconds?: number | undefined;
  /** Hibernate when idle, instead of ending. */
  persistent?: boolean | undefined;
  /** When it is idle; 300 without it. */
  idleSeconds?: number | undefined;
  /** To find it by. */
  metadata?: Record<string, string> | undefined;
  /** Variables of all that runs in it. */
  env?: Record<string, string> | undefined;
  /** What it may reach: all that is public, without it. */
  network?: Network | undefined;
}

export interface ListOptions extends ConnectOptions {
  /** Only those that have these. */
  metadata?: Record<string, string> | undefined;
  status?: SandboxInfo["status"] | undefined;
}

export interface ContextOptions extends CallOptions {
  /** python, javascript, bash, or a Jupyter kernel that is installed (docs/languages.md); python without it. */
  language?: string | undefined;
  cwd?: string | undefined;
  env?: Record<string, string> | undefined;
}

export interface RunOnceOptions extends CallOptions {
  /** python without it. */
  language?: string | undefined;
  /** After that it is interrupted; 30 without it. */
  timeoutSeconds?: number | undefined;
  env?: Record<string, string> | undefined;
  /** Run it in the sandbox's own context of that language, so that what it defines, the next call sees. */
  keepState?: boolean | undefined;
}

export interface EventOptions extends CallOptions {
  /** How many of the last ones; 50 without it. */
  tail?: number | undefined;
  /** Only those after this `time`. */
  since?: string | undefined;
}

export interface PreviewOptions extends CallOptions {
  /** A week at most. */
  ttlSeconds?: number | undefined;
  /** Only these, and what is below them; without it all. */
  paths?: string[] | undefined;
}

export interface LogOptions extends CallOptions {
  /** Both of what commands write, without it; or the console of the machine. */
  stream?: "both" | "stdout" | "stderr" | "console" | undefined;
  /** Only the last lines. */
  tail?: number | undefined;
}

export interface ForkOptions extends CallOptions {
  /** Laid over the parent's. */
  metadata?: Record<string, string> | undefined;
}

export interface PromoteOptions extends CallOptions {
  /** End the others of the tree. */
  cleanupSiblings?: boolean | undefined;
  /** That of its metadata, without it. */
  treeId?: string | undefined;
}

export interface PersistentOptions extends CallOptions {
  idleSeconds?: number | undefined;
}

export interface Promotion {
  winner: string;
  treeId: string;
  deleted: string[];
  /** By id. */
  failures: Record<string, string>;
}
const promotionOf = reader<Promotion>("winner", "treeId");

interface Session {
  id: string;
  language: string;
}
const sessionOf = reader<Session>("id", "language");

/** What captures a machine takes as long as its memory is large. */
const CAPTURE_MS = 300_000;
/** The server's limit of a cell, and what its answer may take beyond it: it interrupts, waits and kills. */
const CELL_SECONDS = 30;
const GRACE_MS = 30_000;

/** Two creates with the same one make one sandbox, so a create can be sent again when its answer was lost. */
const idempotencyKey = () => [Date.now(), Math.random(), Math.random()].map((n) => n.toString(36)).join("");

export class Sandbox {
  #info: SandboxInfo;
  readonly id: string;
  readonly filesystem: Filesystem;
  readonly commands: Commands;
  readonly #path: string;
  readonly #contexts = new Map<string, Promise<CodeContext>>();

  private constructor(
    readonly client: Client,
    info: SandboxInfo,
  ) {
    this.#info = info;
    this.id = info.id;
    this.filesystem = new Filesystem(client, info.id);
    this.#path = `/v1/sandboxes/${encodeURIComponent(info.id)}`;
    this.commands = new Commands(client, this.#path);
  }

  /** Makes one, and waits until it is ready. */
  static async create(options: CreateOptions = {}): Promise<Sandbox> {
    const { client = new Client(options), signal, fromSnapshot, ttlSeconds, persistent, idleSeconds } = options;
    const { template = fromSnapshot ? undefined : "code-interpreter", metadata, env, network } = options;
    const call = {
      json: toWire({ template, fromSnapshot, ttlSeconds, persistent, idleSeconds, metadata, env, network }),
      headers: { "idempotency-key": idempotencyKey() },
      repeatable: true,
      signal,
    };
    return new Sandbox(client, await client.json("POST", "/v1/sandboxes", call, sandboxOf));
  }

  /** The one of that id, in whatever state it is. */
  static async get(id: string, options: ConnectOptions = {}): Promise<Sandbox> {
    const { client = new Client(options), signal } = options;
    const path = `/v1/sandboxes/${encodeURIComponent(id)}`;
    return new Sandbox(client, await client.json("GET", path, { signal }, sandboxOf));
  }

  /** Oldest first. */
  static async list(options: ListOptions = {}): Promise<Sandbox[]> {
    const { client = new Client(options), status, metadata = {}, signal } = options;
    const filters = Object.entries(metadata).map(([key, value]) => [`metadata.${key}`, value]);
    const query = { status, ...(Object.fromEntries(filters) as Record<string, string>) };
    const infos = await client.json("GET", "/v1/sandboxes", { query, signal }, listOf(sandboxOf));
    return infos.map((info) => new Sandbox(client, info));
  }

  /** The one of that id, running: woken if it is hibernated, resumed if it is paused. */
  static async connect(id: string, options: ConnectOptions = {}): Promise<Sandbox> {
    const sandbox = await Sandbox.get(id, options);
    const { signal } = options;
    if (sandbox.status === "paused") await sandbox.resume({ signal });
    else if (sandbox.status !== "running") await sandbox.wake({ signal });
    return sandbox;
  }

  /** What the server said of it: at its making, or at the last refresh(). */
  get info(): Readonly<SandboxInfo> {
    return this.#info;
  }
  get status(): SandboxInfo["status"] {
    return this.#info.status;
  }
  get template(): string {
    return this.#info.template;
  }
  get metadata(): Readonly<Record<string, string>> {
    return this.#info.metadata ?? {};
  }

  #call<T>(method: string, action: string, options: RequestOptions, read: (wire: unknown) => T): Promise<T> {
    return this.client.json(method, `${this.#path}/${action}`, options, read);
  }

  /** Asks the server anew. */
  async refresh(options: CallOptions = {}): Promise<this> {
    this.#info = await this.client.json("GET", this.#path, options, sandboxOf);
    return this;
  }

  /** Ends it and removes all that belongs to it; false if it was gone already. */
  async kill(options: CallOptions = {}): Promise<boolean> {
    try {
      await this.client.send("DELETE", this.#path, { repeatable: true, ...options });
      return true;
    } catch (error) {
      if (error instanceof NotFoundError) return false;
      throw error;
    }
  }

  /** The end of an `await using`: one that is persistent stays. */
  async [asyncDispose](): Promise<void> {
    if (this.#info.persistent !== true) await this.kill();
  }

  // ---- what runs in it ----

  /** Runs a command (for `sh -c`) to its end. Its exit code is no exception, unless `check` is given. */
  exec(cmd: string, options: ExecOptions = {}): Promise<ExecResult> {
    return this.commands.run(cmd, options);
  }

  /** Like exec(), for its output as it comes; the exit code. */
  async execStream(cmd: string, options: ExecOptions = {}): Promise<number> {
    return (await this.exec(cmd, options)).exitCode;
  }

  /** Opens a terminal, with a login shell or a command in it, which ends with the terminal. */
  openPty(options: PtyOptions): Promise<Pty> {
    return Pty.open(this.client, `${this.#path}/exec/pty`, options);
  }

  /** A new kernel, whose cells see each other's variables; 8 in a sandbox. */
  async createCodeContext(options: ContextOptions | string = {}): Promise<CodeContext> {
    const { language, cwd, env, ...call } = typeof options === "string" ? { language: options } : options;
    const json = toWire({ language, cwd, env });
    return this.#context(await this.#call("POST", "repl/sessions", { json, ...call }, sessionOf));
  }

  /** Its kernels; in a fork or a restored sandbox also those that came along. */
  async listCodeContexts(options: CallOptions = {}): Promise<CodeContext[]> {
    const sessions = await this.#call("GET", "repl/sessions", options, listOf(sessionOf));
    return sessions.map((session) => this.#context(session));
  }

  #context({ id, language }: Session): CodeContext {
    return new CodeContext(this, id, language);
  }

  /** Runs code once, in a kernel or a process of its own, unless `keepState` is given. */
  async runCode(code: string, options: RunOnceOptions = {}): Promise<Execution> {
    const { language = "python", keepState, timeoutSeconds = CELL_SECONDS, env, ...call } = options;
    if (keepState) return (await this.#ownContext(language)).runCode(code, { timeoutSeconds, env, ...call });
    const timeout = timeoutSeconds * 1000;
    const json = toWire({ code, language, env, timeoutMs: Math.ceil(timeout) });
    const request = { json, timeoutMs: timeout + GRACE_MS, ...call };
    return this.#call("POST", "repl", request, (wire) => Execution.ofAnswer(wire));
  }

  #ownContext(language: string): Promise<CodeContext> {
    const made = this.#contexts.get(language) ?? this.createCodeContext({ language });
    this.#contexts.set(language, made);
    made.catch(() => this.#contexts.delete(language));
    return made;
  }

  // ---- as a value ----

  /** Keeps the machine as it is now. Sandbox.create({ fromSnapshot: id }) goes on from there. */
  snapshot(options: CallOptions = {}): Promise<Snapshot> {
    return this.#call("POST", "snapshots", { timeoutMs: CAPTURE_MS, ...options }, snapshotOf);
  }

  /** A copy of the machine as it is now, with all that runs in it. */
  async fork({ metadata, ...call }: ForkOptions = {}): Promise<Sandbox> {
    const options = { json: toWire({ metadata }), timeoutMs: CAPTURE_MS, ...call };
    return new Sandbox(this.client, await this.#call("POST", "fork", options, memberOf("sandbox", sandboxOf)));
  }

  /** Several copies, made at once: 2 without `count`, at most 16. */
  async forkTree({ metadata, count, ...call }: ForkOptions & { count?: number | undefined } = {}): Promise<Sandbox[]> {
    const options = { json: toWire({ metadata, count }), timeoutMs: CAPTURE_MS, ...call };
    const children = await this.#call("POST", "fork-tree", options, memberOf("children", listOf(sandboxOf)));
    return children.map((info) => new Sandbox(this.client, info));
  }

  /** Names it the winner of its fork-tree, and ends its siblings if so asked. */
  promote({ cleanupSiblings, treeId, ...call }: PromoteOptions = {}): Promise<Promotion> {
    return this.#call("POST", "promote", { json: toWire({ cleanupSiblings, treeId }), ...call }, promotionOf);
  }

  /**
   * Tries several ways to go on from here at once, each in a copy of its own, and keeps the best. Whatever happens, no
   * other copy stays; the sandbox itself is as it was. An attempt that throws loses; when all do, so does this.
   */
  explore<C, R>(
    candidates: readonly C[],
    attempt: (sandbox: Sandbox, candidate: C) => Promise<R>,
    options: ExploreOptions<R>,
  ): Promise<Exploration<C, R>> {
    return explore(this, candidates, attempt, options);
  }

  // ---- what it may, and what it does ----

  /** What it may reach, and how much it has. */
  network(options: CallOptions = {}): Promise<NetworkState> {
    return this.#call("GET", "network", options, networkOf);
  }

  /** What is left out stays. Connections that are not allowed any more are reset. */
  setNetwork(network: Network, options: CallOptions = {}): Promise<NetworkState> {
    return this.#call("PATCH", "network", { json: toWire(network), repeatable: true, ...options }, networkOf);
  }

  /** What listens in it, and what has a label. Its servers are reached by previewUrl(), or with the key by `proxyUrl`. */
  async ports(options: CallOptions = {}): Promise<Port[]> {
    return this.#call("GET", "ports", options, listOf(portOf));
  }

  /** A label is kept in the metadata. */
  labelPort(port: number, label: string, options: CallOptions = {}): Promise<Port> {
    return this.#call("POST", "ports", { json: { port, label }, ...options }, portOf);
  }

  async unlabelPort(port: number, options: CallOptions = {}): Promise<void> {
    await this.client.send("DELETE", `${this.#path}/ports/${port}`, options);
  }

  /** A link to a server in it that works without a key, for an hour or `ttlSeconds`. */
  async previewUrl(port: number, { ttlSeconds, paths, ...call }: PreviewOptions = {}): Promise<string> {
    const json = toWire({ port, ttlSeconds, paths });
    return this.#call("POST", "preview-token", { json, ...call }, memberOf("url", String));
  }

  /** What it takes of the host, and how its guest is. */
  metrics(options: CallOptions = {}): Promise<Metrics> {
    return this.#call("GET", "metrics", options, metricsOf);
  }

  /** The last things that happened to it, oldest first. */
  async events({ tail, since, ...call }: EventOptions = {}): Promise<SandboxEvent[]> {
    const options = { query: { tail, since }, ...call };
    return this.#call("GET", "events", options, memberOf("events", listOf(sandboxEventOf)));
  }

  /** The same, then what happens, until it is deleted. */
  followEvents({ tail, since, ...call }: EventOptions = {}): Promise<AsyncGenerator<SandboxEvent, void>> {
    const options = { query: { tail, since, follow: true }, ...call };
    return this.client.events(`${this.#path}/events`, options, ({ data }) => sandboxEventOf(data));
  }

  /** The lines that its commands have written. */
  async logs({ stream, tail, ...call }: LogOptions = {}): Promise<string[]> {
    const reply = await this.client.request("GET", `${this.#path}/logs`, { query: { stream, tail }, ...call });
    const lines = (await reply.text()).split("\n");
    if (lines.at(-1) === "") lines.pop(); // the last line may be without its end
    return lines;
  }

  /** The same, then each line as it is whole; one of more than 16 KiB comes in parts. */
  followLogs({ stream, tail, ...call }: LogOptions = {}): Promise<AsyncGenerator<string, void>> {
    const options = { query: { stream, tail, follow: true }, ...call };
    return this.client.events(`${this.#path}/logs`, options, ({ data }) => text(data["line"]).replace(/\n$/, ""));
  }

  // ---- its life ----

  /** Stops its processors; nothing happens to one that is paused. */
  pause(options: CallOptions = {}): Promise<void> {
    return this.#change("pause", "paused", options);
  }

  resume(options: CallOptions = {}): Promise<void> {
    return this.#change("resume", "running", options);
  }

  /** Writes it to the disk and ends its machine. The next call wakes it. */
  hibernate(options: CallOptions = {}): Promise<void> {
    return this.#change("hibernate", "hibernated", options);
  }

  wake(options: CallOptions = {}): Promise<void> {
    return this.#change("wake", "running", options);
  }

  async #change(call: string, status: SandboxInfo["status"], options: CallOptions): Promise<void> {
    await this.client.send("POST", `${this.#path}/${call}`, { timeoutMs: CAPTURE_MS, repeatable: true, ...options });
    this.#info.status = status;
  }

  /** What ends or stops it by itself. */
  lifecycle(options: CallOptions = {}): Promise<Lifecycle> {
    return this.#call("GET", "lifecycle", options, lifecycleOf);
  }

  /** Without a call for so long it ends. */
  setTtl(ttlSeconds: number, options: CallOptions = {}): Promise<Lifecycle> {
    return this.#setLifecycle({ ttlSeconds }, options);
  }

  /** Whether it is hibernated when it is idle, instead of ending; and when it is idle. */
  setPersistent(persistent: boolean, { idleSeconds, ...call }: PersistentOptions = {}): Promise<Lifecycle> {
    return this.#setLifecycle({ persistent, idleSeconds }, call);
  }

  async #setLifecycle(change: object, options: CallOptions): Promise<Lifecycle> {
    const call = { json: toWire(change), repeatable: true, ...options };
    const now = await this.#call("PATCH", "lifecycle", call, lifecycleOf);
    Object.assign(this.#info, now);
    return now;
  }
}
