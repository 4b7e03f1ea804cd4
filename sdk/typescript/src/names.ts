// SPDX-License-Identifier: Apache-2.0
// Names: `ttl_seconds` on the wire is `ttlSeconds` here, at any depth, but for keys that are data.
import { notUnderstood } from "./errors.js";

/** Members whose own keys are data. */
const DATA = new Set(["env", "failures", "metadata", "payload", "results"]);

const camel = (name: string) => name.replace(/_(\w)/g, (_, letter: string) => letter.toUpperCase());
const snake = (name: string) => name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);

function renamed(value: unknown, rename: (name: string) => string): unknown {
  if (typeof value !== "object" || value === null) return value;
  if (Array.isArray(value)) return value.map((item) => renamed(item, rename));
  const members = Object.entries(value as Record<string, unknown>).filter(([, member]) => member !== undefined);
  return Object.fromEntries(
    members.map(([name, member]) => [rename(name), DATA.has(name) ? member : renamed(member, rename)]),
  );
}

export function jsonObject(wire: unknown): Record<string, unknown> {
  if (typeof wire === "object" && wire !== null && !Array.isArray(wire)) return wire as Record<string, unknown>;
  throw notUnderstood("no JSON object");
}

/** A JSON object of the server's. */
export function fromWire<T>(wire: unknown): T {
  return renamed(jsonObject(wire), camel) as T;
}

export function listFromWire<T>(wire: unknown): T[] {
  if (!Array.isArray(wire)) throw notUnderstood("no JSON array");
  return wire.map((item) => fromWire<T>(item));
}

/** The members that are given, as a request has them. */
export function toWire(object: object): object {
  return renamed(object, snake) as object;
}
