// SPDX-License-Identifier: Apache-2.0
// Starts the daemon under test for all that needs one: $PANDASTACK_BIN with the templates in $PANDASTACK_TEMPLATES.
// At its end it must have ended well, and have logged nothing but records, none of them of an error.
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { homedir, tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";

interface LogRecord {
  level: string;
  msg: string;
  url: string;
  key: string;
}

const root = new URL("../../../../", import.meta.url).pathname;

function start(home: string): ChildProcess & { stderr: NodeJS.ReadableStream } {
  const program = process.env["PANDASTACK_BIN"] ?? `${root}build/pandastack`;
  const templates = process.env["PANDASTACK_TEMPLATES"] ?? join(homedir(), ".cache/pandastack/templates");
  const options = ["--listen=127.0.0.1:0", `--data-dir=${home}/data`, `--templates=${templates}`, "--log-format=json"];
  const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !/^(PANDASTACK|XDG)_/.test(name)));
  return spawn(program, ["serve", ...options], { env: { ...env, HOME: home }, stdio: ["ignore", "ignore", "pipe"] });
}

export default async function setup(): Promise<() => Promise<void>> {
  const home = mkdtempSync(join(tmpdir(), "sdk-"));
  const daemon = start(home);
  const ended = once(daemon, "exit");
  const wrong: string[] = [];
  await new Promise<void>((resolve, reject) => {
    const take = (line: string) => {
      const record = JSON.parse(line) as LogRecord;
      if (record.level === "error") throw new Error(record.msg);
      if (record.msg !== "ready") return;
      process.env["PANDASTACK_API"] = record.url;
      process.env["PANDASTACK_API_KEY"] = (JSON.parse(readFileSync(record.key, "utf8")) as { api_key: string }).api_key;
      resolve();
    };
    createInterface(daemon.stderr)
      .on("line", (line) => {
        try {
          take(line);
        } catch {
          wrong.push(line);
        }
      })
      .on("close", () => reject(new Error(`the daemon did not start: ${wrong.join("\n")}`)));
  });
  return async () => {
    daemon.kill("SIGTERM");
    const [status] = (await ended) as [number];
    rmSync(home, { recursive: true });
    if (status !== 0 || wrong.length > 0)
      throw new Error(`the daemon ended with ${status}; its log:\n${wrong.join("\n")}`);
  };
}
