// SPDX-License-Identifier: Apache-2.0
// A machine as a value, and its life.
import { expect, test } from "vitest";
import { Client, CodeContext, ConflictError, ExploreError, NotFoundError, Sandbox } from "../../src/index.js";
import { ending, make } from "./box.js";

test("snapshot, and a sandbox that goes on from it", async () => {
  const sandbox = await make();
  const context = await sandbox.createCodeContext();
  await context.runCode("x = 41");
  const snapshot = await sandbox.snapshot();
  expect(snapshot).toMatchObject({ sandboxId: sandbox.id, template: "code-interpreter" });
  const { snapshots } = new Client();
  expect((await snapshots.list({ sandboxId: sandbox.id })).map((s) => s.id)).toEqual([snapshot.id]);
  expect(await snapshots.get(snapshot.id)).toEqual(snapshot);
  const resumed = ending(await Sandbox.create({ fromSnapshot: snapshot.id }));
  expect(resumed.info.fromSnapshot).toBe(snapshot.id);
  expect((await new CodeContext(resumed, context.id).runCode("x + 1")).text).toBe("42");
  expect((await resumed.listCodeContexts()).map((c) => c.id)).toEqual([context.id]);
  await snapshots.delete(snapshot.id);
  await expect(Sandbox.create({ fromSnapshot: snapshot.id })).rejects.toThrow(NotFoundError);
});

test("fork, fork-tree, promote", async () => {
  const sandbox = await make({ metadata: { agent: "a" } });
  const child = ending(await sandbox.fork({ metadata: { branch: "b" } }));
  expect(child.metadata).toEqual({ agent: "a", branch: "b" });
  expect(child.info).toMatchObject({ parent: sandbox.id, bootMode: "fork" });
  const tree = (await sandbox.forkTree({ count: 3 })).map(ending);
  expect(tree.map((s) => s.metadata["fork_index"])).toEqual(["0", "1", "2"]);
  const [first, winner, last] = tree.map((s) => s.id);
  const promotion = await tree[1]?.promote({ cleanupSiblings: true });
  expect(promotion).toMatchObject({ winner, failures: {} });
  expect(promotion?.deleted.sort()).toEqual([first, last].sort());
});

test("explore keeps the best, and nothing else", async () => {
  const sandbox = await make({ metadata: { test: "explore" } });
  const attempt = async (child: Sandbox, n: number) => {
    await child.exec(`test ${n} -lt 3 && echo ${n} > /tmp/n`, { check: true });
    return n;
  };
  const { winner, outcome, outcomes } = await sandbox.explore([1, 2, 3], attempt, { score: (n) => n });
  ending(winner);
  expect(outcome).toMatchObject({ candidate: 2, value: 2, score: 2, sandboxId: winner.id });
  expect(outcomes.map((o) => o.score)).toEqual([1, 2, -Infinity]);
  expect((await winner.exec("cat /tmp/n")).stdout).toBe("2\n");
  expect(await sandbox.filesystem.exists("/tmp/n")).toBe(false);
  const all = () => Sandbox.list({ metadata: { test: "explore" } });
  expect((await all()).map((s) => s.id).sort()).toEqual([sandbox.id, winner.id].sort());
  await expect(sandbox.explore([3, 4], attempt, { score: (n) => n })).rejects.toThrow(ExploreError);
  expect(await all()).toHaveLength(2);
});

test("pause, resume, hibernate, wake", async () => {
  const sandbox = await make();
  const status = async () => (await Sandbox.get(sandbox.id)).status;
  await sandbox.pause();
  expect([sandbox.status, await status()]).toEqual(["paused", "paused"]);
  await expect(sandbox.exec("true")).rejects.toThrow(ConflictError);
  expect((await Sandbox.connect(sandbox.id)).status).toBe("running");
  await sandbox.hibernate();
  expect(await status()).toBe("hibernated");
  expect((await sandbox.exec("echo woken")).stdout).toBe("woken\n");
  await sandbox.hibernate();
  expect((await Sandbox.connect(sandbox.id)).status).toBe("running");
  expect(await status()).toBe("running");
});

test("lifecycle", async () => {
  const sandbox = await make();
  expect(await sandbox.setTtl(800)).toMatchObject({ ttlSeconds: 800, persistent: false, status: "running" });
  expect(await sandbox.setPersistent(true, { idleSeconds: 400 })).toMatchObject({ persistent: true, idleSeconds: 400 });
  expect(await sandbox.lifecycle()).toEqual({ ttlSeconds: 800, persistent: true, idleSeconds: 400, status: "running" });
});
