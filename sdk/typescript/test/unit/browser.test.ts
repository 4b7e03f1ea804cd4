// SPDX-License-Identifier: Apache-2.0
// As in a browser: the bundle holds no module of Node's, and works where there is no process.
import { runInNewContext } from "node:vm";
import { build, type Rolldown } from "vite";
import { beforeAll, expect, test } from "vitest";
import type * as sdk from "../../src/index.js";
import { event, json, serve, stream } from "./server.js";

let code: string;

beforeAll(async () => {
  const output = (await build({
    configFile: false,
    logLevel: "silent",
    build: {
      write: false,
      minify: false,
      lib: { entry: new URL("../../src/index.ts", import.meta.url).pathname, formats: ["iife"], name: "sdk" },
    },
  })) as Rolldown.RolldownOutput[];
  code = output[0]?.output[0].code ?? "";
});

/** The package, with what browsers have and nothing else. */
function load(): typeof sdk {
  const names = [
    "fetch",
    "Blob",
    "ReadableStream",
    "WritableStream",
    "TextEncoder",
    "TextDecoder",
    "URL",
    "URLSearchParams",
    "AbortController",
    "AbortSignal",
    "Response",
    "setTimeout",
    "clearTimeout",
    "Uint8Array",
    "Error",
  ];
  const globals = Object.fromEntries(names.map((name) => [name, globalThis[name as keyof typeof globalThis]]));
  return runInNewContext(`${code};sdk`, globals) as typeof sdk;
}

test("nothing of Node's is bundled or left to be found", () => {
  expect(code).toContain("class Sandbox");
  expect(code).not.toMatch(/require\(|from ["']node:|__vite-browser-external/);
});

test("a key must be given, for there is no environment", async () => {
  await expect(load().Sandbox.list({ apiUrl: "http://127.0.0.1:1" })).rejects.toThrow(/no API key/);
});

test("a command, and files, which are sent whole", async () => {
  const sent: string[] = [];
  const server = await serve((request, response) => {
    if (request.method === "PUT")
      json(response, 200, { length: sent.push(`${request.headers["content-length"]} ${request.body}`) });
    else stream(response, [event("stdout", { chunk: "hi" }), event("exit", { exit_code: 0 })]);
  });
  const { Sandbox } = load();
  const [sandbox] = await Sandbox.list({ apiUrl: server.url, apiKey: "k" });
  expect((await sandbox?.exec("echo hi"))?.stdout).toBe("hi");
  await sandbox?.filesystem.write("/f", "text");
  await sandbox?.filesystem.upload(new Blob(["stream"]).stream(), "/f");
  expect(sent).toEqual(["4 text", "6 stream"]);
});
