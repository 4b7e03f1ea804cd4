// SPDX-License-Identifier: Apache-2.0
// Loaded before a recipe's test: what that makes says whose it is, has a time to live, and is gone after each test; as cleanup.py.
import assert from "node:assert/strict";
import { afterEach } from "node:test";

interface Asked {
  ttl_seconds?: number;
}
interface Made extends Asked {
  id: string;
  metadata: Record<string, string>;
}
let made: Array<[Asked, Made]> = [];
let heard = false;

const send = globalThis.fetch;
globalThis.fetch = async (input, init) => {
  const response = await send(input, init);
  const { pathname } = new URL(response.url);
  if (init?.method === "POST" && pathname === "/v1/sandboxes" && response.status === 201) {
    made.push([JSON.parse(init.body as string) as Asked, (await response.clone().json()) as Made]);
    heard = true;
  }
  return response;
};

afterEach(async () => {
  for (const [asked, { id, metadata, ttl_seconds }] of made) {
    assert.equal(metadata["recipe"], process.env["RECIPE"]);
    assert.ok(asked.ttl_seconds);
    assert.equal(ttl_seconds, asked.ttl_seconds);
    const headers = { authorization: `Bearer ${process.env["PANDASTACK_API_KEY"]}` };
    const { status } = await send(`${process.env["PANDASTACK_API"]}/v1/sandboxes/${id}`, { headers });
    assert.equal(status, 404, "it was left behind");
  }
  made = [];
});

process.on("exit", () => {
  if (heard) return;
  console.error("no sandbox was seen to be made");
  process.exitCode = 1;
});
