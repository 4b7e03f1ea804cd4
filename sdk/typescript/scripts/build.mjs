// SPDX-License-Identifier: Apache-2.0
// The package as it is installed: dist/esm and dist/cjs, each with its types.
import { execFileSync } from "node:child_process";
import { rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";

const tsc = createRequire(import.meta.url).resolve("typescript/bin/tsc");
const root = new URL("../", import.meta.url).pathname;
const compile = (...options) => execFileSync(process.execPath, [tsc, "-p", root, ...options], { stdio: "inherit" });

rmSync(`${root}dist`, { recursive: true, force: true });
compile();
compile("--outDir", `${root}dist/cjs`, "--module", "CommonJS", "--moduleResolution", "Node10");
writeFileSync(`${root}dist/cjs/package.json`, '{ "type": "commonjs" }\n');
