// SPDX-License-Identifier: Apache-2.0
// What outlives sandboxes: templates and snapshots.
import type { CallOptions, Client } from "./client.js";
import type { Snapshot, Template } from "./generated.js";
import { fromWire, listFromWire } from "./names.js";

export class Templates {
  constructor(readonly client: Client) {}

  async list(options: CallOptions = {}): Promise<Template[]> {
    return listFromWire(await this.client.json("GET", "/v1/templates", options));
  }

  async get(name: string, options: CallOptions = {}): Promise<Template> {
    return fromWire(await this.client.json("GET", `/v1/templates/${encodeURIComponent(name)}`, options));
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
    return listFromWire(await this.client.json("GET", "/v1/snapshots", { ...call, query: { sandbox_id: sandboxId } }));
  }

  async get(id: string, options: CallOptions = {}): Promise<Snapshot> {
    return fromWire(await this.client.json("GET", `/v1/snapshots/${encodeURIComponent(id)}`, options));
  }

  /** Sandboxes that were made of it go on. */
  async delete(id: string, options: CallOptions = {}): Promise<void> {
    await this.client.send("DELETE", `/v1/snapshots/${encodeURIComponent(id)}`, options);
  }
}
