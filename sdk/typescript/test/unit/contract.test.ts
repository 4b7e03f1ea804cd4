// SPDX-License-Identifier: Apache-2.0
// Every call of the SDK against api/openapi.yaml: its route is there, takes what is sent, and no route is forgotten.
import { readFileSync } from "node:fs";
import { beforeAll, expect, test } from "vitest";
import { parse } from "yaml";
import { Client, CodeContext, Sandbox } from "../../src/index.js";
import { event, failure, json, serve, stream, type Loopback, type Request } from "./server.js";

interface Schema {
  $ref?: string;
  allOf?: Schema[];
  oneOf?: Schema[];
  properties?: Record<string, Schema>;
  required?: string[];
}
interface Operation {
  parameters?: Array<{ $ref?: string; name: string; in: string }>;
  requestBody?: { $ref?: string; content: Record<string, { schema: Schema }> };
}
interface Document {
  paths: Record<string, Record<string, Operation>>;
  components: Record<string, Record<string, unknown>>;
}

const api = parse(readFileSync(new URL("../../../../api/openapi.yaml", import.meta.url), "utf8")) as Document;

/** Routes that are for people and other programs. */
const NOT_OURS = [
  "GET /healthz",
  "GET /metrics",
  "GET /v1/engines",
  "GET /v1/me",
  "GET /v1/me/tokens",
  "GET /v1/repl/languages",
  "GET /v1/sandboxes/{id}/exec/ws",
  "GET /v1/sandboxes/{id}/ports/{port}/tunnel",
  "GET /v1/sandboxes/{id}/ssh",
  "GET /v1/snapshots/{sid}/export",
  "POST /v1/gc",
  "POST /v1/sandboxes/{id}/preview",
  "POST /v1/sandboxes/{id}/start",
  "POST /v1/sandboxes/{id}/stop",
  "POST /v1/snapshots/import",
  // Clients of the Model Context Protocol have libraries of their own (docs/mcp.md).
  "POST /mcp",
  "DELETE /mcp",
  "POST /v1/mcp",
  "DELETE /v1/mcp",
  "POST /v1/sandboxes/{id}/mcp",
];

function resolve<T>(value: T & { $ref?: string }): T {
  if (!value.$ref) return value;
  const [, , kind, name] = value.$ref.split("/") as [string, string, string, string];
  return api.components[kind]?.[name] as T;
}

function merged(schema: Schema): { properties: Record<string, Schema>; required: string[] } {
  const { properties = {}, required = [], allOf = [], oneOf = [] } = resolve(schema);
  const parts = [...allOf, ...oneOf].map(merged);
  return {
    properties: Object.assign({}, properties, ...parts.map((part) => part.properties)) as Record<string, Schema>,
    required: [...required, ...parts.flatMap((part) => part.required)],
  };
}

const routes = Object.entries(api.paths).flatMap(([path, operations]) =>
  Object.entries(operations)
    .filter(([method]) => /^(get|post|put|patch|delete)$/.test(method))
    .map(([method, operation]) => ({
      name: `${method.toUpperCase()} ${path}`,
      method: method.toUpperCase(),
      pattern: new RegExp(`^${path.replace(/\{\w+\}/g, "[^/]+")}$`),
      operation,
      shared: (operations as unknown as Operation).parameters ?? [],
    })),
);

const MEMBERS = Object.values(api.components["schemas"] ?? {}).flatMap((schema) =>
  Object.keys(merged(schema as Schema).properties),
);
const INFO = {
  ...Object.fromEntries(MEMBERS.map((name) => [name, name])),
  id: "box",
  status: "running",
  metadata: { fork_tree_id: "t" },
};

/** An answer that each call can take. */
function answer(method: string, path: string): unknown {
  if (method === "GET" && /\/(sandboxes|templates|snapshots|sessions|processes|ports)$/.test(path)) return [];
  const members = { egress: "public", interrupted: true, url: "u", winner: "w", tree_id: "t", exit_code: 0 };
  return { ...INFO, sandbox: INFO, children: [INFO, INFO], ...members, entries: [], events: [], status: "ok" };
}

async function callAll(client: Client): Promise<void> {
  const network = { egress: { allow: ["a"], deny: ["b"] }, bytesPerSecond: 1024 };
  const all = {
    template: "t",
    ttlSeconds: 1,
    persistent: true,
    idleSeconds: 1,
    metadata: { A_b: "c" },
    env: { D_e: "f" },
    network,
  };
  await client.version();
  await client.templates.list();
  await client.templates.get("t");
  await client.templates.delete("t", { force: true });
  await client.snapshots.list({ sandboxId: "s" });
  await client.snapshots.get("s");
  await client.snapshots.delete("s");
  await Sandbox.create({ client, ...all });
  await Sandbox.create({ client, fromSnapshot: "s" });
  await Sandbox.list({ client, metadata: { a: "b" }, status: "paused" });
  const box = await Sandbox.get("box", { client });
  await Sandbox.connect("box", { client });
  await box.refresh();
  await box.exec("c", { cwd: "/", env: { A: "b" }, stdin: "i", user: "u", timeoutSeconds: 1 });
  await failure(box.openPty({ cmd: "c", cwd: "/", user: "u", onData: () => undefined })); // no WebSocket is served
  const context = await box.createCodeContext({ language: "bash", cwd: "/", env: { A: "b" } });
  await box.listCodeContexts();
  await new CodeContext(box, "c").runCode("c", {
    timeoutSeconds: 1,
    env: { A: "b" },
    detach: true,
    onInput: () => "a",
  });
  await context.interrupt();
  await context.restart();
  await context.close();
  await box.runCode("c", { language: "bash", timeoutSeconds: 1, env: { A: "b" } });
  await box.filesystem.write("/f", "c");
  await box.filesystem.read("/f");
  await box.filesystem.list("/d");
  await box.filesystem.stat("/f");
  await box.filesystem.mkdir("/d");
  await box.filesystem.move("/a", "/b");
  await box.filesystem.remove("/d");
  await box.snapshot();
  await box.fork({ metadata: { a: "b" } });
  await box.forkTree({ count: 2, metadata: { a: "b" } });
  await box.promote({ cleanupSiblings: true, treeId: "t" });
  await box.pause();
  await box.resume();
  await box.hibernate();
  await box.wake();
  await box.network();
  await box.setNetwork(network);
  await box.metrics();
  await box.events({ tail: 1, since: "2026-01-01T00:00:00Z" });
  await box.followEvents({ tail: 1 });
  await box.logs({ stream: "stdout", tail: 1 });
  await box.followLogs({ stream: "console", tail: 1 });
  await box.filesystem.watch("/d", { recursive: true });
  await box.ports();
  await box.labelPort(80, "web");
  await box.unlabelPort(80);
  await box.previewUrl(80, { ttlSeconds: 1, paths: ["/a"] });
  const process = await box.commands.start("c", {
    cwd: "/",
    env: { A: "b" },
    stdin: true,
    user: "u",
    timeoutSeconds: 1,
  });
  await box.commands.list();
  await box.commands.get(7);
  await process.refresh();
  await process.wait({ seconds: 1 });
  await process.stream();
  await process.write("x", { eof: true });
  await process.sendSignal("INT");
  await process.kill();
  await box.lifecycle();
  await box.setTtl(1);
  await box.setPersistent(true, { idleSeconds: 1 });
  await box.kill();
}

let server: Loopback;

beforeAll(async () => {
  let asked = false;
  server = await serve((request, response) => {
    const path = request.url?.split("?")[0] ?? "";
    const question = path.endsWith("/run") && !asked ? [event("input_request", {})] : [];
    asked ||= question.length > 0;
    if (/\/(run|stream)$/.test(path) || request.headers.accept === "text/event-stream")
      stream(response, [...question, event("exit", {})]);
    else json(response, 200, answer(request.method ?? "", path));
  });
  await callAll(server.client);
});

/** The name of the route that takes it. */
function check(request: Request): string {
  const url = new URL(request.url ?? "", "http://x");
  const route = routes.find((r) => r.method === request.method && r.pattern.test(url.pathname));
  if (!route) throw new Error(`${request.method} ${url.pathname} is not in the contract`);
  const parameters = [...route.shared, ...(route.operation.parameters ?? [])].map(resolve);
  url.searchParams.delete("access_token"); // any route takes it
  const known = parameters.filter((p) => p.in === "query").map((p) => p.name.replace("KEY", "a"));
  for (const name of url.searchParams.keys()) expect(known, `${route.name}?${name}`).toContain(name);
  if (request.headers["content-type"] === "application/json") {
    const schema =
      route.operation.requestBody && resolve(route.operation.requestBody).content["application/json"]?.schema;
    if (!schema) throw new Error(`${route.name} takes no JSON`);
    const { properties, required } = merged(schema);
    const sent = Object.keys(JSON.parse(request.body) as object);
    expect(Object.keys(properties), route.name).toEqual(expect.arrayContaining(sent));
    expect(sent, route.name).toEqual(expect.arrayContaining(required));
  }
  return route.name;
}

test("all that is sent is in the contract, and all of the contract is called", () => {
  const called = new Set(server.requests.map(check));
  const left = routes.map((route) => route.name).filter((name) => !called.has(name));
  expect(left.filter((name) => !NOT_OURS.includes(name))).toEqual([]);
  expect(NOT_OURS.filter((name) => called.has(name))).toEqual([]);
});

test("keys that are data are sent as they are", () => {
  const create = server.requests.find((request) => request.method === "POST" && request.url === "/v1/sandboxes");
  expect(JSON.parse(create?.body ?? "")).toMatchObject({
    metadata: { A_b: "c" },
    env: { D_e: "f" },
    network: { egress: { allow: ["a"], deny: ["b"] }, bytes_per_second: 1024 },
  });
});
