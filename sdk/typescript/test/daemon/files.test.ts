// SPDX-License-Identifier: Apache-2.0
import { randomBytes } from "node:crypto";
import { beforeAll, expect, test } from "vitest";
import { BadRequestError, NotFoundError, type Filesystem, type Sandbox } from "../../src/index.js";
import { makeForAll } from "./box.js";

let sandbox: Sandbox;
let fs: Filesystem;

beforeAll(async () => {
  sandbox = await makeForAll();
  fs = sandbox.filesystem;
});

const ALL = Uint8Array.from({ length: 256 }, (_, i) => i);

test.each(["é b", "-rf", "a%20b+c&d=e", "“q”'\"", "line\nbreak", "😀\u202f"])(
  "binary stays binary in a file called %j",
  async (name) => {
    const path = `/tmp/names/${name}.d/${name}`;
    await fs.write(path, ALL);
    expect(await fs.read(path)).toEqual(ALL);
    expect(await fs.list(`/tmp/names/${name}.d`)).toMatchObject([
      { name, path, size: 256, isDir: false, type: "file" },
    ]);
    expect((await fs.stat(path)).mtime).toBeGreaterThan(1_600_000_000);
    await fs.move(path, `${path} moved`);
    expect([await fs.exists(path), await fs.exists(`${path} moved`)]).toEqual([false, true]);
    await fs.remove(`/tmp/names/${name}.d`);
    expect(await fs.exists(`/tmp/names/${name}.d`)).toBe(false);
  },
);

test("text", async () => {
  await fs.write("/workspace/text", "größe\u2028☕");
  expect(await fs.readText("/workspace/text")).toBe("größe\u2028☕");
  expect((await sandbox.exec("cat /workspace/text")).stdout).toBe("größe\u2028☕");
  await fs.write("/workspace/empty", "");
  expect(await fs.readText("/workspace/empty")).toBe("");
});

test("folders", async () => {
  await fs.mkdir("/workspace/a/b");
  await fs.mkdir("/workspace/a/b");
  expect(await fs.stat("/workspace/a")).toMatchObject({ isDir: true, path: "/workspace/a" });
  expect((await fs.list()).map((file) => file.name)).toContain("etc");
});

test("20 MB up and down, in pieces, with their progress", async () => {
  const data = randomBytes(20_000_000);
  const up: number[] = [];
  const down: number[] = [];
  await fs.upload(new Blob([data]), "/tmp/large", { onProgress: (bytes) => up.push(bytes) });
  expect((await fs.stat("/tmp/large")).size).toBe(data.length);
  const got: Uint8Array[] = [];
  const sink = new WritableStream<Uint8Array>({ write: (chunk) => void got.push(chunk) });
  await fs.download("/tmp/large", sink, { onProgress: (bytes, total) => down.push(bytes / (total ?? NaN)) });
  expect(Buffer.concat(got).equals(data)).toBe(true);
  expect([up.at(-1), down.at(-1)]).toEqual([data.length, 1]);
  expect(Math.min(up.length, down.length)).toBeGreaterThan(10);
});

test("an upload that is given up leaves nothing", async () => {
  const controller = new AbortController();
  async function* endless(): AsyncGenerator<Uint8Array> {
    for (let n = 0; ; n++) {
      if (n === 100) controller.abort();
      yield await Promise.resolve(new Uint8Array(65536));
    }
  }
  await expect(fs.upload(endless(), "/tmp/half", { signal: controller.signal })).rejects.toThrow(/abort/);
  await sandbox.exec("while ls -A /tmp | grep -q half; do :; done", { timeoutSeconds: 30 });
  expect(await fs.exists("/tmp/half")).toBe(false);
});

test("what changes in a folder", async () => {
  await fs.mkdir("/workspace/watched/in");
  const changes = await fs.watch("/workspace/watched", { recursive: true });
  await fs.write("/workspace/watched/in/é", "x");
  await fs.move("/workspace/watched/in/é", "/workspace/watched/b");
  await fs.remove("/workspace/watched/b");
  const seen = [];
  for await (const change of changes) {
    seen.push(change);
    if (change.type === "remove") break;
  }
  expect(seen.at(-1)).toEqual({ type: "remove", path: "b", isDir: false });
  expect(seen).toContainEqual({ type: "rename", path: "in/é", isDir: false, to: "b" });
  const ended = await fs.watch("/workspace/watched");
  await fs.remove("/workspace/watched");
  const last = [];
  for await (const { type, path } of ended) last.push(`${type} ${path}`);
  expect(last).toEqual(["remove in", "remove "]);
  await expect(fs.watch("/no/such")).rejects.toThrow(NotFoundError);
});

test("what can't be", async () => {
  await expect(fs.read("/no/such")).rejects.toThrow(NotFoundError);
  await expect(fs.list("/no/such")).rejects.toThrow(NotFoundError);
  await expect(fs.read("/etc")).rejects.toThrow(BadRequestError);
  await expect(fs.read("relative")).rejects.toThrow(/absolute path/);
  await expect(fs.write("/proc/nothing", "x")).rejects.toThrow();
  await expect(fs.remove("/")).rejects.toThrow();
});
