// SPDX-License-Identifier: Apache-2.0
// What differs between Node, Deno, Bun and browsers. Modules of Node's are loaded when they are needed, by names that
// no bundler sees, so that the rest works where there are none.

interface Process {
  env?: Record<string, string | undefined>;
  versions?: { node?: string };
}

const process = (globalThis as { process?: Process }).process;

/** Node, Deno or Bun: there are files, and a request's body may be a stream. */
export const onServer = typeof process?.versions?.node === "string";

/** Of the symbol that `await using` looks for; some engines that know no such statement lack it. */
export const asyncDispose: typeof Symbol.asyncDispose =
  (Symbol as { asyncDispose?: typeof Symbol.asyncDispose }).asyncDispose ??
  (Symbol.for("Symbol.asyncDispose") as never);

/** A variable, unless it is empty or Deno forbids to read it. */
export function environment(name: string): string | undefined {
  try {
    return process?.env?.[name] || undefined;
  } catch {
    return undefined;
  }
}

/** Why a page may not ask a server: a browser does not tell it. Undefined where that is no page, or one of the server's. */
export function otherOrigin(url: string): string | undefined {
  const page = (globalThis as { location?: { origin?: string } }).location?.origin;
  if (onServer || page === undefined || page === new URL(url).origin) return undefined;
  return `this page is of ${page}, and the daemon allows pages of its own origin alone: serve both by one proxy, and give its address as apiUrl`;
}

export function importModule(name: string): Promise<unknown> {
  return import(/* @vite-ignore */ /* webpackIgnore: true */ name);
}

interface FileHandle {
  writeFile(data: Uint8Array): Promise<void>;
  close(): Promise<void>;
}

interface NodeFs {
  createReadStream(path: string): AsyncIterable<Uint8Array>;
  promises: {
    readFile(path: string, encoding: "utf8"): Promise<string>;
    stat(path: string): Promise<{ size: number }>;
    open(path: string, flags: "w"): Promise<FileHandle>;
    rename(from: string, to: string): Promise<void>;
    rm(path: string, options: { force: true }): Promise<void>;
  };
}

const nodeFs = async () => (await importModule("node:fs")) as NodeFs;

/** The text of a file; undefined where there is none. */
export async function readTextFile(path: string): Promise<string | undefined> {
  if (!onServer) return undefined;
  const { promises } = await nodeFs();
  return promises.readFile(path, "utf8").catch((error: unknown) => {
    if (["ENOENT", "ENOTDIR"].includes((error as { code: string }).code)) return undefined;
    throw error;
  });
}

/** A file's bytes, and how many there are. It is opened when the first are asked for. */
export async function openFile(path: string): Promise<{ size: number; chunks: AsyncIterable<Uint8Array> }> {
  const fs = await nodeFs();
  async function* chunks(): AsyncGenerator<Uint8Array> {
    yield* fs.createReadStream(path);
  }
  return { size: (await fs.promises.stat(path)).size, chunks: chunks() };
}

/** Makes a file of what comes. It has its name when it is whole; until then what had that name stays. */
export async function writeFile(path: string, chunks: AsyncIterable<Uint8Array>): Promise<void> {
  const { promises } = await nodeFs();
  const part = `${path}.part`;
  try {
    const file = await promises.open(part, "w");
    try {
      for await (const chunk of chunks) await file.writeFile(chunk);
    } finally {
      await file.close();
    }
    await promises.rename(part, path);
  } catch (error) {
    await promises.rm(part, { force: true });
    throw error;
  }
}
