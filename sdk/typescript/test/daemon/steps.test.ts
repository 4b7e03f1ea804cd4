// SPDX-License-Identifier: Apache-2.0
// The steps that both SDKs go through (sdk/conformance): what one prints, the other prints, too.
import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { Installed } from "./installed.js";

const installed = new Installed();
const text = (name: string) => readFileSync(new URL(`../../../conformance/${name}`, import.meta.url), "utf8");

test("the steps", () => {
  expect(installed.runTypescript(text("steps.ts"))).toBe(text("steps.txt"));
});
