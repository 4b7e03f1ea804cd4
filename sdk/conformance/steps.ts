// SPDX-License-Identifier: Apache-2.0
// The steps that both SDKs go through: what this prints, steps.py prints, too. Both are compared with steps.txt.
import { Client, CodeContext, PandastackError, Sandbox } from "@pandastack/sdk";

const show = (...values: unknown[]) => console.log(JSON.stringify(values));

async function failure(call: Promise<unknown>): Promise<unknown> {
  try {
    await call;
  } catch (error) {
    if (!(error instanceof PandastackError)) throw error;
    return [error.name, error.status ?? null, error.code ?? null];
  }
  return "none";
}

const sandbox = await Sandbox.create({ metadata: { made: "é" }, env: { WORD: "wörd" }, ttlSeconds: 900 });
show("create", sandbox.template, sandbox.status, sandbox.metadata);
show("list", (await Sandbox.list({ metadata: { made: "é" } })).map((s) => s.id === sandbox.id));

// Commands.
const result = await sandbox.exec("echo $WORD; cat; pwd >&2; exit 3", { cwd: "/tmp", stdin: "in\n" });
show("exec", result.stdout, result.stderr, result.exitCode, result.truncated);
show("check", await failure(sandbox.exec("exit 9", { check: true })));
show("timeout", await failure(sandbox.exec("sleep 60", { timeoutSeconds: 0.5 })));
let heard = "";
const code = await sandbox.execStream("echo one; echo two", { onStdout: (chunk) => (heard += chunk) });
show("exec_stream", heard, code);

// Commands in the background.
const process = await sandbox.commands.start("read x; echo got $x; cat; echo é >&2; exec sleep 300", { stdin: true });
show("start", process.info.status, process.info.stdin);
await process.write("é\n");
await process.write(Uint8Array.of(104, 105), { eof: true });
let [out, err] = ["", ""];
const ended = await process.stream({
  onStdout: (chunk) => (out += chunk),
  onStderr: (chunk) => {
    err += chunk;
    return process.sendSignal("TERM");
  },
});
show("stream", ended, out, err);
show("wait", await process.wait(), process.info.signal, process.info.status, process.info.outputBytes);
show("processes", (await sandbox.commands.list()).map((p) => p.id === process.id));
show("get", (await sandbox.commands.get(process.id)).info.exitCode, await failure(sandbox.commands.get(1000000)));
show("kill an ended one", await failure(process.kill()));
const slow = await sandbox.commands.start("sleep 300");
show("wait 0", (await slow.wait({ seconds: 0 })) ?? null);
await slow.kill();
show("killed", await slow.wait(), slow.info.signal);

// Terminals.
const decoder = new TextDecoder();
let shown = "";
const pty = await sandbox.openPty({
  cmd: "read x; echo got $x; stty size; exit 4",
  rows: 40,
  cols: 100,
  onData: (data) => (shown += decoder.decode(data, { stream: true })),
});
pty.write("é☕\n");
show("open_pty", await pty.wait(), shown.trimEnd().split("\r\n").slice(-2));
const other = await sandbox.openPty({ cmd: "sleep 300", onData: console.log });
other.close();
show("closed", await failure(other.wait()));
show("no size", await failure(sandbox.openPty({ rows: 0, onData: () => undefined })));

// Logs.
await sandbox.exec("echo from the log; printf 'no end'");
show("logs", await sandbox.logs({ stream: "stdout", tail: 2 }));
const lines = await sandbox.followLogs({ tail: 0 });
await sandbox.exec("echo followed; echo too");
show("follow_logs", (await lines.next()).value, (await lines.next()).value);
await lines.return(undefined);
show("events", (await sandbox.events()).map((event) => event.type));
const events = await sandbox.followEvents({ tail: 1 });
await sandbox.pause();
await sandbox.resume();
const types = [];
for await (const event of events) if (types.push(event.type) === 3) break;
show("follow_events", ...types);

// Files, and what changes.
const fs = sandbox.filesystem;
const bytes = Uint8Array.from({ length: 256 }, (_, i) => i);
await fs.write("/workspace/a/b.bin", bytes);
show("read", String(await fs.read("/workspace/a/b.bin")) === String(bytes));
show("list", (await fs.list("/workspace/a")).map((f) => [f.name, f.path, f.isDir, f.size]));
const changes = await fs.watch("/workspace/a");
await fs.move("/workspace/a/b.bin", "/workspace/a/c");
const first = await changes.next();
if (!first.done) show("watch", first.value.type, first.value.path, first.value.isDir, first.value.to);
await fs.remove("/workspace/a");
let last;
for await (const change of changes) last = change;
show("watched", last?.type);
show("no file", await fs.exists("/workspace/a"), await failure(fs.read("/workspace/a/c")));
show("no folder", await failure(fs.watch("/workspace/a")));

// Servers.
await fs.write("/srv/x.txt", "größe");
await sandbox.commands.start("python3 -m http.server 8000", { cwd: "/srv" });
await sandbox.exec("until curl -s localhost:8000; do :; done", { timeoutSeconds: 60 });
show("label_port", (await sandbox.labelPort(8000, "web")).label);
const ports = async () => (await sandbox.ports()).map((p) => [p.port, p.label ?? null, p.listening, p.source]);
show("ports", await ports());
await sandbox.unlabelPort(8000);
show("unlabelled", await ports());
const page = await fetch(`${await sandbox.previewUrl(8000, { paths: ["/x.txt"] })}x.txt`);
show("preview_url", await page.text());
show("no port", await failure(sandbox.previewUrl(0)));

// Code, and copies of a machine.
const ctx = await sandbox.createCodeContext();
const ran = await ctx.runCode("print('é'); x = 41; x");
show("run_code", ran.status, ran.stdout, ran.text);
const failed = await ctx.runCode("1 / 0");
show("error", failed.status, failed.errorName, failed.exitCode);
const snapshot = (await sandbox.snapshot()).id;
const restored = await Sandbox.create({ fromSnapshot: snapshot });
const child = await sandbox.fork({ metadata: { copy: "b" } });
show("restored", (await new CodeContext(restored, ctx.id).runCode("x + 1")).text);
show("fork", (await new CodeContext(child, ctx.id).runCode("x + 2")).text, child.metadata);
await restored.kill();
await child.kill();
await sandbox.client.snapshots.delete(snapshot);

// The end, and what is wrong then.
show("kill", await sandbox.kill(), await sandbox.kill());
show("gone", await failure(sandbox.exec("true")), await failure(slow.refresh()), await failure(sandbox.logs()));
show("gone", await failure(sandbox.followEvents()), await failure(sandbox.openPty({ onData: () => undefined })));
const nobody = new Client({ apiUrl: "http://127.0.0.1:9", apiKey: "k" });
show("nobody there", await failure(Sandbox.list({ client: nobody })));
show("wrong key", await failure(Sandbox.list({ apiKey: "wrong" })));
