// SPDX-License-Identifier: Apache-2.0
// Commands in the background.
import { beforeAll, expect, test } from "vitest";
import { BadRequestError, ConflictError, NotFoundError, type Sandbox } from "../../src/index.js";
import { makeForAll } from "./box.js";

let sandbox: Sandbox;

beforeAll(async () => {
  sandbox = await makeForAll();
});

test("one that ends, and what it wrote", async () => {
  const options = { cwd: "/tmp", env: { A: "é" }, user: "nobody" };
  const process = await sandbox.commands.start("pwd; echo $A; id -un >&2; exit 3", options);
  expect(process.info).toMatchObject({ cmd: expect.stringContaining("pwd") as string, stdin: false });
  expect(await process.wait()).toBe(3);
  expect(process.info).toMatchObject({ status: "exited", exitCode: 3, timedOut: false });
  const heard = { stdout: "", stderr: "" };
  const onStdout = (chunk: string) => (heard.stdout += chunk);
  expect(await process.stream({ onStdout, onStderr: (chunk) => (heard.stderr += chunk) })).toBe(3);
  expect(heard).toEqual({ stdout: "/tmp\né\n", stderr: "nobody\n" });
  expect((await sandbox.commands.list()).map((p) => p.id)).toContain(process.id);
  expect((await sandbox.commands.get(process.id)).info.exitCode).toBe(3);
  await expect(sandbox.commands.get(1_000_000)).rejects.toThrow(NotFoundError);
});

test("stdin, a bit at a time", async () => {
  const process = await sandbox.commands.start("read x; echo got $x; cat", { stdin: true });
  await process.write("é\n");
  await process.write(Uint8Array.of(104, 105), { eof: true });
  let out = "";
  expect(await process.stream({ onStdout: (chunk) => (out += chunk) })).toBe(0);
  expect(out).toBe("got é\nhi");
  await expect(process.write("more")).rejects.toThrow(ConflictError);
});

test("signals, and an end by force", async () => {
  const polite = await sandbox.commands.start("trap 'echo bye; exit 7' INT; echo up; while :; do sleep 0.1; done");
  let out = "";
  const onStdout = async (chunk: string) => {
    out += chunk;
    if (chunk === "up\n") await polite.sendSignal("INT");
  };
  expect(await polite.stream({ onStdout })).toBe(7);
  expect(out).toBe("up\nbye\n");
  const deaf = await sandbox.commands.start("trap '' INT TERM; sleep 300");
  expect(await deaf.wait({ seconds: 0 })).toBeUndefined();
  expect((await deaf.refresh()).info.status).toBe("running");
  await deaf.kill();
  expect(await deaf.wait()).toBe(137);
  expect(deaf.info.signal).toBe(9);
  await expect(deaf.kill()).rejects.toThrow(ConflictError);
  await expect(deaf.sendSignal("NONSENSE")).rejects.toThrow(BadRequestError);
});

test("a limit", async () => {
  const process = await sandbox.commands.start("sleep 300", { timeoutSeconds: 0.5 });
  expect(await process.wait()).toBe(124);
  expect(process.info.timedOut).toBe(true);
});
