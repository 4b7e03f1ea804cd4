// SPDX-License-Identifier: Apache-2.0
// A terminal, on a server that speaks as the daemon's exec/pty does.
import { once } from "node:events";
import { expect, test } from "vitest";
import { WebSocketServer, type WebSocket } from "ws";
import { APIConnectionError, ExecInterrupted, NotFoundError, type Sandbox } from "../../src/index.js";
import { failure, json, serve } from "./server.js";

/** A sandbox whose terminals are served by that function. */
async function terminal(serveSocket: (socket: WebSocket, url: string) => void): Promise<Sandbox> {
  const server = await serve(() => undefined);
  const sockets = new WebSocketServer({ noServer: true });
  server.server.on("upgrade", (request, socket, head) => {
    if (!request.url?.startsWith("/v1/sandboxes/box/exec/pty?")) return void socket.destroy();
    sockets.handleUpgrade(request, socket, head, (opened) => serveSocket(opened, request.url ?? ""));
  });
  return server.sandbox();
}

test("what is typed, shown and resized, and its end", async () => {
  const heard: string[] = [];
  let asked = "";
  const sandbox = await terminal((socket, url) => {
    asked = url;
    socket.on("message", (data: Buffer, isBinary) => {
      heard.push(`${isBinary ? "binary" : "text"} ${data.toString()}`);
      if (!isBinary) {
        socket.send(JSON.stringify({ exit: 3 }));
        socket.close(1000);
      } else socket.send(Buffer.concat([Buffer.from("echo "), data]));
    });
  });
  const shown: Buffer[] = [];
  const pty = await sandbox.openPty({ rows: 50, cols: 132, onData: (bytes) => shown.push(Buffer.from(bytes)) });
  pty.write("é☕\r");
  pty.write(Uint8Array.of(3));
  pty.resize(40, 100);
  expect(await pty.wait()).toBe(3);
  expect(asked).toBe("/v1/sandboxes/box/exec/pty?rows=50&cols=132&access_token=pds_test");
  expect(heard).toEqual(["binary é☕\r", "binary \x03", 'text {"resize":{"rows":40,"cols":100}}']);
  expect(Buffer.concat(shown).toString()).toBe("echo é☕\recho \x03");
});

test("a terminal that is closed by either side", async () => {
  const sandbox = await terminal((socket) =>
    socket.on("message", (data: Buffer) =>
      String(data) === "x" ? socket.terminate() : socket.close(1011, "it failed"),
    ),
  );
  const lost = await sandbox.openPty({ onData: () => undefined });
  lost.write("x");
  expect(await failure(lost.wait())).toBeInstanceOf(ExecInterrupted);
  const failed = await sandbox.openPty({ onData: () => undefined });
  failed.write("y");
  expect((await failure(failed.wait())).message).toMatch(/not known \(it failed\)$/);
  const closed = await sandbox.openPty({ onData: () => undefined });
  closed.close();
  expect(await failure(closed.wait())).toBeInstanceOf(ExecInterrupted);
});

test("what a callback throws closes it", async () => {
  const sandbox = await terminal((socket) => socket.send(Buffer.from("x")));
  const reason = new Error("enough");
  const pty = await sandbox.openPty({
    onData: () => {
      throw reason;
    },
  });
  expect(await failure(pty.wait())).toBe(reason);
});

test("a signal closes it, before and after", async () => {
  const closes: Array<Promise<unknown>> = [];
  const sandbox = await terminal((socket) => closes.push(once(socket, "close")));
  const controller = new AbortController();
  const pty = await sandbox.openPty({ onData: () => undefined, signal: controller.signal });
  controller.abort();
  await Promise.all(closes);
  expect(await failure(pty.wait())).toBeInstanceOf(ExecInterrupted);
  expect((await failure(sandbox.openPty({ onData: () => undefined, signal: controller.signal }))).name).toBe(
    "AbortError",
  );
});

test.each([
  [404, "no such sandbox", "sandbox.not_found", NotFoundError],
  [400, "this path is a WebSocket", "request.invalid", APIConnectionError],
])("a refusal with %d says why", async (status, error, code, type) => {
  const server = await serve((_, response) => json(response, status, { error, code }));
  const opening = (await server.sandbox()).openPty({ onData: () => undefined, cwd: "/x" });
  expect(await failure(opening)).toBeInstanceOf(type);
  expect(server.requests.at(-1)?.url).toBe("/v1/sandboxes/box/exec/pty?rows=24&cols=80&cwd=%2Fx");
});
