// SPDX-License-Identifier: Apache-2.0
// What the scripted model says in every recipe's test, and what it must have seen; as story.py.
import assert from "node:assert/strict";
import story from "./story.json" with { type: "json" };

export const { question, cells, answer } = story;

/** Looks at what reached the model: a text for each cell, in order, and the pictures. */
export function check(texts: string[], pictures: Uint8Array[]): void {
  assert.equal(texts.length, cells.length);
  const [failed, value, drawn] = texts as [string, string, string];
  assert.match(failed, /Traceback/);
  assert.ok(failed.includes(`\n${story.error}`), failed);
  assert.ok(value.includes(story.value), value);
  assert.ok(!drawn.includes("iVBOR"), "a picture is no text");
  assert.equal(pictures.length, 1);
  checkPng(Buffer.from(pictures[0] as Uint8Array));
}

/** It is a picture that can be looked at. */
function checkPng(data: Buffer): void {
  assert.equal(data.toString("latin1", 0, 8), "\x89PNG\r\n\x1a\n");
  assert.ok(Math.min(data.readUInt32BE(16), data.readUInt32BE(20)) > 100);
  assert.equal(data.toString("latin1", data.length - 8), "IEND\xaeB`\x82", "it is whole");
}
