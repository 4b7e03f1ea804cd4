// SPDX-License-Identifier: Apache-2.0
// What a sandbox may, and what it does.
import { expect, test } from "vitest";
import { BadRequestError, NotFoundError, type SandboxEvent } from "../../src/index.js";
import { make } from "./box.js";

test("its network", async () => {
  const network = { egress: { allow: ["example.com:443"] }, bytesPerSecond: 4096 };
  const sandbox = await make({ network });
  expect(sandbox.info.network).toMatchObject(network);
  expect(await sandbox.network()).toMatchObject(network);
  expect((await sandbox.network()).counters?.denied).toBe(0);
  expect(await sandbox.setNetwork({ egress: "none" })).toMatchObject({ egress: "none", bytesPerSecond: 4096 });
  await expect(sandbox.setNetwork({ egress: { deny: ["not a rule"] } })).rejects.toThrow(BadRequestError);
});

test("its metrics", async () => {
  const sandbox = await make();
  const metrics = await sandbox.metrics();
  expect(metrics).toMatchObject({ status: "running", pid: expect.any(Number) as number });
  expect(metrics.hostRssBytes).toBeGreaterThan(1 << 20);
  expect(metrics.guest?.memoryTotalBytes).toBeGreaterThan(1 << 27);
  await sandbox.hibernate();
  expect(await sandbox.metrics()).toMatchObject({ status: "hibernated", pid: 0 });
});

test("its events", async () => {
  const sandbox = await make();
  const seen: SandboxEvent[] = [];
  for await (const event of await sandbox.followEvents()) {
    seen.push(event);
    if (event.type === "sandbox.running") await sandbox.pause();
    if (event.type === "sandbox.paused") await sandbox.kill();
  }
  expect(seen.map((event) => event.type)).toEqual(["sandbox.running", "sandbox.paused", "sandbox.deleted"]);
  expect(seen[0]).toMatchObject({ sandboxId: sandbox.id, payload: { template: "code-interpreter" } });
  await expect(sandbox.followEvents()).rejects.toThrow(NotFoundError);

  const other = await make();
  await other.pause();
  const [first, second] = await other.events();
  expect([first?.type, second?.type]).toEqual(["sandbox.running", "sandbox.paused"]);
  expect(await other.events({ tail: 1 })).toEqual([second]);
  expect(await other.events({ since: first?.time })).toEqual([second]);
  const followed = await other.followEvents({ tail: 1, signal: AbortSignal.timeout(60_000) });
  expect((await followed.next()).value).toEqual(second);
  await followed.return(undefined);
});

test("its logs", async () => {
  const sandbox = await make();
  await sandbox.exec("echo one; echo two >&2; echo é");
  expect((await sandbox.logs()).sort()).toEqual(["one", "two", "é"]);
  expect(await sandbox.logs({ stream: "stdout", tail: 1 })).toEqual(["é"]);
  const lines = [];
  for await (const line of await sandbox.followLogs({ stream: "stdout" })) {
    if (lines.push(line) === 2) await sandbox.exec("echo three");
    if (line === "three") break;
  }
  expect(lines).toEqual(["one", "é", "three"]);
  await sandbox.exec("echo from the console >/dev/console; printf 'no end'");
  expect(await sandbox.logs({ tail: 1 })).toEqual(["no end"]);
  const said = "from the console\r"; // a terminal's line ends in two characters
  for await (const line of await sandbox.followLogs({ stream: "console" })) if (line === said) break;
  expect(await sandbox.logs({ stream: "console" })).toContain(said);
});
