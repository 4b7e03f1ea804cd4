// SPDX-License-Identifier: Apache-2.0
// Files of a sandbox. Paths are absolute. Bytes stay bytes.
import type { CallOptions, Client } from "./client.js";
import { NotFoundError } from "./errors.js";
import type { FileInfo } from "./models.js";
import { listOf, memberOf, reader } from "./names.js";
import { fileOf } from "./shapes.js";
import type { ServerEvent } from "./sse.js";
import { bodyOf, counted, writeTo, type ProgressOptions, type Source, type Target } from "./transfer.js";

/** A change in a folder. */
export interface FileEvent {
  /** overflow: changes were lost, or (with a path) what is in that folder is not watched, for there are too many. */
  type: "create" | "write" | "remove" | "rename" | "chmod" | "overflow";
  /** From the folder on; empty: the folder itself. */
  path: string;
  isDir: boolean;
  /** The new name. */
  to?: string;
}
const fileEventOf = reader<FileEvent>("type", "path", "isDir");

export interface WatchOptions extends CallOptions {
  recursive?: boolean | undefined;
}

function change({ name, data }: ServerEvent): FileEvent {
  const { seq: _, ...facts } = data;
  return fileEventOf({ type: name, ...facts });
}

export class Filesystem {
  readonly #path: string;

  constructor(
    readonly client: Client,
    sandboxId: string,
  ) {
    this.#path = `/v1/sandboxes/${encodeURIComponent(sandboxId)}/fs`;
  }

  /** A file's bytes. */
  async read(path: string, options: CallOptions = {}): Promise<Uint8Array> {
    return (await this.client.request("GET", this.#path, { ...options, query: { path } })).bytes();
  }

  /** A file's text. Throws a TypeError for one that is not UTF-8. */
  async readText(path: string, options: CallOptions = {}): Promise<string> {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(await this.read(path, options));
  }

  /** Makes a file, and the folders that it is in. One that exists is replaced when the new one is whole. */
  async write(path: string, content: string | BufferSource | Blob, options: CallOptions = {}): Promise<void> {
    await this.upload(content instanceof Blob ? content : new Blob([content]), path, options);
  }

  /** Like write(), of what need not be in memory. */
  async upload(source: Source, path: string, options: CallOptions & ProgressOptions = {}): Promise<void> {
    const { onProgress, ...call } = options;
    const headers = { "content-type": "application/octet-stream" };
    const body = await bodyOf(source, { onProgress });
    await this.client.send("PUT", this.#path, { ...call, query: { path }, headers, body });
  }

  /** Like read(), into what need not be in memory. */
  async download(path: string, target: Target, options: CallOptions & ProgressOptions = {}): Promise<void> {
    const { onProgress, ...call } = options;
    const reply = await this.client.request("GET", this.#path, { ...call, query: { path } });
    const length = reply.response.headers.get("content-length");
    await writeTo(target, counted(reply.chunks(), length === null ? undefined : Number(length), { onProgress }));
  }

  async list(path = "/", options: CallOptions = {}): Promise<FileInfo[]> {
    const entries = memberOf("entries", listOf(fileOf));
    const files = await this.client.json("GET", `${this.#path}/dir`, { ...options, query: { path } }, entries);
    const folder = path.replace(/\/*$/, "/");
    return files.map((file) => ({ ...file, path: file.path ?? `${folder}${file.name}` }));
  }

  async stat(path: string, options: CallOptions = {}): Promise<FileInfo> {
    return { path, ...(await this.client.json("GET", `${this.#path}/stat`, { ...options, query: { path } }, fileOf)) };
  }

  async exists(path: string, options: CallOptions = {}): Promise<boolean> {
    try {
      await this.stat(path, options);
      return true;
    } catch (error) {
      // Not where the sandbox itself is gone.
      if (error instanceof NotFoundError && error.code === "file.not_found") return false;
      throw error;
    }
  }

  /** Makes a folder, and those that it is in. */
  async mkdir(path: string, options: CallOptions = {}): Promise<void> {
    await this.client.send("POST", `${this.#path}/mkdir`, { ...options, json: { path } });
  }

  /** Removes a file, or a folder with all that is in it. */
  async remove(path: string, options: CallOptions = {}): Promise<void> {
    await this.client.send("DELETE", this.#path, { ...options, query: { path } });
  }

  async move(from: string, to: string, options: CallOptions = {}): Promise<void> {
    await this.client.send("POST", `${this.#path}/move`, { ...options, json: { from, to } });
  }

  /** What changes in a folder from now on, until that is gone; with `recursive` also in those that are in it. */
  watch(path: string, options: WatchOptions = {}): Promise<AsyncGenerator<FileEvent, void>> {
    const { recursive, ...call } = options;
    return this.client.events(`${this.#path}/watch`, { query: { path, recursive }, ...call }, change);
  }
}
