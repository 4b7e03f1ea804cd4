// SPDX-License-Identifier: Apache-2.0
// Daemons of other versions, and what is no daemon: sdk/conformance/other-servers.json, which both SDKs go through.
import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { Sandbox, VERSION, type Client, type PandastackError } from "../../src/index.js";
import { failure, serve } from "./server.js";

interface Case {
  what: string;
  call: "get" | "list" | "follow";
  status: number;
  version?: string;
  server?: string;
  body?: object;
  text?: string;
  events?: string;
  error: string;
  says?: string[];
  is?: string;
  hides?: string;
}

const table = readFileSync(new URL("../../../conformance/other-servers.json", import.meta.url), "utf8");
const cases = JSON.parse(table.replaceAll("OWN", VERSION).replaceAll("LONG", "x".repeat(10000))) as Case[];

async function call(client: Client, how: Case["call"], sandbox: Sandbox): Promise<unknown> {
  if (how === "list") return Sandbox.list({ client, status: "running" });
  if (how === "get") return Sandbox.get("sb", { client });
  return (await sandbox.followLogs()).next();
}

test.each(cases)("$what", async (row) => {
  const type = row.body ? "application/json" : row.events === undefined ? "text/html" : "text/event-stream";
  const server = await serve((_, response) => {
    response.statusCode = row.status;
    response.setHeader("content-type", type);
    if (row.version !== undefined) response.setHeader("pandastack-version", row.version);
    if (row.server !== undefined) response.setHeader("server", row.server);
    response.end(row.events ?? row.text ?? JSON.stringify(row.body));
  });
  const error = await failure<PandastackError>(call(server.client, row.call, await server.sandbox()));
  expect(error.name, error.message).toBe(row.error);
  for (const words of row.says ?? []) expect(error.message).toContain(words);
  if (row.is !== undefined) expect(error.message).toBe(row.is);
  if (row.hides !== undefined) expect(error.message).not.toContain(row.hides);
  expect(error.message.length).toBeLessThan(1000);
});
