// SPDX-License-Identifier: Apache-2.0
// A terminal in a sandbox, over a WebSocket: the platform's own, or where there is none (Node before 22) that of the
// package `ws`. Binary messages are what is typed and shown, text messages are JSON.
import type { Client } from "./client.js";
import { APIConnectionError, ConfigError, ExecInterrupted } from "./errors.js";
import { importModule } from "./platform.js";

export interface PtyOptions {
  /** Hears what the terminal shows. */
  onData: (bytes: Uint8Array) => unknown;
  /** What runs in it (for `sh -c`); a login shell without it. */
  cmd?: string | undefined;
  rows?: number | undefined;
  cols?: number | undefined;
  /** Folder of what runs in it. */
  cwd?: string | undefined;
  /** Who that runs as. */
  user?: string | undefined;
  /** Closes it, and ends what runs in it. */
  signal?: AbortSignal | undefined;
}

async function socketClass(): Promise<typeof WebSocket> {
  if ("WebSocket" in globalThis) return WebSocket;
  try {
    return ((await importModule("ws")) as { WebSocket: typeof WebSocket }).WebSocket;
  } catch (cause) {
    throw new ConfigError("a terminal needs Node 22, or the package ws: npm install ws", { cause });
  }
}

/** Resolves with what a socket says first. */
const first = <K extends keyof WebSocketEventMap>(socket: WebSocket, ...names: K[]) =>
  new Promise<WebSocketEventMap[K]>((resolve) => {
    for (const name of names) socket.addEventListener(name, resolve, { once: true });
  });

export class Pty {
  #exitCode: number | undefined;
  #failure: { error: unknown } | undefined;
  readonly #socket: WebSocket;
  readonly #closed: Promise<CloseEvent>;

  private constructor(socket: WebSocket, { onData, signal }: PtyOptions) {
    this.#socket = socket;
    this.#closed = first(socket, "close");
    const close = () => this.close();
    signal?.addEventListener("abort", close);
    void this.#closed.then(() => signal?.removeEventListener("abort", close));
    socket.addEventListener("message", ({ data }: MessageEvent<unknown>) => {
      try {
        if (data instanceof ArrayBuffer) onData(new Uint8Array(data));
        else this.#exitCode ??= (JSON.parse(String(data)) as { exit?: number }).exit;
      } catch (error) {
        this.#failure ??= { error };
        close();
      }
    });
  }

  static async open(client: Client, path: string, options: PtyOptions): Promise<Pty> {
    const { cmd, rows = 24, cols = 80, cwd, user, signal } = options;
    const query = { cmd, rows, cols, cwd, user };
    const url = await client.socketUrl(path, query);
    const Socket = await socketClass();
    signal?.throwIfAborted();
    const socket = new Socket(url);
    socket.binaryType = "arraybuffer";
    const pty = new Pty(socket, options);
    const { type } = await first(socket, "open", "error", "close");
    signal?.throwIfAborted();
    if (type === "open") return pty;
    // A socket does not tell why it was refused.
    await client.send("GET", path, { query, signal }).catch((error: unknown) => {
      if (!(error instanceof Error) || !error.message.includes("is a WebSocket")) throw error;
    });
    throw new APIConnectionError(
      "the server opened no terminal: is there a proxy before it that passes no WebSocket, or that passes on a page's Origin?",
    );
  }

  write(data: string | Uint8Array<ArrayBuffer>): void {
    this.#socket.send(typeof data === "string" ? new TextEncoder().encode(data) : data);
  }

  resize(rows: number, cols: number): void {
    this.#socket.send(JSON.stringify({ resize: { rows, cols } }));
  }

  /** Ends it, and what runs in it. */
  close(): void {
    this.#socket.close();
  }

  /** Waits for the end of what runs in it; its exit code. What onData throws closes it, and is thrown here. */
  async wait(): Promise<number> {
    const { reason } = await this.#closed;
    if (this.#failure) throw this.#failure.error;
    if (this.#exitCode !== undefined) return this.#exitCode;
    const lost = "the terminal was closed before what runs in it ended: what became of it is not known";
    throw new ExecInterrupted(reason ? `${lost} (${reason})` : lost);
  }
}
