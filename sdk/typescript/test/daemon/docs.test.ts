// SPDX-License-Identifier: Apache-2.0
// The code of the pages, run as one program for each page; what a block prints is what the page says.
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { Installed } from "./installed.js";

const root = fileURLToPath(new URL("../../../../", import.meta.url));
const installed = new Installed();
const MARK = "-- the end of a block --";

function blocks(page: string) {
  return [...readFileSync(root + page, "utf8").matchAll(/^```ts\n([^]*?)^```\n(?:```text\n([^]*?)^```\n)?/gm)];
}

const files = ["ls-files", "--cached", "--others", "--exclude-standard", "README.md", "docs", "recipes", "sdk"];
const names = execFileSync("git", files, { cwd: root, encoding: "utf8" }).split("\n");
// In the reference they are signatures.
const pages = names.filter((name) => name.endsWith(".md") && name !== "docs/reference-typescript.md");

test.each(pages.filter((page) => blocks(page).length))("%s", (page) => {
  const program = blocks(page).map(([, code]) => `${code}\nconsole.log("${MARK}");\n`);
  const printed = installed.runTypescript(program.join("")).split(`${MARK}\n`);
  expect(printed.slice(0, -1)).toEqual(blocks(page).map(([, , output]) => output ?? ""));
});
