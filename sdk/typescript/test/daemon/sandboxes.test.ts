// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import {
  AuthError,
  BadRequestError,
  Client,
  NotFoundError,
  NotSupportedError,
  Sandbox,
  SandboxFailed,
  PandastackError,
  type ExecResult,
} from "../../src/index.js";
import { make } from "./box.js";

test("create, get, list, connect, kill", async () => {
  const metadata = { agent: "ts", Case_d: "é" };
  const sandbox = await make({ metadata, env: { GREETING: "hi" }, ttlSeconds: 800 });
  expect(sandbox.info).toMatchObject({
    template: "code-interpreter",
    status: "running",
    ttlSeconds: 800,
    persistent: false,
  });
  expect(sandbox.info.memoryMb).toBeGreaterThan(100);
  expect(sandbox.metadata).toEqual(metadata);
  expect((await sandbox.exec("echo $GREETING")).stdout).toBe("hi\n");
  expect((await Sandbox.get(sandbox.id)).info.createdAt).toBe(sandbox.info.createdAt);
  expect((await Sandbox.list({ metadata, status: "running" })).map((s) => s.id)).toEqual([sandbox.id]);
  expect(await Sandbox.list({ metadata: { agent: "nobody" } })).toEqual([]);
  expect((await Sandbox.connect(sandbox.id)).status).toBe("running");
  expect(await sandbox.kill()).toBe(true);
  expect(await sandbox.kill()).toBe(false);
  await expect(Sandbox.get(sandbox.id)).rejects.toThrow(NotFoundError);
  await expect(sandbox.exec("true")).rejects.toThrow(NotFoundError);
});

test("a block ends its sandbox, but for a persistent one", async () => {
  let sandbox;
  {
    await using inner = await Sandbox.create();
    sandbox = inner;
  }
  expect(await sandbox.kill()).toBe(false);
  {
    await using inner = await make({ persistent: true, idleSeconds: 500 });
    sandbox = inner;
  }
  expect((await sandbox.refresh()).info).toMatchObject({ status: "running", persistent: true, idleSeconds: 500 });
});

test("templates, snapshots, version", async () => {
  const client = new Client();
  expect((await client.templates.list()).map((t) => t.name)).toContain("code-interpreter");
  expect(await client.templates.get("code-interpreter")).toMatchObject({ kernel: "python", isGlobal: true });
  await expect(client.templates.delete("no-such")).rejects.toThrow(NotFoundError);
  await expect(client.snapshots.get("no-such")).rejects.toThrow(NotFoundError);
  expect((await client.version()).semver).toMatch(/^\d+\.\d+\.\d+/);
});

test("refusals say what to do", async () => {
  const refused = (promise: Promise<unknown>) =>
    promise.then(
      () => "",
      (error: unknown) => error as PandastackError,
    );
  expect(await refused(Sandbox.create({ template: "no-such" }))).toMatchObject({ code: "template.unknown" });
  expect(String(await refused(Sandbox.create({ template: "no-such" })))).toContain("code-interpreter");
  await expect(
    Sandbox.create({ metadata: Object.fromEntries([...Array(65).keys()].map((i) => [i, ""])) }),
  ).rejects.toThrow(BadRequestError);
  await expect(Sandbox.list({ apiKey: "pds_wrong" })).rejects.toThrow(AuthError);
  const unknown = await refused(new Client().send("GET", "/v1/volumes"));
  expect(unknown).toBeInstanceOf(NotSupportedError);
  expect(unknown).toMatchObject({ code: "not_supported", status: 501 });
  expect((unknown as PandastackError).requestId).toMatch(/^\w{24}$/);
});

test.each([
  ["killed", (s: Sandbox) => s.kill(), /deleted/],
  [
    "gone by a panic of its kernel",
    (s: Sandbox) => s.exec("echo c > /proc/sysrq-trigger").catch(() => undefined),
    /panic/,
  ],
])("a sandbox that is %s in the middle of a call", async (how, end, words) => {
  const sandbox = await make();
  let ended: Promise<unknown> | undefined;
  const call = sandbox.exec("echo half; sleep 300", { onStdout: () => void (ended = end(sandbox)) });
  const error = await call.then(
    () => undefined,
    (e: unknown) => e as PandastackError,
  );
  await ended;
  expect(error).toBeInstanceOf(SandboxFailed);
  expect(error?.message).toMatch(words);
  expect((error?.details as ExecResult).stdout).toBe("half\n");
  if (how === "killed") return;
  expect((await sandbox.refresh()).info).toMatchObject({ status: "failed" });
  await expect(sandbox.exec("true")).rejects.toThrow(SandboxFailed);
});
