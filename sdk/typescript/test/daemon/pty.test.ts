// SPDX-License-Identifier: Apache-2.0
// Terminals.
import { beforeAll, expect, test } from "vitest";
import { BadRequestError, ExecInterrupted, type PtyOptions, type Sandbox } from "../../src/index.js";
import { make, makeForAll } from "./box.js";

let sandbox: Sandbox;

beforeAll(async () => {
  sandbox = await makeForAll({ template: "base", env: { WORD: "of the sandbox" } });
});

/** What a terminal has shown, and the time when it has shown that. */
class Screen {
  text = "";
  #waiting: Array<() => void> = [];
  readonly #decoder = new TextDecoder();

  readonly onData = (bytes: Uint8Array): void => {
    this.text += this.#decoder.decode(bytes, { stream: true });
    for (const look of this.#waiting) look();
  };

  shown(words: string): Promise<void> {
    return new Promise((resolve) => {
      const look = () => this.text.includes(words) && resolve();
      this.#waiting.push(look);
      look();
    });
  }
}

async function open(options: Omit<PtyOptions, "onData"> = {}, on: Sandbox = sandbox) {
  const screen = new Screen();
  return { screen, pty: await on.openPty({ ...options, onData: screen.onData }) };
}

test("a shell", async () => {
  const { screen, pty } = await open({ rows: 50, cols: 132 });
  pty.write("echo $((6 * 7)) $WORD; stty size; tty\n");
  await screen.shown("50 132\r\n/dev/pts/");
  pty.resize(40, 100);
  pty.write("stty size; exit 3\n");
  expect(await pty.wait()).toBe(3);
  expect(screen.text).toContain("42 of the sandbox\r\n");
  expect(screen.text).toContain("40 100\r\n");
});

test("a command", async () => {
  const { screen, pty } = await open({ cmd: "pwd; id -un; exit 4", cwd: "/tmp", user: "nobody" });
  expect(await pty.wait()).toBe(4);
  expect(screen.text).toBe("/tmp\r\nnobody\r\n");
});

test("a key interrupts", async () => {
  const { screen, pty } = await open({ cmd: "trap 'echo bye; exit 5' INT; echo up; while :; do sleep 0.1; done" });
  await screen.shown("up");
  pty.write(Uint8Array.of(3));
  expect(await pty.wait()).toBe(5);
  expect(screen.text).toBe("up\r\n^Cbye\r\n");
});

test("closing it ends what runs in it", async () => {
  const { screen, pty } = await open({ cmd: "echo up; exec bash -c 'exec -a in-the-terminal sleep 300'" });
  await screen.shown("up");
  pty.close();
  await expect(pty.wait()).rejects.toThrow(ExecInterrupted);
  await sandbox.exec("while pgrep -f '^[i]n-the-terminal'; do :; done", { timeoutSeconds: 30 });
});

test("a sandbox that is killed under it", async () => {
  const other = await make({ template: "base" });
  const { screen, pty } = await open({ cmd: "echo up; sleep 300" }, other);
  await screen.shown("up");
  await other.kill();
  await expect(pty.wait()).rejects.toThrow(/not known .*deleted/);
});

test("a refusal says why", async () => {
  await expect((await open({ cwd: "/nowhere" })).pty.wait()).rejects.toThrow(/nowhere/);
  await expect(open({ rows: 0 })).rejects.toThrow(BadRequestError);
  await expect(open({ rows: 0 })).rejects.toThrow(/rows/);
});
