// SPDX-License-Identifier: Apache-2.0
import { once } from "node:events";
import { createServer, type AddressInfo } from "node:net";
import { expect, test } from "vitest";
import {
  APIConnectionError,
  APITimeoutError,
  AuthError,
  NotSupportedError,
  Sandbox,
  ServerError,
  VERSION,
  type PandastackError,
} from "../../src/index.js";
import { failure, json, serve } from "./server.js";

const INFO = { id: "a", template: "t", status: "running" };

test("the key, and a query that is escaped", async () => {
  const server = await serve((_, response) => json(response, 200, []));
  await Sandbox.list({ client: server.client, metadata: { "k ey": "a b+c&é☕" } });
  const [request] = server.requests;
  expect(request?.headers.authorization).toBe("Bearer pds_test");
  expect(new URLSearchParams(request?.url?.split("?")[1]).get("metadata.k ey")).toBe("a b+c&é☕");
});

test("ids are escaped", async () => {
  const server = await serve((_, response) => json(response, 200, INFO));
  await Sandbox.get("../x?/é", { client: server.client });
  expect(server.requests[0]?.url).toBe("/v1/sandboxes/..%2Fx%3F%2F%C3%A9");
});

test("nobody there", async () => {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, "close");
  const error = await failure(Sandbox.create({ apiUrl: `http://127.0.0.1:${port}`, apiKey: "k" }));
  expect(error).toBeInstanceOf(APIConnectionError);
  expect(error.message).toMatch(
    /can't be reached: start the server with "pandastack serve", or set PANDASTACK_API.*ECONNREFUSED/,
  );
});

test("a wrong key", async () => {
  const { client } = await serve((_, response) =>
    json(response, 401, { error: "unauthorized: no", code: "auth.unauthorized" }),
  );
  const error = await failure(Sandbox.create({ client }));
  expect(error).toBeInstanceOf(AuthError);
  expect(error.message).toMatch(/unauthorized: no. Set PANDASTACK_API_KEY/);
});

test("a path that the server does not know", async () => {
  const { client } = await serve((_, response) => json(response, 404, { error: "not found", code: "not_found" }));
  const error = await failure(Sandbox.create({ client }));
  expect(error).toBeInstanceOf(NotSupportedError);
  expect(error.message).toContain(
    `names no version, this SDK is pandastack ${VERSION}: if it is an older daemon, update`,
  );
});

test.each([
  [200, "<html>hello</html>"],
  [200, ""],
  [200, '{"id": "a", '],
])("an answer %i that is no JSON: %j", async (status, body) => {
  const { client } = await serve((_, response) => response.writeHead(status).end(body));
  const error = await failure<PandastackError>(Sandbox.get("x", { client }));
  expect(error).toBeInstanceOf(ServerError);
  expect(error.message).toMatch(/is no answer of a pandastack daemon: is PANDASTACK_API right/);
});

test.each([
  [502, "<h1>Bad gateway</h1>"],
  [404, "404 page not found"],
  [504, "Gateway Time-out"],
  [500, '"text"'],
  [503, '{"error": {"message": "nested"}}'],
  [302, ""],
])("an error %i of something else: %j", async (status, body) => {
  const { client, url } = await serve((_, response) =>
    response.writeHead(status, { location: "/elsewhere" }).end(body),
  );
  const error = await failure<PandastackError>(Sandbox.get("x", { client }));
  expect(error).toBeInstanceOf(ServerError);
  expect(error.status).toBe(status);
  expect(error.message).toContain(`HTTP ${status} from ${url}`);
  expect(error.message).toContain(JSON.stringify(body));
});

test.each(["text", null, 7, [7], { a: 7 }])("JSON of another shape: %j", async (body) => {
  const { client } = await serve((_, response) => json(response, 200, body));
  await expect(client.templates.list()).rejects.toThrow(/not what this SDK expects: no JSON (array|object)/);
  if (body?.constructor !== Object) await expect(Sandbox.get("x", { client })).rejects.toThrow(/no JSON object/);
});

test("a GET whose connection breaks is sent again; at most twice", async () => {
  let broken = 2;
  const server = await serve((request, response) =>
    broken-- > 0 ? request.socket.destroy() : json(response, 200, INFO),
  );
  expect((await Sandbox.get("a", { client: server.client })).id).toBe("a");
  expect(server.requests).toHaveLength(3);
  broken = 5;
  await expect(Sandbox.get("a", { client: server.client })).rejects.toThrow(APIConnectionError);
  expect(server.requests).toHaveLength(6);
});

test("a create is sent again with the same key, the next one with another", async () => {
  let broken = true;
  const server = await serve((request, response) => {
    if (broken) request.socket.destroy();
    else json(response, 201, INFO);
    broken = false;
  });
  await Sandbox.create({ client: server.client });
  await Sandbox.create({ client: server.client });
  const keys = server.requests.map((request) => request.headers["idempotency-key"]);
  expect(keys).toEqual([keys[0], keys[0], keys[2]]);
  expect(keys[0]).toMatch(/^[\w.]{20,255}$/);
  expect(keys[2]).not.toBe(keys[0]);
  expect(JSON.parse(server.requests[2]?.body ?? "")).toEqual({ template: "code-interpreter" });
});

test("commands, cells, forks and snapshots are sent once", async () => {
  const server = await serve((request) => request.socket.destroy());
  const sandbox = await server.sandbox();
  await expect(sandbox.exec("true")).rejects.toThrow(APIConnectionError);
  await expect(sandbox.runCode("1")).rejects.toThrow(APIConnectionError);
  await expect(sandbox.fork()).rejects.toThrow(APIConnectionError);
  await expect(sandbox.snapshot()).rejects.toThrow(APIConnectionError);
  expect(server.requests).toHaveLength(4);
});

test("an error is not sent again", async () => {
  const server = await serve((_, response) => json(response, 503, { error: "down", code: "sandbox.failed" }));
  await expect(Sandbox.get("x", { client: server.client })).rejects.toThrow("down");
  expect(server.requests).toHaveLength(1);
});

test("a server that is silent", async () => {
  const server = await serve(() => undefined, { timeoutMs: 100 });
  const error = await failure(Sandbox.get("x", { client: server.client }));
  expect(error).toBeInstanceOf(APITimeoutError);
  expect(error.message).toMatch(/silent for 0.1 s; the call may still take effect. A larger timeoutMs/);
  expect(server.requests).toHaveLength(1);
});

test("a server that falls silent in the middle of its answer", async () => {
  const { client } = await serve((_, response) => response.writeHead(200).write('{"id":'), { timeoutMs: 100 });
  await expect(Sandbox.get("x", { client })).rejects.toThrow(APITimeoutError);
});

test("a server that is slow, but not silent", async () => {
  const text = JSON.stringify(INFO);
  const trickle = (_: unknown, response: { write(text: string): unknown; end(): unknown }) => {
    let at = 0;
    const timer = setInterval(() => {
      response.write(text.slice(at, ++at));
      if (at < text.length) return;
      clearInterval(timer);
      response.end();
    }, 10);
  };
  const { client } = await serve(trickle, { timeoutMs: 300 });
  expect((await Sandbox.get("a", { client })).id).toBe("a");
});

test("half an answer", async () => {
  const { client } = await serve((_, response) => {
    response.writeHead(200, { "content-length": 100 }).write('{"id":', () => response.destroy());
  });
  const error = await failure(client.json("POST", "/", {}, String));
  expect(error).toBeInstanceOf(APIConnectionError);
  expect(error.message).toMatch(/broke in the middle of its answer/);
});

test("a signal ends a call before, in, and in the middle of its answer", async () => {
  const reason = new Error("enough");
  const server = await serve((request, response) => {
    if (request.url?.endsWith("half")) response.writeHead(200).write("{");
    controller.abort(reason);
  });
  let controller = new AbortController();
  controller.abort(reason);
  expect(await failure(Sandbox.get("x", { client: server.client, signal: controller.signal }))).toBe(reason);
  expect(server.requests).toHaveLength(0);
  for (const id of ["none", "half"]) {
    controller = new AbortController();
    expect(await failure(Sandbox.get(id, { client: server.client, signal: controller.signal }))).toBe(reason);
  }
  expect((await failure(Sandbox.list({ client: server.client, signal: AbortSignal.abort() }))).name).toBe("AbortError");
});

test("kill says whether there was one, and the end of a block minds neither", async () => {
  let status = 204;
  const server = await serve((_, response) => {
    if (status === 204) response.writeHead(204).end();
    else json(response, status, { error: "gone", code: "sandbox.not_found" });
  });
  const sandbox = await server.sandbox();
  expect(await sandbox.kill()).toBe(true);
  status = 404;
  expect(await sandbox.kill()).toBe(false);
  {
    await using again = sandbox;
    expect(again.id).toBe("box");
  }
  status = 500;
  await expect(sandbox.kill()).rejects.toThrow(ServerError);
});
