// SPDX-License-Identifier: Apache-2.0
// `npm install` of a fresh checkout, from a project elsewhere: npm runs the build, and has installed nothing for it.
import { execFileSync } from "node:child_process";
import { cpSync, existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";

const sdk = new URL("../../", import.meta.url).pathname;

test("the build gets its compiler by itself", () => {
  const folder = mkdtempSync(join(tmpdir(), "sdk-build-"));
  try {
    for (const name of ["package.json", "scripts", "src", "tsconfig.json"])
      cpSync(join(sdk, name), join(folder, name), { recursive: true });
    const npm = `#!/bin/sh\n[ "$1" = ci ] && exec ln -s ${sdk}node_modules .\n`;
    writeFileSync(join(folder, "npm"), npm, { mode: 0o755 });
    const env = { ...process.env, PATH: `${folder}:${process.env["PATH"] ?? ""}` };
    execFileSync(process.execPath, [join(folder, "scripts/build.mjs")], { env });
    for (const file of ["esm/index.js", "esm/index.d.ts", "cjs/index.js"])
      expect(existsSync(join(folder, "dist", file)), file).toBe(true);
  } finally {
    rmSync(folder, { recursive: true });
  }
});
