// SPDX-License-Identifier: Apache-2.0
// The package as it is installed: dist/esm and dist/cjs, each with its types. `npm install` of a fresh checkout runs this,
// too: then the compiler is installed first.
import { execFileSync } from "node:child_process";
import { existsSync, rmSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("../", import.meta.url));
const tsc = `${root}node_modules/typescript/bin/tsc`;
const compile = (...options) => execFileSync(process.execPath, [tsc, "-p", root, ...options], { stdio: "inherit" });

if (!existsSync(tsc)) execFileSync("npm", ["ci", "--ignore-scripts", "--no-audit", "--no-fund"], { cwd: root });
rmSync(`${root}dist`, { recursive: true, force: true });
compile();
compile("--outDir", `${root}dist/cjs`, "--module", "CommonJS", "--moduleResolution", "Node10");
writeFileSync(`${root}dist/cjs/package.json`, '{ "type": "commonjs" }\n');
