// SPDX-License-Identifier: Apache-2.0
// Names: `ttl_seconds` on the wire is `ttlSeconds` here, at any depth, but for keys that are data.
import { Misshapen } from "./refusals.js";

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
  throw new Misshapen("no JSON object");
}

/** A JSON object of the server's. */
export function fromWire<T>(wire: unknown): T {
  return renamed(jsonObject(wire), camel) as T;
}

/** Reads such an object, which must have these members. */
export const reader =
  <T>(...members: Array<keyof T & string>) =>
  (wire: unknown): T => {
    const object = fromWire<Record<string, unknown>>(wire);
    const missing = members.find((name) => (object[name] ?? undefined) === undefined);
    if (missing !== undefined) throw new Misshapen(`it has no \`${snake(missing)}\``);
    return object as T;
  };

/** Reads an array of what `read` reads. */
export const listOf =
  <T>(read: (wire: unknown) => T) =>
  (wire: unknown): T[] => {
    if (!Array.isArray(wire)) throw new Misshapen("no JSON array");
    return wire.map(read);
  };

/** Reads a member of an object. */
export const memberOf =
  <T>(name: string, read: (wire: unknown) => T) =>
  (wire: unknown): T => {
    const value = jsonObject(wire)[name];
    if (value === undefined) throw new Misshapen(`it has no \`${name}\``);
    return read(value);
  };

/** The members that are given, as a request has them. */
export function toWire(object: object): object {
  return renamed(object, snake) as object;
}
