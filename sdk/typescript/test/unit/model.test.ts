// SPDX-License-Identifier: Apache-2.0
// What a model sees of a cell.
import { expect, test } from "vitest";
import { Execution, type ForModelOptions } from "../../src/index.js";

const PNG = btoa("\x89PNG of mine");

function forModel(answer: object, options?: ForModelOptions) {
  return new Execution({ status: "ok", exit_code: 0, stdout: "", stderr: "", ...answer }).forModel(options);
}

test("words and pictures", () => {
  const chart = { "image/png": `${PNG.slice(0, 4)}\n${PNG.slice(4)}`, "text/plain": "<Figure>" };
  const table = { "text/html": "<b>", "text/plain": "3" };
  const answer = { stdout: "out\n", results: [chart, table], error: "Traceback", truncated: true };
  const { text, pictures } = forModel(answer);
  expect(text).toBe("out\n3\nTraceback\n[output was cut]");
  expect(pictures.map((picture) => picture.url)).toEqual([`data:image/png;base64,${PNG}`]);
  expect(pictures[0]?.data).toEqual(Uint8Array.from("\x89PNG of mine", (c) => c.charCodeAt(0)));
  expect(JSON.parse(JSON.stringify(pictures))).toEqual([{ base64: PNG, mimeType: "image/png" }]);
});

test("it is told what it does not see", () => {
  expect(forModel({})).toEqual({ text: "[no output]", pictures: [] });
  expect(forModel({ state_lost: true }).text).toBe("[no output]\n[the kernel began anew: its variables are gone]");
  const half = "a".repeat(10);
  expect(forModel({ stdout: "a".repeat(100) }, { maxText: 20 }).text).toBe(
    `${half}\n[80 characters left out]\n${half}`,
  );
  expect(forModel({ stdout: "abc" }, { maxText: 0 }).text).toBe("\n[3 characters left out]\n");
  const { text, pictures } = forModel({ results: Array(3).fill({ "image/jpeg": PNG }) }, { maxImages: 1 });
  expect([text, pictures.length]).toEqual(["[a picture was drawn]\n[2 more pictures]", 1]);
});

test("no character is cut in two", () => {
  expect(forModel({ stdout: "☕🐼".repeat(4) }, { maxText: 4 }).text).toBe("☕\n[9 characters left out]\n🐼");
});

test.each(["", "=", "not base64!", "é", "U", '"><script>'])("%j is no picture", (data) => {
  const results = [{ "image/png": data, "text/plain": "words" }];
  expect(forModel({ results })).toEqual({ text: "words", pictures: [] });
});
