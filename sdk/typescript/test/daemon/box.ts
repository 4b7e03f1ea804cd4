// SPDX-License-Identifier: Apache-2.0
// Sandboxes of a real server; PANDASTACK_API and PANDASTACK_API_KEY say where it is.
import { afterAll, onTestFinished } from "vitest";
import { Sandbox, type CreateOptions } from "../../src/index.js";

/** One that ends with the test. */
export async function make(options: CreateOptions = {}): Promise<Sandbox> {
  return ending(await Sandbox.create({ ttlSeconds: 900, ...options }));
}

export function ending(sandbox: Sandbox): Sandbox {
  onTestFinished(async () => {
    await sandbox.kill();
  });
  return sandbox;
}

/** One for a whole file. */
export async function makeForAll(options: CreateOptions = {}): Promise<Sandbox> {
  const sandbox = await Sandbox.create({ ttlSeconds: 900, ...options });
  afterAll(async () => {
    await sandbox.kill();
  });
  return sandbox;
}
