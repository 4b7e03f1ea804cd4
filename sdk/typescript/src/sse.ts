// SPDX-License-Identifier: Apache-2.0
// Server-sent events (WHATWG HTML, section 9.2): bytes in, whole events out, wherever the bytes are cut. Lines end in LF or
// CRLF.
import { Misshapen } from "./refusals.js";

export interface ServerEvent {
  name: string;
  data: Record<string, unknown>;
}

/** The server's largest event is one of 32 MiB with every character escaped. */
const EVENT_CHARS_MAX = 256 * 1024 * 1024;

function parse(name: string, data: string): ServerEvent {
  try {
    const value: unknown = JSON.parse(data);
    if (typeof value === "object" && value !== null) return { name, data: value as Record<string, unknown> };
  } catch {
    // As any other text that is no object.
  }
  throw new Misshapen(`the data of an event ${JSON.stringify(name.slice(0, 60))} is no JSON object`);
}

export async function* serverEvents(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<ServerEvent> {
  const decoder = new TextDecoder();
  let pieces: string[] = []; // of the line that is not whole yet: a long one is not searched again for each piece
  let chars = 0; // of the event, but for what its last piece held of others
  let name = "message";
  let data: string[] = [];
  for await (const chunk of chunks) {
    const text = decoder.decode(chunk, { stream: true });
    let at = 0;
    for (let end; (end = text.indexOf("\n", at)) >= 0; at = end + 1) {
      pieces.push(text.slice(at, end));
      const line = pieces.join("").replace(/\r$/, "");
      pieces = [];
      if (line === "") {
        chars = 0;
        if (data.length > 0) yield parse(name, data.join("\n"));
        name = "message";
        data = [];
      } else if (line.startsWith("event:")) {
        name = line.slice(6).trim();
      } else if (line.startsWith("data:")) {
        data.push(line.slice(line[5] === " " ? 6 : 5));
      }
    }
    pieces.push(text.slice(at));
    chars += text.length;
    if (chars > EVENT_CHARS_MAX) throw new Misshapen("an event is too large");
  }
}
