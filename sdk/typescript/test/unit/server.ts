// SPDX-License-Identifier: Apache-2.0
// A server on the loopback interface that answers as a test tells it to.
import { once } from "node:events";
import { createServer, type IncomingMessage, type RequestListener, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach } from "vitest";
import { Client, Sandbox } from "../../src/index.js";

export type Request = IncomingMessage & { bytes: Buffer; body: string };
export type Handler = (request: Request, response: ServerResponse) => unknown;

const closers: Array<() => unknown> = [];

afterEach(async () => {
  await Promise.all(closers.splice(0).map((close) => close()));
});

export class Loopback {
  readonly requests: Request[] = [];

  constructor(
    readonly url: string,
    readonly client: Client,
    readonly server: Server,
  ) {}

  /** A handle on a sandbox that is not there. */
  async sandbox(): Promise<Sandbox> {
    const [sandbox] = await Sandbox.list({ client: this.client });
    if (!sandbox) throw new Error("there must be one");
    return sandbox;
  }
}

export const json = (response: ServerResponse, status: number, body: unknown): void => {
  response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(body));
};

/** Requests go to the handler; lists of sandboxes have one. */
export async function serve(handler: Handler, options: { timeoutMs?: number } = {}): Promise<Loopback> {
  const listener: RequestListener = (incoming, response) => {
    const pieces: Buffer[] = [];
    incoming.on("data", (piece: Buffer) => pieces.push(piece));
    incoming.on("end", () => {
      const bytes = Buffer.concat(pieces);
      const request = Object.assign(incoming, { bytes, body: bytes.toString() });
      if (request.method === "GET" && request.url === "/v1/sandboxes") {
        json(response, 200, [{ id: "box", template: "t", status: "running" }]);
        return;
      }
      loopback.requests.push(request);
      void Promise.resolve(handler(request, response));
    });
    incoming.on("error", () => undefined);
  };
  const server = createServer(listener);
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  closers.push(() => {
    server.closeAllConnections();
    return new Promise((resolve) => server.close(resolve));
  });
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const loopback = new Loopback(url, new Client({ apiUrl: url, apiKey: "pds_test", ...options }), server);
  return loopback;
}

export const event = (name: string, data: unknown): string => `event: ${name}\ndata: ${JSON.stringify(data)}\n\n`;

/** A stream of events, which ends well unless it is cut. */
export function stream(response: ServerResponse, events: string[], cut = false): void {
  response.writeHead(200, { "content-type": "text/event-stream", "x-request-id": "req-1" });
  for (const text of events) response.write(text);
  if (cut) response.write(": the end is missing\n\n", () => response.destroy());
  else response.end();
}

/** What a promise is rejected with. */
export async function failure<T extends Error>(promise: Promise<unknown>): Promise<T> {
  try {
    await promise;
  } catch (error) {
    return error as T;
  }
  throw new Error("it did not fail");
}
