// SPDX-License-Identifier: Apache-2.0
// The package in a browser, of a page that the daemon's proxy serves (docs/sdk-typescript.md), and of one that another
// server does.
import { expect, test } from "vitest";
import { Sandbox } from "../../src/index.js";
import { chromium, open } from "./page.js";

if (!chromium) console.warn("no chromium is here, so the package is not tried in a browser: apt-get install chromium");

const daemon = () => process.env["PANDASTACK_API"] ?? "";
const key = () => process.env["PANDASTACK_API_KEY"] ?? "";

const PROGRAM = `
const { Client, Sandbox } = sdk;
const client = new Client({ apiUrl: location.origin, apiKey: given.key });
const sandbox = await Sandbox.create({ client, ttlSeconds: 900, metadata: { page: "é" } });
const said = {};
try {
  const ctx = await sandbox.createCodeContext();
  const heard = [];
  const cell = await ctx.runCode("import sys\\nfor i in range(3): print(i, 'ö')\\nprint('err', file=sys.stderr); 6 * 7", {
    onStdout: (chunk) => heard.push(chunk),
    onStderr: (chunk) => heard.push(chunk),
    onResult: (result) => heard.push(result.text),
  });
  said.cell = [heard.join(""), cell.text];

  const drawn = await ctx.runCode("import matplotlib.pyplot as plt; plt.figure(figsize=(4, 3), dpi=50); plt.plot([1, 2]); plt.show()");
  const image = document.body.appendChild(new Image());
  image.src = drawn.forModel().pictures[0].url;
  await image.decode();
  said.chart = [drawn.png.slice(0, 5), image.naturalWidth > 100, drawn.results[0].chart.type];

  const bytes = Uint8Array.from({ length: 300000 }, (_, i) => i % 256);
  const { filesystem } = sandbox;
  await filesystem.write("/workspace/a b.bin", bytes);
  await filesystem.upload(new File([bytes], "name"), "/workspace/file");
  await filesystem.upload(new Blob([bytes]).stream(), "/workspace/stream");
  const parts = [];
  const progress = [];
  const target = new WritableStream({ write: (part) => void parts.push(part) });
  await filesystem.download("/workspace/stream", target, { onProgress: (done, total) => progress.push(done / total) });
  const reads = [await filesystem.read("/workspace/a b.bin"), await filesystem.read("/workspace/file")];
  reads.push(new Uint8Array(await new Blob(parts).arrayBuffer()));
  said.files = [...reads.map((read) => String(read) === String(bytes)), progress.at(-1), await filesystem.exists("/no")];

  const chunks = [];
  const code = await sandbox.execStream("echo 1; until [ -e /tmp/heard ]; do sleep 0.1; done; echo 2; exit 3", {
    onStdout: (chunk) => {
      chunks.push(chunk);
      return filesystem.write("/tmp/heard", "");
    },
  });
  said.exec = [chunks, code];

  const process = await sandbox.commands.start("read x; echo got $x", { stdin: true });
  await process.write("é\\n");
  let got = "";
  said.process = [await process.stream({ onStdout: (chunk) => (got += chunk) }), got];

  const decoder = new TextDecoder();
  let shown = "";
  const pty = await sandbox.openPty({
    cmd: "read x; echo got $x; stty size; exit 5",
    rows: 40,
    cols: 100,
    onData: (data) => (shown += decoder.decode(data, { stream: true })),
  });
  pty.write("é☕\\n");
  said.pty = [await pty.wait(), shown.trimEnd().split("\\r\\n").slice(-2)];
  said.refused = await sandbox.openPty({ rows: 0, onData: () => {} }).catch((error) => [error.name, error.code]);

  const controller = new AbortController();
  const aborted = sandbox.exec("echo up; sleep 300", { signal: controller.signal, onStdout: () => controller.abort() });
  said.aborted = [await aborted.catch((error) => error.name)];
  const late = ctx.runCode("while True: pass", { signal: AbortSignal.timeout(500) });
  said.aborted.push(await late.catch((error) => error.name), (await ctx.runCode("6 * 7")).text);

  // A browser has six connections to a server.
  const followed = [];
  while (followed.length < 6) followed.push(await sandbox.followEvents());
  const waits = await sandbox.refresh({ timeoutMs: 1000 }).catch((error) => error.name);
  await Promise.all(followed.map((events) => events.return()));
  said.connections = [waits, (await sandbox.refresh()).status];
} finally {
  said.killed = [await sandbox.kill(), await sandbox.kill()];
}
said.gone = await sandbox.exec("true").catch((error) => [error.name, error.code, error.requestId.length]);
return said;
`;

test.skipIf(!chromium)("a page of the daemon's own origin", async () => {
  expect(await open({ host: "app.test", program: PROGRAM, given: { key: key() }, daemon: daemon() })).toEqual({
    cell: ["0 ö\n1 ö\n2 ö\nerr\n42", "42"],
    chart: ["iVBOR", true, "line"],
    files: [true, true, true, 1, false],
    exec: [["1\n", "2\n"], 3],
    process: [0, "got é\n"],
    pty: [5, ["got é☕", "40 100"]],
    refused: ["BadRequestError", "request.invalid"],
    aborted: ["AbortError", "TimeoutError", "42"],
    connections: ["APITimeoutError", "running"],
    killed: [true, false],
    gone: ["NotFoundError", "sandbox.not_found", 24],
  });
});

const FOREIGN = `
const { Sandbox } = sdk;
const call = { apiUrl: given.daemon, apiKey: given.key };
const errors = [await Sandbox.create(call).catch((error) => error), await Sandbox.list(call).catch((error) => error)];
const path = given.daemon.replace("http", "ws") + "/v1/sandboxes/" + given.id + "/exec/pty?rows=24&cols=80&access_token=";
const socket = new WebSocket(path + given.key);
const opened = await new Promise((resolve) => {
  socket.onopen = () => resolve("open");
  socket.onerror = () => resolve("refused");
});
return { errors: errors.map(({ name, message }) => [name, message]), opened, origin: location.origin };
`;

test.skipIf(!chromium)("a page of another origin, which has the key, is refused, and told why", async () => {
  const sandbox = await Sandbox.create({ template: "base", ttlSeconds: 900 });
  const before = (await Sandbox.list()).length;
  const given = { key: key(), daemon: daemon(), id: sandbox.id };
  const { errors, opened, origin } = (await open({ host: "foreign.test", program: FOREIGN, given })) as {
    errors: Array<[string, string]>;
    opened: string;
    origin: string;
  };
  expect(opened).toBe("refused");
  expect(errors).toHaveLength(2);
  for (const [name, message] of errors) {
    expect(name).toBe("APIConnectionError");
    expect(message).toContain(`this page is of ${origin}, and the daemon allows pages of its own origin alone`);
  }
  expect(await Sandbox.list()).toHaveLength(before);
  await sandbox.kill();
});
