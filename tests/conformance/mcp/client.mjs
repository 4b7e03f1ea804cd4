// SPDX-License-Identifier: Apache-2.0
// The official TypeScript clients of MCP, unmodified, in all that a client does with pandastack. From the environment:
// CLIENT (the package), ERA (what it is told to speak), TRANSPORT, and where the daemon is.
import assert from "node:assert/strict";
import { createHash, randomBytes } from "node:crypto";

const { CLIENT, ERA, TRANSPORT, PROGRAM, PANDASTACK_API, PANDASTACK_API_KEY } = process.env;
const http = {
  url: new URL(`${PANDASTACK_API}/mcp`),
  options: { requestInit: { headers: { Authorization: `Bearer ${PANDASTACK_API_KEY}` } } },
};
const stdio = { command: PROGRAM, args: ["mcp"], env: process.env };
const identity = { name: "conformance", version: "1.0.0" };

// @modelcontextprotocol/client: ERA is legacy, auto, or the version that it must be.
async function connectNew() {
  const { Client, StreamableHTTPClientTransport } = await import("@modelcontextprotocol/client");
  const { StdioClientTransport } = await import("@modelcontextprotocol/client/stdio");
  const mode = ERA.startsWith("20") ? { pin: ERA } : ERA;
  const client = new Client(identity, { versionNegotiation: { mode } });
  const transport =
    TRANSPORT === "stdio" ? new StdioClientTransport(stdio) : new StreamableHTTPClientTransport(http.url, http.options);
  await client.connect(transport);
  const call = (name, args = {}, options = {}) => client.callTool({ name, arguments: args }, options);
  return { client, transport, call, version: client.getNegotiatedProtocolVersion() };
}

// @modelcontextprotocol/sdk, as most clients that people have installed are built on.
async function connectOld() {
  const { Client } = await import("@modelcontextprotocol/sdk/client/index.js");
  const { StdioClientTransport } = await import("@modelcontextprotocol/sdk/client/stdio.js");
  const { StreamableHTTPClientTransport } = await import("@modelcontextprotocol/sdk/client/streamableHttp.js");
  const client = new Client(identity);
  const transport =
    TRANSPORT === "stdio" ? new StdioClientTransport(stdio) : new StreamableHTTPClientTransport(http.url, http.options);
  let version = "2025-11-25";
  if (TRANSPORT !== "stdio") {
    const set = transport.setProtocolVersion.bind(transport);
    transport.setProtocolVersion = (v) => set((version = v));
  }
  await client.connect(transport);
  const call = (name, args = {}, options = {}) => client.callTool({ name, arguments: args }, undefined, options);
  return { client, transport, call, version };
}

const { client, transport, call, version } = await (CLIENT.endsWith("/sdk") ? connectOld() : connectNew());
const text = (result) => result.content.filter((c) => c.type === "text").map((c) => c.text).join("\n");
const modern = version === "2026-07-28";
assert.equal(version, ERA === "legacy" ? "2025-11-25" : "2026-07-28");
if (!ERA.startsWith("20")) assert.equal(client.getServerVersion().name, "pandastack");

const { tools } = await client.listTools();
assert.ok(tools.length >= 11);
for (const tool of tools) assert.ok(tool.description && tool.inputSchema.type === "object" && tool.outputSchema);

// State: of a session, or of the sandbox that is named.
const first = await call("run_code", { code: "x = 6 * 7\nprint('out')\nx" });
assert.deepEqual([first.structuredContent.text, first.structuredContent.stdout], ["42", "out\n"]);
const sandbox_id = first.structuredContent.sandbox_id;
const where = modern && TRANSPORT !== "stdio" ? { sandbox_id } : {};
assert.equal((await call("run_code", { code: "x + 1", ...where })).structuredContent.text, "43");

// An image; a traceback.
const plot = "import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()";
const images = (await call("run_code", { code: plot, ...where }, { timeout: 120_000 })).content.filter(
  (c) => c.type === "image",
);
assert.deepEqual(images.map((i) => i.mimeType), ["image/png"]);
assert.equal(Buffer.from(images[0].data, "base64").subarray(1, 4).toString(), "PNG");
const failed = await call("run_code", { code: "1/0", ...where });
assert.equal(failed.isError, true);
assert.match(text(failed), /ZeroDivisionError/);
assert.match(text(await call("read_file", { path: "relative", ...where })), /absolute/);

// Progress.
const seen = [];
const steps = "import time\nfor i in range(4):\n    print('step', i, flush=True)\n    time.sleep(0.4)";
const stepped = await call("run_code", { code: steps, ...where }, { onprogress: (p) => seen.push(p) });
assert.match(stepped.structuredContent.stdout, /step 3/);
assert.ok(seen.length >= 2, `${seen.length}`);
seen.reduce((a, b) => (assert.ok(a.progress < b.progress), b));
assert.match(seen[0].message, /^step \d$/);

// Cancellation: the kernel takes the next cell, because the endless one was ended; its variables are there.
const stop = new AbortController();
const endless = { code: "print('go', flush=True)\nwhile True: pass", timeout_seconds: 3000, ...where };
await assert.rejects(
  call("run_code", endless, { signal: stop.signal, onprogress: () => stop.abort("enough"), timeout: 120_000 }),
);
assert.equal((await call("run_code", { code: "x", ...where })).structuredContent.text, "42");

// Files: up by a tool, down as a resource; what cannot be read is an error of the protocol.
const bytes = randomBytes(1 << 20);
const path = "/workspace/é b.bin";
const wrote = await call("write_file", { path, content: bytes.toString("base64"), encoding: "base64", ...where });
assert.equal(wrote.structuredContent.bytes, bytes.length);
const [resource] = (await call("read_file", { path, ...where })).content.map((c) => c.resource);
const [down] = (await client.readResource({ uri: resource.uri })).contents;
const sha256 = (b) => createHash("sha256").update(b).digest("hex");
assert.equal(sha256(Buffer.from(down.blob, "base64")), sha256(bytes));
const { resourceTemplates } = await client.listResourceTemplates();
assert.deepEqual(resourceTemplates.map((t) => t.uriTemplate), ["sandbox://{sandbox_id}{+path}"]);
assert.deepEqual((await client.listResources()).resources, []);
await assert.rejects(client.readResource({ uri: `sandbox://${sandbox_id}/nothing` }), /no such file/i);
await assert.rejects(call("no_such_tool"), /tools\/list|no_such_tool/);

if (where.sandbox_id) await call("delete_sandbox", where);
else if (TRANSPORT !== "stdio") await transport.terminateSession();
await client.close();
console.log(version);
