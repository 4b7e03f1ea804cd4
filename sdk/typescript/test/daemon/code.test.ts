// SPDX-License-Identifier: Apache-2.0
// Commands and cells in one sandbox.
import { beforeAll, expect, test } from "vitest";
import {
  BadRequestError,
  CommandError,
  NotFoundError,
  SandboxTimeout,
  type CodeContext,
  type Sandbox,
} from "../../src/index.js";
import { makeForAll } from "./box.js";

let sandbox: Sandbox;
let context: CodeContext;

beforeAll(async () => {
  sandbox = await makeForAll();
  context = await sandbox.createCodeContext();
});

const png = (base64: string | undefined) =>
  Buffer.from(base64 ?? "", "base64")
    .subarray(1, 4)
    .toString();

test("a command", async () => {
  expect(await sandbox.exec("echo out; echo err >&2; exit 3")).toMatchObject({
    stdout: "out\n",
    stderr: "err\n",
    exitCode: 3,
    truncated: false,
    signal: undefined,
  });
  expect(await sandbox.exec("kill -9 $$")).toMatchObject({ exitCode: 137, signal: 9 });
  const options = { cwd: "/usr/lib", env: { A: "é" }, stdin: "☕", user: "nobody" };
  expect((await sandbox.exec("pwd; id -un; echo $A; cat", options)).stdout).toBe("/usr/lib\nnobody\né\n☕");
  await expect(sandbox.exec("echo why >&2; exit 9", { check: true })).rejects.toThrow(CommandError);
  await expect(sandbox.exec("true", { cwd: "/no/such" })).rejects.toThrow(BadRequestError);
});

test("its output as it comes", async () => {
  await sandbox.exec("mkfifo /tmp/next");
  const heard: string[] = [];
  const code = await sandbox.execStream("echo first; read x < /tmp/next; echo é…☕; exit 4", {
    onStdout: (chunk) => {
      heard.push(chunk);
      if (heard.length === 1) void sandbox.exec("echo > /tmp/next");
    },
  });
  expect(code).toBe(4);
  expect(heard.join("")).toBe("first\né…☕\n");
});

test("much output", async () => {
  let heard = 0;
  const got = await sandbox.exec("head -c 3000000 /dev/zero | tr '\\0' x", {
    onStdout: (chunk) => (heard += chunk.length),
  });
  expect(heard).toBe(3_000_000);
  expect(got).toMatchObject({ truncated: true, outputBytes: { stdout: 3_000_000, stderr: 0 } });
  expect(got.stdout).toHaveLength((1 << 20) + "\n[cut: 3000000 bytes in all]\n".length);
});

test("a command that takes too long is killed, and what it wrote is there", async () => {
  const error = await sandbox.exec("echo before; sleep 300", { timeoutSeconds: 0.5 }).catch((e: unknown) => e);
  expect(error).toBeInstanceOf(SandboxTimeout);
  expect(error).toMatchObject({ status: 504, stdout: "before\n" });
});

test("a signal kills a command", async () => {
  const controller = new AbortController();
  const call = sandbox.exec("echo up; sleep 301; true", {
    signal: controller.signal,
    onStdout: () => controller.abort(),
  });
  await expect(call).rejects.toThrow(/abort/);
  expect((await sandbox.exec("while pgrep -xf 'sleep 301'; do :; done", { timeoutSeconds: 30 })).exitCode).toBe(0);
});

test("cells", async () => {
  expect(await context.runCode("x = 41")).toMatchObject({
    status: "ok",
    text: undefined,
    error: undefined,
    exitCode: 0,
  });
  expect((await context.runCode("x + 1")).text).toBe("42");
  expect(await context.runCode("print('hi')")).toMatchObject({ text: undefined, stdout: "hi\n" });
  expect(await context.runCode("1/0")).toMatchObject({
    status: "error",
    errorName: "ZeroDivisionError",
    errorLine: 1,
    exitCode: 1,
  });
  expect((await context.runCode("1/0")).error).toMatch(/Traceback[^]*ZeroDivisionError/);
  const wrote = await context.runCode("open('/workspace/new', 'w').close(); import os; os.environ['A']", {
    env: { A: "b" },
  });
  expect(wrote).toMatchObject({ filesChanged: ["/workspace/new"], text: "'b'" });
});

test("rich results", async () => {
  const heard: unknown[] = [];
  const code =
    "import pandas as pd, matplotlib.pyplot as plt\nplt.bar(['a'], [1]); plt.show()\npd.DataFrame({'a': [1, 2]})";
  const got = await context.runCode(code, { timeoutSeconds: 100, onResult: (result) => heard.push(result) });
  expect(got.error).toBeUndefined();
  expect(heard).toEqual(got.results);
  expect(png(got.png)).toBe("PNG");
  expect(got.results[0]?.chart).toMatchObject({ type: "bar" });
  expect(got.results[1]?.html).toContain("<table");
  expect(got.results[1]?.table).toMatchObject({ rows: 2 });
  expect(got.text).toContain("a");
  const json = await context.runCode(
    "from IPython.display import JSON, Latex, Markdown, display\ndisplay(Latex('$x$'), Markdown('*m*'))\nJSON({'a': [1]})",
  );
  expect(json.results.map((r) => r.latex ?? r.markdown ?? r.json)).toEqual(["$x$", "*m*", { a: [1] }]);
  const updated = await context.runCode("h = display(1, display_id='a'); display(2); h.update(3)");
  expect(updated.results.map((r) => r.text)).toEqual(["3", "2"]);
});

test("a question is answered", async () => {
  const asked: string[] = [];
  const onInput = (prompt: string) => `${asked.push(prompt)} ☕`;
  expect((await context.runCode("input('name? ')", { onInput })).text).toBe("'1 ☕'");
  expect(asked).toEqual(["name? "]);
  expect((await context.runCode("input()")).errorName).toBe("StdinNotImplementedError");
});

test("a cell that takes too long is interrupted, and its variables stay", async () => {
  await context.runCode("y = 5");
  const error = await context
    .runCode("print('o'); 1/1\nwhile True: pass", { timeoutSeconds: 1 })
    .catch((e: unknown) => e);
  expect(error).toBeInstanceOf(SandboxTimeout);
  expect(error).toMatchObject({ stdout: "o\n", details: { status: "timeout", stateLost: false } });
  expect((await context.runCode("y")).text).toBe("5");
});

test("interrupt, and a kernel that dies", async () => {
  await using own = await sandbox.createCodeContext();
  const cell = own.runCode("print('up', flush=True)\nwhile True: pass", { onStdout: () => void own.interrupt() });
  expect(await cell).toMatchObject({ status: "interrupted" });
  expect(await own.interrupt()).toBe(false);
  expect(await own.runCode("import os; os.kill(os.getpid(), 11)")).toMatchObject({
    status: "died",
    stateLost: true,
    signal: 11,
  });
  await own.runCode("z = 1");
  await own.restart();
  expect((await own.runCode("z")).errorName).toBe("NameError");
});

test("contexts of other languages", async () => {
  await using js = await sandbox.createCodeContext("js");
  expect((await js.runCode("let a = 6; a * 7")).text).toBe("42");
  await using bash = await sandbox.createCodeContext({ language: "bash", cwd: "/tmp", env: { A: "b" } });
  expect((await bash.runCode("pwd; echo $A")).stdout).toBe("/tmp\nb\n");
  expect((await sandbox.listCodeContexts()).map((c) => c.language).sort()).toEqual(["bash", "javascript", "python"]);
  await bash.close();
  await bash.close();
  await expect(bash.runCode("pwd")).rejects.toThrow(NotFoundError);
  await expect(sandbox.createCodeContext("cobol")).rejects.toThrow(BadRequestError);
});

test("code that runs once, and on the sandbox's own context", async () => {
  expect((await sandbox.runCode("6 * 7")).text).toBe("42");
  expect((await sandbox.runCode("x")).errorName).toBe("NameError");
  expect(await sandbox.runCode("echo $A; exit 3", { language: "bash", env: { A: "b" } })).toMatchObject({
    status: "error",
    stdout: "b\n",
    exitCode: 3,
    error: "exit status 3",
  });
  await sandbox.runCode("kept = 1", { keepState: true });
  expect((await sandbox.runCode("kept", { keepState: true })).text).toBe("1");
  await expect(sandbox.runCode("while True: pass", { timeoutSeconds: 1 })).rejects.toThrow(SandboxTimeout);
});
