// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { Misshapen } from "../../src/refusals.js";
import { serverEvents, type ServerEvent } from "../../src/sse.js";

async function read(pieces: Uint8Array[]): Promise<ServerEvent[]> {
  async function* chunks(): AsyncGenerator<Uint8Array> {
    yield* await Promise.resolve(pieces);
  }
  const events = [];
  for await (const event of serverEvents(chunks())) events.push(event);
  return events;
}

const bytes = (text: string) => new TextEncoder().encode(text);

const STREAM =
  ': ping\n\nevent: stdout\ndata: {"chunk":"é ☕ 😀 \\u2028"}\n\n: ping\n\ndata:{"a":\ndata: 1}\n\nevent: nothing\n\nid: 7\nevent:exit\ndata: {"exit_code":0}\n\n';
const EVENTS = [
  { name: "stdout", data: { chunk: "é ☕ 😀 \u2028" } },
  { name: "message", data: { a: 1 } },
  { name: "exit", data: { exit_code: 0 } },
];

test.each([
  ["LF", STREAM],
  ["CRLF", STREAM.replaceAll("\n", "\r\n")],
])("a stream with %s is the same wherever it is cut", async (_, text) => {
  const all = bytes(text);
  for (let at = 0; at <= all.length; at++) expect(await read([all.subarray(0, at), all.subarray(at)])).toEqual(EVENTS);
  expect(await read([...all].map((byte) => Uint8Array.of(byte)))).toEqual(EVENTS);
});

test("what is not whole at the end is no event", async () => {
  expect(await read([bytes('event: exit\ndata: {"exit_code":0}\n')])).toEqual([]);
});

test.each(["data: text\n\n", "data: 1\n\n", "data: null\n\n", 'data: {"a":\n\n'])("%j is refused", async (text) => {
  await expect(read([bytes(text)])).rejects.toThrow(Misshapen);
});

test("a large event takes linear time, and one without end is refused", async () => {
  const piece = bytes("x".repeat(1 << 20));
  const large = [bytes('data: {"a":"'), ...Array.from({ length: 64 }, () => piece), bytes('"}\n\n')];
  expect(JSON.stringify((await read(large))[0]?.data)).toHaveLength(64 * piece.length + 8);
  await expect(read(Array.from({ length: 300 }, () => piece))).rejects.toThrow(/too large/);
  const lines = bytes(`data: ${"x".repeat(1 << 20)}\n`);
  await expect(read(Array.from({ length: 300 }, () => lines))).rejects.toThrow(/too large/);
});
