// SPDX-License-Identifier: Apache-2.0
// What a command and a cell have in common: a stream of events with output, and at its end `exit` or an error.
import type { CallOptions, Client } from "./client.js";
import { APIConnectionError, ExecInterrupted } from "./errors.js";
import type { Outputs } from "./output.js";
import type { ServerEvent } from "./sse.js";

/** Called in order. What a callback throws ends the call; a promise that it gives is awaited, and slows the output down. */
export interface OutputCallbacks {
  /** A piece of output as it comes: a line, several or a part of one. */
  onStdout?: ((chunk: string) => unknown) | undefined;
  onStderr?: ((chunk: string) => unknown) | undefined;
}

export const text = (value: unknown): string => (typeof value === "string" ? value : "");

export interface Followed<T> extends CallOptions, OutputCallbacks {
  json?: object;
  output: Outputs;
  /** Gets what is neither output nor the end. */
  onEvent?: (event: ServerEvent) => unknown;
  /** What there is with these facts of its end. */
  finish: (facts: Record<string, unknown>) => T;
}

/** Hears what a request has started, to its end. */
export async function follow<T>(client: Client, method: string, path: string, options: Followed<T>): Promise<T> {
  const { json, output, finish, signal, timeoutMs } = options;
  const headers = { accept: "text/event-stream" };
  const reply = await client.request(method, path, { ...(json && { json }), headers, signal, timeoutMs });
  const requestId = reply.response.headers.get("x-request-id") ?? undefined;
  const interrupted = (cause?: unknown) => {
    const lost = "the stream ended before the code did: whether it still runs and what it has done is not known";
    return new ExecInterrupted(cause instanceof Error ? `${lost} (${cause.message})` : lost, {
      requestId,
      details: finish({}),
      cause,
    });
  };
  async function* events(): AsyncGenerator<ServerEvent> {
    try {
      yield* reply.events();
    } catch (error) {
      throw error instanceof APIConnectionError ? interrupted(error) : error;
    }
  }
  for await (const event of events()) {
    const { name, data } = event;
    if (name === "stdout" || name === "stderr") {
      const chunk = text(data["chunk"]);
      output.write(name, chunk);
      await (name === "stdout" ? options.onStdout : options.onStderr)?.(chunk);
    } else if (name === "exit") {
      return finish(data);
    } else if (name === "error" && typeof data["code"] === "string") {
      throw reply.refusal(text(data["error"]), { code: data["code"], details: finish(data) });
    } else {
      await options.onEvent?.(event);
    }
  }
  throw interrupted();
}
