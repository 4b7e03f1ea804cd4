// SPDX-License-Identifier: Apache-2.0
// What outlives sandboxes: templates and snapshots.
import type { CallOptions, Client } from "./client.js";
import type { Snapshot, Template } from "./models.js";
import { listOf } from "./names.js";
import { snapshotOf, templateOf } from "./shapes.js";

export class Templates {
  constructor(readonly client: Client) {}

  async list(options: CallOptions = {}): Promise<Template[]> {
    return this.client.json("GET", "/v1/templates", options, listOf(templateOf));
  }

  async get(name: string, options: CallOptions = {}): Promise<Template> {
    return this.client.json("GET", `/v1/templates/${encodeURIComponent(name)}`, options, templateOf);
  }

  /** Refused while snapshots or sandboxes stand on it; with `force` it loses its name and leaves them what they need. */
  async delete(name: string, options: CallOptions & { force?: boolean | undefined } = {}): Promise<void> {
    const { force, ...call } = options;
    await this.client.send("DELETE", `/v1/templates/${encodeURIComponent(name)}`, { ...call, query: { force } });
  }
}

/** Sandbox.snapshot() takes one, Sandbox.create({ fromSnapshot }) goes on from it. */
export class Snapshots {
  constructor(readonly client: Client) {}

  /** Oldest first; with `sandboxId` only those of that sandbox. */
  async list(options: CallOptions & { sandboxId?: string | undefined } = {}): Promise<Snapshot[]> {
    const { sandboxId, ...call } = options;
    return this.client.json("GET", "/v1/snapshots", { ...call, query: { sandbox_id: sandboxId } }, listOf(snapshotOf));
  }

  async get(id: string, options: CallOptions = {}): Promise<Snapshot> {
    return this.client.json("GET", `/v1/snapshots/${encodeURIComponent(id)}`, options, snapshotOf);
  }

  /** Sandboxes that were made of it go on. */
  async delete(id: string, options: CallOptions = {}): Promise<void> {
    await this.client.send("DELETE", `/v1/snapshots/${encodeURIComponent(id)}`, options);
  }
}
