// SPDX-License-Identifier: Apache-2.0
// The public guide's code, as it is printed there (tests/conformance/guide).
import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { Sandbox } from "../../src/index.js";
import { Installed } from "./installed.js";

const installed = new Installed();
const guide = new URL("../../../../tests/conformance/guide/", import.meta.url);
const block = (name: string) => readFileSync(new URL(`${name}.ts`, guide), "utf8");

// What the guide's `pip install torch && python train.py` stands for, without the download.
const TRAIN = "for i in 1 2 3; do echo step $i; sleep 0.1; done; echo warning >&2; exit 3";

const PATTERN = `
function check(wanted: unknown, got: unknown): void {
  if (wanted !== got) throw new Error(\`\${wanted}, not \${got}\`);
}
check(await runPython("6 * 7"), "42");
check(await runPython("x = 20\\nprint('hello')"), "hello\\n");
check(await runPython("x + 1"), "21");
check((await runPython("pd.DataFrame({'a': [1]})")).includes("NameError: name 'pd' is not defined"), true);
const table = await ctx.runCode("import pandas as pd\\npd.DataFrame({'a': [1, 2]})");
check(table.results[0]?.html?.includes("<table"), true);
const chart = await ctx.runCode("import matplotlib.pyplot as plt\\nplt.plot([1, 3, 2])\\nplt.show()");
check(Buffer.from(chart.png ?? "", "base64").subarray(1, 4).toString(), "PNG");
`;

const SNAPSHOT = `
import { CodeContext } from "@pandastack/sdk";
for (const other of [resumed, child]) {
  check((await new CodeContext(other, ctx.id).runCode("x")).text, "20");
  await other.kill();
}
`;

test("the guide", async () => {
  const ids = async () => (await Sandbox.list()).map((sandbox) => sandbox.id);
  const before = await ids();
  const stream = block("stream").replace("pip install torch && python train.py", TRAIN);
  expect(stream).toContain(TRAIN);
  const program = [block("pattern"), PATTERN, block("snapshot"), SNAPSHOT, stream, block("cleanup")].join("\n");
  expect(installed.runTypescript(program)).toBe("step 1\nstep 2\nstep 3\nexited 3\n");
  expect(await ids()).toEqual(before);
});

// pip takes a minute and more where the Python SDK's test runs this; uv does the same in seconds.
const UV = `
await sandbox.exec(\`printf '#!/bin/sh\\nexec uv pip "$@"\\n' >"$(command -v pip)"\`);
`;

// Without a network, what is said is the cell's error, not an exception here.
const INSTALLED = `
if (ex.error && !ex.error.includes("ModuleNotFoundError")) throw new Error(ex.error);
`;

test("the guide's packages", () => {
  installed.runTypescript([block("pattern"), UV, block("packages"), INSTALLED, block("cleanup")].join("\n"));
});
