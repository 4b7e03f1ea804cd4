// SPDX-License-Identifier: Apache-2.0
// Where uploads come from and downloads go to, and how far they are.
import type { Body } from "./client.js";
import { onServer, openFile, writeFile } from "./platform.js";

/** A string is the name of a file on this machine (not in browsers). */
export type Source = string | Blob | ReadableStream<Uint8Array> | AsyncIterable<Uint8Array>;
/** Likewise. */
export type Target = string | WritableStream<Uint8Array>;

export interface ProgressOptions {
  /** After each piece: bytes so far, and in all where that is known. Not of uploads from a browser. */
  onProgress?: ((bytes: number, total: number | undefined) => unknown) | undefined;
}

const PIECE_BYTES = 256 * 1024;

async function* read(stream: ReadableStream<Uint8Array>): AsyncGenerator<Uint8Array> {
  const reader = stream.getReader();
  try {
    for (let next; !(next = await reader.read()).done;) yield next.value;
  } finally {
    await reader.cancel().catch(() => undefined);
  }
}

export async function* counted(
  chunks: AsyncIterable<Uint8Array>,
  total: number | undefined,
  { onProgress }: ProgressOptions,
): AsyncGenerator<Uint8Array> {
  let bytes = 0;
  for await (const chunk of chunks) {
    for (let at = 0; at < chunk.length; at += PIECE_BYTES) {
      const piece = chunk.subarray(at, at + PIECE_BYTES);
      yield piece;
      bytes += piece.length;
      await onProgress?.(bytes, total);
    }
  }
}

/** What a request can send. A browser sends no stream, and tells of no progress: what is none of its files is gathered. */
export async function bodyOf(source: Source, options: ProgressOptions): Promise<Body> {
  if (typeof source === "string") {
    const { size, chunks } = await openFile(source);
    return counted(chunks, size, options);
  }
  if (source instanceof Blob) return onServer ? counted(read(source.stream()), source.size, options) : source;
  const chunks = source instanceof ReadableStream ? read(source) : source;
  if (onServer) return counted(chunks, undefined, options);
  const pieces: BlobPart[] = [];
  for await (const chunk of chunks) pieces.push(chunk as Uint8Array<ArrayBuffer>);
  return new Blob(pieces);
}

export async function writeTo(target: Target, chunks: AsyncIterable<Uint8Array>): Promise<void> {
  if (typeof target === "string") return writeFile(target, chunks);
  const writer = target.getWriter();
  try {
    for await (const chunk of chunks) await writer.write(chunk);
    await writer.close();
  } catch (error) {
    await writer.abort(error).catch(() => undefined);
    throw error;
  }
}
