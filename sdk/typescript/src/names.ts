// SPDX-License-Identifier: Apache-2.0
// Names: `ttl_seconds` on the wire is `ttlSeconds` here. Only an object's own members are renamed, so that keys which are
// data (metadata, variables) stay what they are.

import { notUnderstood } from "./errors.js";

const camel = (name: string) => name.replace(/_(\w)/g, (_, letter: string) => letter.toUpperCase());
const snake = (name: string) => name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);

export function jsonObject(wire: unknown): Record<string, unknown> {
  if (typeof wire === "object" && wire !== null && !Array.isArray(wire)) return wire as Record<string, unknown>;
  throw notUnderstood("no JSON object");
}

/** A JSON object of the server's. */
export function fromWire<T>(wire: unknown): T {
  return Object.fromEntries(Object.entries(jsonObject(wire)).map(([name, value]) => [camel(name), value])) as T;
}

export function listFromWire<T>(wire: unknown): T[] {
  if (!Array.isArray(wire)) throw notUnderstood("no JSON array");
  return wire.map((item) => fromWire<T>(item));
}

/** The members that are given, as a request has them. */
export function toWire(object: object): object {
  const given = Object.entries(object).filter(([, value]) => value !== undefined);
  return Object.fromEntries(given.map(([name, value]) => [snake(name), value as unknown]));
}
