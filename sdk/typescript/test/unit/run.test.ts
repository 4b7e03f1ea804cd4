// SPDX-License-Identifier: Apache-2.0
// Commands and cells as streams: what is gathered, what is told, and ends of all kinds.
import { expect, test } from "vitest";
import {
  CodeContext,
  CommandError,
  ExecInterrupted,
  Execution,
  NotFoundError,
  SandboxFailed,
  SandboxTimeout,
  type ExecResult,
} from "../../src/index.js";
import { event, failure, json, serve, stream } from "./server.js";

const out = (chunk: string) => event("stdout", { chunk });
const err = (chunk: string) => event("stderr", { chunk });
const exit = (facts: object = { exit_code: 0 }) => event("exit", facts);
const result = (text: string, more: object = {}) => event("result", { data: { "text/plain": text }, ...more });

async function command(events: string[], cut = false) {
  return (await serve((_, response) => stream(response, events, cut))).sandbox();
}

async function cell(events: string[], options = {}): Promise<Execution> {
  return new CodeContext(await command([...events, exit({ status: "ok", exit_code: 0 })]), "ctx").runCode(
    "code",
    options,
  );
}

test("a command", async () => {
  const server = await serve((_, response) =>
    stream(response, [
      out("a"),
      err("e"),
      out("é☕\u2028"),
      exit({ exit_code: 137, signal: 9, duration_ms: 12, seq: 3 }),
    ]),
  );
  const sandbox = await server.sandbox();
  const options = { cwd: "/tmp", env: { A_B: "c" }, stdin: "in", user: "nobody", timeoutSeconds: 0.5 };
  expect(await sandbox.exec("cmd", options)).toEqual({
    stdout: "aé☕\u2028",
    stderr: "e",
    exitCode: 137,
    signal: 9,
    durationMs: 12,
    truncated: false,
    timedOut: false,
  });
  expect(server.requests[0]?.url).toBe("/v1/sandboxes/box/exec/stream");
  const { timeoutSeconds: timeout_seconds, ...rest } = options;
  expect(JSON.parse(server.requests[0]?.body ?? "")).toEqual({ cmd: "cmd", timeout_seconds, ...rest });
});

test("callbacks are told in order, and slow the rest down", async () => {
  const sandbox = await command([out("1"), err("2"), out("3"), exit({ exit_code: 4 })]);
  const told: string[] = [];
  const tell = async (chunk: string) => {
    await new Promise((resolve) => setImmediate(resolve));
    told.push(chunk);
  };
  expect(await sandbox.execStream("cmd", { onStdout: tell, onStderr: tell })).toBe(4);
  expect(told).toEqual(["1", "2", "3"]);
});

test("a callback that throws ends the call and its connection", async () => {
  let closed: () => void = () => undefined;
  const gone = new Promise<void>((resolve) => (closed = resolve));
  const server = await serve((_, response) => {
    response.on("close", closed);
    response.writeHead(200, { "content-type": "text/event-stream" }).write(out("1"));
  });
  const reason = new Error("enough");
  const call = (await server.sandbox()).exec("cmd", {
    onStdout: () => {
      throw reason;
    },
  });
  expect(await failure(call)).toBe(reason);
  await gone;
});

test("a signal ends a command that runs", async () => {
  let closed: () => void = () => undefined;
  const gone = new Promise<void>((resolve) => (closed = resolve));
  const controller = new AbortController();
  const server = await serve((_, response) => {
    response.on("close", closed);
    response.writeHead(200, { "content-type": "text/event-stream" }).write(out("1"));
  });
  const call = (await server.sandbox()).exec("cmd", { signal: controller.signal, onStdout: () => controller.abort() });
  expect((await failure(call)).name).toBe("AbortError");
  await gone;
});

test("check", async () => {
  const sandbox = await command([err(" why \n"), exit({ exit_code: 9 })]);
  expect((await sandbox.exec("cmd")).exitCode).toBe(9);
  const error = await failure<CommandError>(sandbox.exec("cmd", { check: true }));
  expect(error).toBeInstanceOf(CommandError);
  expect(error).toMatchObject({ exitCode: 9, stderr: " why \n", message: "exit code 9: cmd\nwhy" });
});

test.each([false, true])(
  "a stream without its end (cut off: %s) is no success, and what came is there",
  async (cut) => {
    const error = await failure<ExecInterrupted>((await command([out("half")], cut)).exec("cmd"));
    expect(error).toBeInstanceOf(ExecInterrupted);
    expect(error.message).toMatch(/whether it still runs and what it has done is not known/);
    expect(error).toMatchObject({ stdout: "half", requestId: "req-1" });
  },
);

test.each([
  ["timeout", "command timeout after 1s", SandboxTimeout, 504, ": allow it more time, or do less at once"],
  ["timeout", "the sandbox does not answer", SandboxTimeout, 504, ""],
  ["sandbox.failed", "the sandbox failed: kernel panic", SandboxFailed, 503, ""],
  ["sandbox.not_found", "the sandbox was deleted", NotFoundError, 404, ""],
])("an end by %s: %s", async (code, said, kind, status, advice) => {
  const error = await failure<SandboxTimeout>(
    (await command([out("o"), err("e"), event("error", { error: said, code })])).exec("c"),
  );
  const message = said + advice;
  expect(error).toBeInstanceOf(kind);
  expect(error).toMatchObject({ message, code, status, stdout: "o", stderr: "e" });
  expect((error.details as ExecResult).stdout).toBe("o");
});

test("output over its bound is cut with a word, and callbacks get all", async () => {
  const piece = "☕".repeat(100_000);
  let heard = 0;
  const sandbox = await command([...Array.from({ length: 11 }, () => out(piece)), exit()]);
  const got = await sandbox.exec("cmd", { onStdout: (chunk) => (heard += chunk.length) });
  expect(heard).toBe(1_100_000);
  expect(got.truncated).toBe(true);
  expect(got.outputBytes).toEqual({ stdout: 3_300_000, stderr: 0 });
  expect(got.stdout).toBe("☕".repeat(1 << 20) + "\n[cut: 3300000 bytes in all]\n");
});

test("no half of a character is left at the cut", async () => {
  const got = await (await command([out("x" + "😀".repeat(1 << 19)), exit()])).exec("cmd");
  expect(got.stdout).toMatch(/^x(😀)+\n\[cut/u);
});

test("a cell", async () => {
  const facts = {
    status: "error",
    exit_code: 1,
    execution_count: 7,
    duration_ms: 5,
    kernel_restarted: true,
    state_lost: true,
    signal: 9,
    reason: "oom",
    files_changed: ["/workspace/a"],
    files_changed_truncated: true,
  };
  const failed = { error: "Traceback", error_name: "E", error_value: "v", error_line: 3 };
  const server = await serve((_, response) =>
    stream(response, [out("o"), result("1"), event("error", failed), exit(facts)]),
  );
  const context = new CodeContext(await server.sandbox(), "c/1");
  const got = await context.runCode("code", { timeoutSeconds: 0.0015, env: { A: "b" }, detach: true });
  expect(JSON.parse(JSON.stringify(got))).toEqual({
    status: "error",
    results: [{ "text/plain": "1" }],
    stdout: "o",
    stderr: "",
    error: "Traceback",
    errorName: "E",
    errorValue: "v",
    errorLine: 3,
    exitCode: 1,
    executionCount: 7,
    durationMs: 5,
    truncated: false,
    kernelRestarted: true,
    stateLost: true,
    signal: 9,
    reason: "oom",
    filesChanged: ["/workspace/a"],
    filesChangedTruncated: true,
  });
  expect(server.requests[0]?.url).toBe("/v1/sandboxes/box/repl/sessions/c%2F1/run");
  expect(JSON.parse(server.requests[0]?.body ?? "")).toEqual({
    code: "code",
    timeout_ms: 2,
    env: { A: "b" },
    detach: true,
    stream: true,
    allow_stdin: false,
  });
});

test("the forms of a result", async () => {
  const data = {
    "text/plain": "t",
    "text/html": "h",
    "text/markdown": "m",
    "text/latex": "l",
    "image/svg+xml": "s",
    "image/png": "p",
    "image/jpeg": "j",
    "application/json": '{"a":[1]}',
    "application/vnd.pandastack.chart+json": '{"type":"bar"}',
    "application/vnd.dataresource+json": '{"rows":1}',
    "no/text": 7,
  };
  const heard: unknown[] = [];
  const got = await cell([event("result", { data }), result("last")], { onResult: (r: unknown) => heard.push(r) });
  expect(heard).toEqual(got.results);
  expect(got.results[0]).toMatchObject({
    text: "t",
    html: "h",
    markdown: "m",
    latex: "l",
    svg: "s",
    png: "p",
    jpeg: "j",
    json: { a: [1] },
    chart: { type: "bar" },
    table: { rows: 1 },
  });
  expect(got.results[0]?.data).not.toHaveProperty("no/text");
  expect([got.text, got.png]).toEqual(["last", "p"]);
  expect([got.results[1]?.png, got.results[1]?.json]).toEqual([undefined, undefined]);
  expect((await cell([event("result", { data: { "application/json": "{" } })])).results[0]?.json).toBeUndefined();
});

test("displays are updated in place", async () => {
  const got = await cell([
    result("a", { display_id: "1" }),
    result("b"),
    result("c", { display_id: "1", update: true }),
  ]);
  expect(got.results.map((r) => r.text)).toEqual(["c", "b"]);
  const unknown = await cell([result("a"), result("b", { display_id: "9", update: true })]);
  expect(unknown.results.map((r) => r.text)).toEqual(["a", "b"]);
});

const clear = (wait: boolean) => event("clear_output", { wait });

test.each([
  [[out("a"), result("r"), clear(false)], "", []],
  [[out("a"), clear(false), out("b")], "b", []],
  [[out("a"), result("r"), clear(true)], "a", ["r"]],
  [[out("a"), result("r"), clear(true), err("e")], "", []],
  [[out("a"), clear(true), result("r"), out("b")], "b", ["r"]],
])("output is cleared: %#", async (events, stdout, texts) => {
  const got = await cell(events);
  expect(got.stdout).toBe(stdout);
  expect(got.results.map((r) => r.text)).toEqual(texts);
});

test("results over their bound are left out with a word, and told", async () => {
  const heard: unknown[] = [];
  const large = result("x".repeat(20 << 20));
  const got = await cell([large, large, result("small")], { onResult: (r: unknown) => heard.push(r) });
  expect(heard).toHaveLength(3);
  expect(got.results).toHaveLength(2);
  expect([got.truncated, got.text]).toEqual([true, "small"]);
  expect((await cell([event("truncated", {})])).truncated).toBe(true);
});

test("a cell that ran out of time", async () => {
  const end = { status: "timeout", state_lost: true, exit_code: 1, error: "cell timeout after 1s", code: "timeout" };
  const context = new CodeContext(await command([out("o"), result("r"), event("error", end), exit()]), "ctx");
  const error = await failure<SandboxTimeout>(context.runCode("code"));
  expect(error).toBeInstanceOf(SandboxTimeout);
  expect(error).toMatchObject({ status: 504, stdout: "o" });
  expect(error.details).toBeInstanceOf(Execution);
  expect(error.details).toMatchObject({ status: "timeout", stateLost: true, results: [{ text: "r" }] });
});

test("a question is answered", async () => {
  const server = await serve(async (request, response) => {
    if (request.url?.endsWith("/input")) {
      response.writeHead(204).end();
      answered();
      return;
    }
    response.writeHead(200, { "content-type": "text/event-stream" });
    response.write(event("input_request", { prompt: "name? ", password: true }));
    await answer;
    response.end(exit({ status: "ok", exit_code: 0 }));
  });
  let answered: () => void = () => undefined;
  const answer = new Promise<void>((resolve) => (answered = resolve));
  const asked: unknown[] = [];
  const context = new CodeContext(await server.sandbox(), "ctx");
  await context.runCode("input()", { onInput: (...question) => `${asked.push(question)} x` });
  expect(asked).toEqual([["name? ", true]]);
  expect(JSON.parse(server.requests[0]?.body ?? "")).toMatchObject({ allow_stdin: true });
  expect(JSON.parse(server.requests[1]?.body ?? "")).toEqual({ value: "1 x" });
});

test.each([
  [
    { exit_code: 0, stdout: "o", stderr: "" },
    { status: "ok", exitCode: 0 },
  ],
  [
    { exit_code: 3, stdout: "", stderr: "" },
    { status: "error", error: "exit status 3", exitCode: 3 },
  ],
  [
    { exit_code: 3, stdout: "", stderr: "why" },
    { status: "error", error: "why", exitCode: 3 },
  ],
  [
    { status: "ok", exit_code: 0, results: [{ "text/plain": "4" }] },
    { status: "ok", text: "4" },
  ],
])("code that runs once, answered with %j", async (answer, wanted) => {
  const server = await serve((_, response) => json(response, 200, answer));
  expect(await (await server.sandbox()).runCode("code", { language: "bash", timeoutSeconds: 2 })).toMatchObject(wanted);
  expect(JSON.parse(server.requests[0]?.body ?? "")).toEqual({ code: "code", language: "bash", timeout_ms: 2000 });
});

test("a sandbox's own context is made once, and again when that failed", async () => {
  let sessions = 0;
  const server = await serve((request, response) => {
    if (!request.url?.endsWith("/sessions")) stream(response, [exit({ status: "ok", exit_code: 0 })]);
    else if (sessions++ === 0) json(response, 429, { error: "too many", code: "limit.reached" });
    else json(response, 201, { id: `s${sessions}`, language: "python" });
  });
  const sandbox = await server.sandbox();
  await expect(sandbox.runCode("1", { keepState: true })).rejects.toThrow("too many");
  await Promise.all([sandbox.runCode("1", { keepState: true }), sandbox.runCode("2", { keepState: true })]);
  expect(sessions).toBe(2);
});
