// SPDX-License-Identifier: Apache-2.0
import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { generate } from "../../scripts/generate.mjs";
import * as sdk from "../../src/index.js";
import { event, failure, json, serve, stream } from "./server.js";

const root = new URL("../../", import.meta.url);
const text = (path: string) => readFileSync(new URL(path, root), "utf8");

test("what is generated is up to date: npm run generate", async () => {
  expect(text("src/generated.ts")).toBe(await generate());
});

test("the version is the package's", () => {
  expect((JSON.parse(text("package.json")) as { version: string }).version).toBe(sdk.VERSION);
});

/** The classes by their code, where the status alone does not say it. */
const BY_CODE: Record<string, keyof typeof sdk> = {
  not_found: "NotSupportedError",
  "request.method": "NotSupportedError",
  "sandbox.failed": "SandboxFailed",
};
const BY_STATUS: Record<number, keyof typeof sdk> = {
  401: "AuthError",
  403: "AuthError",
  404: "NotFoundError",
  409: "ConflictError",
  429: "LimitError",
  501: "NotSupportedError",
  504: "SandboxTimeout",
};

const rows = [...text("../../api/errors.def").matchAll(/^X\((\w+), "([\w.]+)", (\d+), \d+, "(.+)"\)$/gm)].map(
  (row) => ({
    code: row[2] as string,
    status: Number(row[3]),
    message: row[4] as string,
  }),
);

test("all rows of api/errors.def are read", () => {
  expect(rows).toHaveLength(text("../../api/errors.def").match(/^X\(/gm)?.length ?? 0);
});

test.each(rows)("$code in an answer and in a stream", async ({ code, status, message }) => {
  const kind = sdk[BY_CODE[code] ?? BY_STATUS[status] ?? (status < 500 ? "BadRequestError" : "ServerError")];
  const body = { error: message, code, request_id: "req-9", details: { a: 1 } };
  const { client } = await serve((_, response) => json(response, status, body));
  const answered = await failure<sdk.PandastackError>(sdk.Sandbox.get("x", { client }));
  expect(answered.constructor).toBe(kind);
  expect(answered).toMatchObject({ status, code, requestId: "req-9", details: { a: 1 } });
  expect(answered.message).toContain(message);

  const streaming = await serve((_, response) => stream(response, [event("error", { error: message, code })]));
  const streamed = await failure<sdk.PandastackError>((await streaming.sandbox()).exec("true"));
  expect(streamed.constructor).toBe(kind);
  expect(streamed).toMatchObject({ status, code, requestId: "req-1" });
});

test("the tree", () => {
  for (const name of [
    "AuthError",
    "NotFoundError",
    "BadRequestError",
    "ServerError",
    "SandboxTimeout",
    "ConfigError",
  ] as const)
    expect(new sdk[name]("x")).toBeInstanceOf(sdk.PandastackError);
  expect(new sdk.ConflictError("x")).toBeInstanceOf(sdk.BadRequestError);
  expect(new sdk.LimitError("x")).toBeInstanceOf(sdk.BadRequestError);
  expect(new sdk.SandboxFailed("x")).toBeInstanceOf(sdk.ServerError);
  expect(new sdk.NotSupportedError("x")).toBeInstanceOf(sdk.ServerError);
  expect(new sdk.ExecInterrupted("x")).toBeInstanceOf(sdk.APIConnectionError);
  expect(new sdk.APITimeoutError("x")).toBeInstanceOf(sdk.APIConnectionError);
  expect(new sdk.NotFoundError("x").name).toBe("NotFoundError");
});

test("a code that this SDK does not know goes by its status", async () => {
  const { client } = await serve((_, response) => json(response, 418, { error: "teapot", code: "constructor" }));
  const error = await failure(sdk.Sandbox.get("x", { client }));
  expect(error).toBeInstanceOf(sdk.BadRequestError);
  expect(error).toMatchObject({ code: "constructor", status: 418, message: "teapot" });
});
