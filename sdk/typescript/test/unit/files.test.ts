// SPDX-License-Identifier: Apache-2.0
// Uploads and downloads, and where they come from and go to.
import { randomBytes } from "node:crypto";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type AddressInfo } from "node:net";
import { once } from "node:events";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { APIConnectionError, Client, Filesystem, NotFoundError, SandboxFailed, type Source } from "../../src/index.js";
import { failure, json, serve } from "./server.js";

let folder: string;
beforeAll(() => (folder = mkdtempSync(join(tmpdir(), "sdk-"))));
afterAll(() => rmSync(folder, { recursive: true }));

const DATA = randomBytes(300_000);

/** A server that keeps what is written to it. */
async function disk() {
  const files = new Map<string, Buffer>();
  const server = await serve((request, response) => {
    const path = new URL(request.url ?? "", "http://x").searchParams.get("path") ?? "";
    const file = files.get(path);
    if (request.method === "PUT") json(response, 200, { path, bytes: files.set(path, request.bytes).size });
    else if (file) response.writeHead(200, { "content-length": file.length }).end(file);
    else json(response, 404, { error: "no such file", code: "file.not_found" });
  });
  return { files, fs: new Filesystem(server.client, "box") };
}

async function* pieces(): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < DATA.length; at += 70_000) yield await Promise.resolve(DATA.subarray(at, at + 70_000));
}

const local = () => {
  writeFileSync(join(folder, "up"), DATA);
  return join(folder, "up");
};

test.each<[string, () => Source, number | undefined]>([
  ["a local file", local, DATA.length],
  ["a Blob", () => new Blob([DATA]), DATA.length],
  ["a stream", () => new Blob([DATA]).stream(), undefined],
  ["an iterable", pieces, undefined],
])("upload of %s, with its progress", async (_, source, total) => {
  const { files, fs } = await disk();
  const told: Array<[number, number | undefined]> = [];
  await fs.upload(source(), "/a b/é&=+", { onProgress: (...progress) => told.push(progress) });
  expect(files.get("/a b/é&=+")?.equals(DATA)).toBe(true);
  expect(told.at(-1)).toEqual([DATA.length, total]);
  expect(told.map(([bytes]) => bytes)).toEqual([...new Set(told.map(([bytes]) => bytes))].sort((a, b) => a - b));
});

test.each([
  ["text", "größe", Buffer.from("größe")],
  ["bytes", new Uint8Array(DATA), DATA],
  ["a part of a buffer", DATA.subarray(10, 20), DATA.subarray(10, 20)],
  ["an ArrayBuffer", Uint8Array.from(DATA).buffer, DATA],
  ["a Blob", new Blob(["x"]), Buffer.from("x")],
  ["nothing", "", Buffer.alloc(0)],
])("write and read of %s", async (_, content, wanted) => {
  const { files, fs } = await disk();
  await fs.write("/f", content);
  expect(files.get("/f")?.equals(wanted)).toBe(true);
  expect(Buffer.from(await fs.read("/f")).equals(wanted)).toBe(true);
});

test("text is UTF-8 or an error, and its byte order mark stays", async () => {
  const { files, fs } = await disk();
  files.set("/f", Buffer.from("\ufefftext"));
  expect(await fs.readText("/f")).toBe("\ufefftext");
  files.set("/f", Buffer.from([0xff, 0xfe]));
  await expect(fs.readText("/f")).rejects.toThrow(TypeError);
});

test("download into a local file and into a stream, with its progress", async () => {
  const { files, fs } = await disk();
  files.set("/f", DATA);
  let last: unknown[] = [];
  await fs.download("/f", join(folder, "down"), { onProgress: (...progress) => (last = progress) });
  expect(readFileSync(join(folder, "down")).equals(DATA)).toBe(true);
  expect(last).toEqual([DATA.length, DATA.length]);
  const got: Uint8Array[] = [];
  await fs.download("/f", new WritableStream<Uint8Array>({ write: (chunk) => void got.push(chunk) }));
  expect(Buffer.concat(got).equals(DATA)).toBe(true);
});

test("a download that breaks leaves the file that was there, and no other", async () => {
  const { client } = await serve((_, response) => {
    response.writeHead(200, { "content-length": DATA.length }).write(DATA.subarray(0, 1000), () => response.destroy());
  });
  const target = join(folder, "kept");
  writeFileSync(target, "old");
  await expect(new Filesystem(client, "box").download("/f", target)).rejects.toThrow(APIConnectionError);
  expect(readFileSync(target, "utf8")).toBe("old");
  expect(existsSync(`${target}.part`)).toBe(false);
  let aborted: unknown;
  const sink = new WritableStream<Uint8Array>({ abort: (why: unknown) => void (aborted = why) });
  await expect(new Filesystem(client, "box").download("/f", sink)).rejects.toThrow(APIConnectionError);
  expect(aborted).toBeInstanceOf(APIConnectionError);
});

test("a download to where nothing can be written says so", async () => {
  const { files, fs } = await disk();
  files.set("/f", DATA);
  await expect(fs.download("/f", join(folder, "no/such/folder"))).rejects.toThrow(/ENOENT/);
});

test("what fails in an upload's source is what the caller gets", async () => {
  const { fs } = await disk();
  const reason = new Error("the source broke");
  async function* broken(): AsyncGenerator<Uint8Array> {
    yield await Promise.resolve(DATA);
    throw reason;
  }
  expect(await failure(fs.upload(broken(), "/f"))).toBe(reason);
  await expect(fs.upload(join(folder, "nothing"), "/f")).rejects.toThrow(/ENOENT/);
});

test("an upload that is given up reads no further", async () => {
  const { fs } = await disk();
  const controller = new AbortController();
  const reason = new Error("enough");
  let closed = false;
  async function* endless(): AsyncGenerator<Uint8Array> {
    try {
      for (let n = 0; ; n++) {
        if (n === 10) controller.abort(reason);
        yield await Promise.resolve(DATA);
      }
    } finally {
      closed = true;
    }
  }
  expect(await failure(fs.upload(endless(), "/f", { signal: controller.signal }))).toBe(reason);
  expect(closed).toBe(true);
});

test("an upload is refused before its end", async () => {
  const server = createServer((socket) => {
    socket.once("data", () => {
      const body = '{"error":"gone","code":"sandbox.failed"}';
      socket.end(
        `HTTP/1.1 503 x\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\nconnection: close\r\n\r\n${body}`,
      );
    });
    socket.on("error", () => undefined);
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  const port = (server.address() as AddressInfo).port;
  const fs = new Filesystem(new Client({ apiUrl: `http://127.0.0.1:${port}`, apiKey: "k" }), "box");
  await expect(fs.upload(pieces(), "/f")).rejects.toThrow(SandboxFailed);
  server.close();
});

test("a slow source is not the server's silence, a server that takes nothing is", async () => {
  const { fs, files } = await disk();
  async function* slow(): AsyncGenerator<Uint8Array> {
    for (const text of ["a", "b"]) {
      await new Promise((resolve) => setTimeout(resolve, 150));
      yield Buffer.from(text);
    }
  }
  await fs.upload(slow(), "/f", { timeoutMs: 100 });
  expect(files.get("/f")?.toString()).toBe("ab");
  const { client } = await serve(() => undefined);
  await expect(new Filesystem(client, "box").upload(pieces(), "/f", { timeoutMs: 100 })).rejects.toThrow(/silent/);
});

test("a list has paths", async () => {
  const entry = { name: "a", is_dir: false, size: 1, mode: "0644", mtime: 7 };
  const server = await serve((_, response) => json(response, 200, { entries: [entry, { ...entry, path: "/x/y" }] }));
  const fs = new Filesystem(server.client, "box");
  for (const path of ["/w", "/w/"]) expect((await fs.list(path)).map((file) => file.path)).toEqual(["/w/a", "/x/y"]);
  expect((await fs.list())[0]).toEqual({ name: "a", isDir: false, size: 1, mode: "0644", mtime: 7, path: "/a" });
});

test("a file that is not there, and a sandbox that is not", async () => {
  let code = "file.not_found";
  const { client } = await serve((_, response) => json(response, 404, { error: "no", code }));
  const fs = new Filesystem(client, "box");
  expect(await fs.exists("/f")).toBe(false);
  await expect(fs.stat("/f")).rejects.toThrow(NotFoundError);
  code = "sandbox.not_found";
  await expect(fs.exists("/f")).rejects.toThrow(NotFoundError);
});
