// SPDX-License-Identifier: Apache-2.0
// All code of the pages, run as one program for each page; what a block prints is what the page says.
import { readFileSync, readdirSync } from "node:fs";
import { expect, test } from "vitest";
import { Installed } from "./installed.js";

const root = new URL("../../../../", import.meta.url);
const installed = new Installed();
const guide = readdirSync(new URL("docs/guide", root)).filter((name) => !/^README|^[.]/.test(name));
const MARK = "-- the end of a block --";

test.each(["docs/sdk-typescript.md", "sdk/typescript/README.md", ...guide.map((name) => `docs/guide/${name}`)])(
  "%s",
  (page) => {
    const text = readFileSync(new URL(page, root), "utf8");
    const blocks = [...text.matchAll(/^```ts\n([^]*?)^```\n(?:```text\n([^]*?)^```\n)?/gm)];
    expect(blocks.length).toBeGreaterThan(0);
    const program = blocks.map(([, code]) => `${code}\nconsole.log("${MARK}");\n`).join("");
    const printed = installed.runTypescript(program).split(`${MARK}\n`);
    expect(printed.slice(0, -1)).toEqual(blocks.map(([, , output]) => output ?? ""));
  },
);
