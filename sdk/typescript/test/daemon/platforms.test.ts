// SPDX-License-Identifier: Apache-2.0
// One program in all that it must run in, as a module and where there is that as CommonJS.
import { execFileSync } from "node:child_process";
import { existsSync, statSync } from "node:fs";
import { beforeAll, expect, test } from "vitest";
import { Installed } from "./installed.js";

const installed = new Installed();
const platforms = new URL("../platforms/", import.meta.url).pathname;
const packages = `${platforms}node_modules`;

const BODY = `
(async () => {
  const sandbox = await Sandbox.create({ metadata: { platform: "é" } });
  try {
    const context = await sandbox.createCodeContext();
    const heard = [];
    await context.runCode("print('hi')", { onStdout: (chunk) => heard.push(chunk) });
    const error = await context.runCode("while True: pass", { timeoutSeconds: 1 }).catch((error) => error);
    const bytes = Uint8Array.from({ length: 300000 }, (_, i) => i % 251);
    await sandbox.filesystem.write("/tmp/a", bytes);
    await sandbox.filesystem.download("/tmp/a", "down");
    await sandbox.filesystem.upload("down", "/tmp/b");
    const back = await sandbox.filesystem.read("/tmp/b");
    const process = await sandbox.commands.start("read x; echo got $x", { stdin: true });
    await process.write("é\\n");
    const code = await process.stream({ onStdout: (chunk) => heard.push(chunk) });
    const said = [heard.join(""), code];
    const lines = await sandbox.followLogs({ tail: 1 });
    said.push((await lines.next()).value);
    await lines.return();
    const decoder = new TextDecoder();
    let shown = "";
    const onData = (bytes) => (shown += decoder.decode(bytes, { stream: true }));
    const pty = await sandbox.openPty({ cmd: "read x; echo got $x; exit 5", onData });
    pty.write("é☕\\n");
    said.push(await pty.wait(), shown.includes("got é☕"));
    const controller = new AbortController();
    const aborted = await sandbox
      .exec("echo up; sleep 300", { signal: controller.signal, onStdout: () => controller.abort() })
      .catch((error) => error.name);
    const lost = await Sandbox.list({ apiUrl: "http://127.0.0.1:9", apiKey: "k" }).catch((error) => error.name);
    console.log(JSON.stringify([said, error instanceof SandboxTimeout, String(back) === String(bytes), aborted, lost]));
  } finally {
    await sandbox[Symbol.asyncDispose ?? Symbol.for("Symbol.asyncDispose")]();
    console.log(await sandbox.kill());
  }
})();
`;
const WANTED = '[["hi\\ngot é\\n",0,"got é",5,true],true,true,"AbortError","APIConnectionError"]\nfalse\n';

beforeAll(() => {
  const lock = `${packages}/.package-lock.json`;
  if (existsSync(lock) && statSync(lock).mtimeMs > statSync(`${platforms}package-lock.json`).mtimeMs) return;
  execFileSync("npm", ["ci", "--ignore-scripts", "--no-audit", "--no-fund"], { cwd: platforms });
});

const deno = [
  `${packages}/@deno/linux-x64-glibc/deno`,
  "run",
  "--allow-net",
  "--allow-env",
  "--allow-read",
  "--allow-write",
];

test.each<[string, string, string[]]>([
  ["Node, as it is here", "mjs", [process.execPath]],
  ["Node 18", "mjs", [`${packages}/node18/bin/node`]],
  ["Node 18", "cjs", [`${packages}/node18/bin/node`]],
  ["Node 22", "mjs", [`${packages}/node22/bin/node`]],
  ["Node 22", "cjs", [`${packages}/node22/bin/node`]],
  ["Bun", "mjs", [`${packages}/@oven/bun-linux-x64/bin/bun`]],
  ["Bun", "cjs", [`${packages}/@oven/bun-linux-x64/bin/bun`]],
  ["Deno", "mjs", deno],
])("%s, %s", (_, kind, [program, ...args]) => {
  const names = "{ Sandbox, SandboxTimeout }";
  const head =
    kind === "mjs" ? `import ${names} from "@pandastack/sdk";` : `const ${names} = require("@pandastack/sdk");`;
  expect(installed.run(program ?? "", ...args, installed.write(`program.${kind}`, head + BODY))).toBe(WANTED);
});
