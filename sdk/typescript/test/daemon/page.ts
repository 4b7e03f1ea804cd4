// SPDX-License-Identifier: Apache-2.0
// Pages in a real browser: a server for each, which serves the package as it is built, and a headless Chromium that opens it.
import { spawn } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer, request, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Duplex } from "node:stream";

const NAMES = ["chromium", "chromium-browser", "google-chrome"];

/** The program; undefined where there is none. */
export const chromium = (process.env["PATH"] ?? "")
  .split(":")
  .flatMap((folder) => NAMES.map((name) => join(folder, name)))
  .find((path) => existsSync(path));

const sdk = new URL("../../dist/esm/", import.meta.url).pathname;

/** `run()` of a page is its program; what that returns, or throws, is sent to the page's server. */
const html = (program: string, given: object) => `<!doctype html><title>A page</title><script type="module">
const send = (what) => fetch("/done", { method: "POST", body: JSON.stringify(what) });
try {
  const run = async (sdk, given) => { ${program} };
  await send({ said: await run(await import("/sdk/index.js"), ${JSON.stringify(given)}) });
} catch (error) {
  await send({ failed: String(error.stack ?? error) });
}
</script>`;

/** As a proxy passes it on that knows the daemon by its own address: with that as Host, and no Origin. */
function toDaemon(daemon: string, incoming: IncomingMessage) {
  const { origin: _, ...headers } = incoming.headers;
  const { host } = new URL(daemon);
  return request(new URL(incoming.url ?? "", daemon), { method: incoming.method, headers: { ...headers, host } });
}

function passOn(daemon: string, incoming: IncomingMessage, response: ServerResponse): void {
  const forwarded = toDaemon(daemon, incoming);
  forwarded.on("response", (answer) => {
    response.writeHead(answer.statusCode ?? 502, answer.headers).flushHeaders();
    answer.pipe(response);
  });
  forwarded.on("error", () => response.destroy());
  response.on("close", () => forwarded.destroy());
  incoming.pipe(forwarded);
}

function passOnSocket(daemon: string, incoming: IncomingMessage, client: Duplex): void {
  const forwarded = toDaemon(daemon, incoming);
  forwarded.on("upgrade", (answer, server) => {
    const headers = Object.entries(answer.headers).map(([name, value]) => `${name}: ${String(value)}\r\n`);
    client.write(`HTTP/1.1 101 Switching Protocols\r\n${headers.join("")}\r\n`);
    for (const [from, to] of [
      [client, server],
      [server, client],
    ] as const) {
      from.pipe(to);
      from.on("error", () => to.destroy());
    }
  });
  forwarded.on("response", () => client.destroy());
  forwarded.on("error", () => client.destroy());
  forwarded.end();
}

export interface Page {
  /** Of the page's address; leads to this machine. */
  host: string;
  program: string;
  /** What the program gets, beside the package. */
  given: object;
  /** The daemon that the page's server passes the API's requests on to. */
  daemon?: string;
}

/** Opens a page, and waits for what its program returns. */
export async function open({ host, program, given, daemon }: Page): Promise<unknown> {
  const folder = mkdtempSync(join(tmpdir(), "page-"));
  let end: (outcome: { said?: unknown; failed?: string }) => void;
  const outcome = new Promise<{ said?: unknown; failed?: string }>((resolve) => (end = resolve));
  const server = createServer((incoming, response) => {
    const path = incoming.url ?? "";
    if (path === "/done") {
      let text = "";
      incoming.on("data", (piece: Buffer) => (text += piece.toString("latin1")));
      incoming.on("end", () => {
        response.end();
        end(JSON.parse(Buffer.from(text, "latin1").toString()) as { said?: unknown });
      });
    } else if (path === "/") {
      response.setHeader("content-type", "text/html; charset=utf-8").end(html(program, given));
    } else if (/^\/sdk\/\w+\.js$/.test(path)) {
      response.setHeader("content-type", "text/javascript").end(readFileSync(join(sdk, path.slice(5))));
    } else if (daemon !== undefined && /^\/(v1|version)\b/.test(path)) {
      passOn(daemon, incoming, response);
    } else {
      response.writeHead(404).end();
    }
  });
  server.on("upgrade", (incoming: IncomingMessage, socket: Duplex) => {
    if (daemon === undefined) socket.destroy();
    else passOnSocket(daemon, incoming, socket);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const url = `http://${host}:${(server.address() as AddressInfo).port}/`;
  const flags = [
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
  ];
  const places = [`--user-data-dir=${folder}`, "--host-resolver-rules=MAP *.test 127.0.0.1"];
  const browser = spawn(chromium ?? "", [...flags, ...places, url], { stdio: ["ignore", "ignore", "pipe"] });
  let said = "";
  browser.stderr.on("data", (piece: Buffer) => (said += piece.toString()));
  const gone = new Promise<void>((resolve) => browser.on("close", () => resolve()));
  void gone.then(() => end({ failed: `the browser ended: ${said}` }));
  try {
    const { said, failed } = await outcome;
    if (failed !== undefined) throw new Error(failed);
    return said;
  } finally {
    browser.kill();
    await gone;
    server.closeAllConnections();
    server.close();
    rmSync(folder, { recursive: true, maxRetries: 5 });
  }
}
