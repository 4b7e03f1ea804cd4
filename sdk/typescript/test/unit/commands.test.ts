// SPDX-License-Identifier: Apache-2.0
// Commands in the background, and what else goes on until it is left: logs, changes in a folder.
import { once } from "node:events";
import { expect, test } from "vitest";
import { ExecInterrupted, SandboxFailed, type Process } from "../../src/index.js";
import { event, failure, json, serve, stream, type Handler, type Loopback } from "./server.js";

const INFO = { id: 7, pid: 82, cmd: "cmd", status: "running", stdin: true, started_at: "t", output_bytes: 0 };
const out = (chunk: string) => event("stdout", { chunk });

/** One that was started; the handler has what is asked of it then. */
async function start(handler: Handler): Promise<{ server: Loopback; process: Process }> {
  const server = await serve((request, response) =>
    request.url?.endsWith("/exec") ? json(response, 201, INFO) : handler(request, response),
  );
  return { server, process: await (await server.sandbox()).commands.start("cmd", { stdin: true, timeoutSeconds: 2 }) };
}

/** Those of the requests that came after the start. */
const asked = ({ requests }: Loopback) => requests.slice(1).map((request) => `${request.method} ${request.url}`);

test("a start", async () => {
  const { server, process } = await start(() => undefined);
  expect(JSON.parse(server.requests[0]?.body ?? "")).toEqual({
    cmd: "cmd",
    background: true,
    stdin: true,
    timeout_seconds: 2,
  });
  expect(process.id).toBe(7);
  expect(process.info).toMatchObject({ cmd: "cmd", status: "running", startedAt: "t", outputBytes: 0 });
});

const WAIT = "POST /v1/sandboxes/box/processes/7/wait?timeout_seconds=";

test("a wait goes on until the end, over several requests", async () => {
  let left = 2;
  const end = { status: "exited", exit_code: 143, signal: 15 };
  const { server, process } = await start((_, response) => json(response, 200, left-- ? INFO : { ...INFO, ...end }));
  expect(await process.wait()).toBe(143);
  expect(process.info).toMatchObject({ status: "exited", exitCode: 143, signal: 15 });
  expect(asked(server)).toEqual([`${WAIT}60`, `${WAIT}60`, `${WAIT}60`]);
});

test.each([
  [0, ["0"]],
  [0.2, ["1"]],
  [60, ["60"]],
  [61, ["60", "1"]],
])("a wait of %d s is over", async (seconds, parts) => {
  const { server, process } = await start((_, response) => json(response, 200, INFO));
  expect(await process.wait({ seconds })).toBeUndefined();
  expect(asked(server)).toEqual(parts.map((part) => `${WAIT}${part}`));
});

test("its output, and what is lost of it, in order", async () => {
  const events = [event("truncated", { bytes: 512 }), out("a"), event("truncated", { bytes: 3 }), out("b")];
  const { process } = await start((_, response) =>
    stream(response, [...events, event("exit", { exit_code: 3, timed_out: false })]),
  );
  const told: unknown[] = [];
  const hear = { onStdout: (chunk: string) => told.push(chunk), onLost: (bytes: number) => told.push(bytes) };
  expect(await process.stream(hear)).toBe(3);
  expect(told).toEqual([512, "a", 3, "b"]);
  expect(await process.stream()).toBe(3);
});

test("a stream that breaks is no end", async () => {
  const { process } = await start((_, response) => stream(response, [out("half")]));
  const error = await failure<ExecInterrupted>(process.stream());
  expect(error).toBeInstanceOf(ExecInterrupted);
  expect(error.stdout).toBe("half");
});

test("stdin is bytes", async () => {
  const { server, process } = await start((_, response) => json(response, 200, { bytes: 2 }));
  await process.write("é");
  await process.write(Uint8Array.of(0, 255), { eof: true });
  const path = "POST /v1/sandboxes/box/processes/7/stdin";
  expect(asked(server)).toEqual([path, `${path}?eof=true`]);
  expect(server.requests.slice(1).map((request) => [...request.bytes])).toEqual([
    [195, 169],
    [0, 255],
  ]);
});

test.each([
  ["", []],
  ["one\n", ["one"]],
  ["one\n\nno end", ["one", "", "no end"]],
  ["a\u2028b\r\n", ["a\u2028b\r"]],
])("logs %j", async (text, lines) => {
  const server = await serve((_, response) => response.end(text));
  expect(await (await server.sandbox()).logs()).toEqual(lines);
});

test("logs that are followed, and say what is lost", async () => {
  const lost = event("truncated", { bytes: 9, line: "[output was lost]\n" });
  const part = "x".repeat(16384);
  const server = await serve((_, response) =>
    stream(response, [event("line", { line: "one\n" }), lost, event("line", { line: part, seq: 3 })]),
  );
  const lines = [];
  for await (const line of await (await server.sandbox()).followLogs({ tail: 1 })) lines.push(line);
  expect(lines).toEqual(["one", "[output was lost]", part]);
});

test("one that is left closes its connection, also before it has begun", async () => {
  const closes: Array<Promise<unknown>> = [];
  const server = await serve((_, response) => {
    closes.push(once(response, "close"));
    response.writeHead(200, { "content-type": "text/event-stream" }).write(event("line", { line: "one\n" }));
  });
  const sandbox = await server.sandbox();
  await (await sandbox.followLogs()).return(undefined);
  for await (const line of await sandbox.followLogs()) {
    expect(line).toBe("one");
    break;
  }
  await Promise.all(closes);
  expect(closes.length).toBe(2);
});

test("changes in a folder, until the sandbox fails", async () => {
  const events = [
    event("rename", { path: "a", is_dir: false, to: "b", seq: 1 }),
    event("overflow", { path: "", is_dir: true, seq: 2 }),
    event("error", { error: "the sandbox failed: kernel panic", code: "sandbox.failed" }),
  ];
  const server = await serve((_, response) => stream(response, events));
  const changes = await (await server.sandbox()).filesystem.watch("/d");
  expect((await changes.next()).value).toEqual({ type: "rename", path: "a", isDir: false, to: "b" });
  expect((await changes.next()).value).toEqual({ type: "overflow", path: "", isDir: true });
  expect(await failure(changes.next())).toBeInstanceOf(SandboxFailed);
});
