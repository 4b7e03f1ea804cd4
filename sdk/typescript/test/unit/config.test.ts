// SPDX-License-Identifier: Apache-2.0
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { resolveConfig } from "../../src/config.js";
import { AuthError, ConfigError } from "../../src/index.js";

let home: string;

beforeEach(() => {
  home = mkdtempSync(join(tmpdir(), "sdk-"));
  vi.stubEnv("HOME", home);
  for (const name of ["XDG_CONFIG_HOME", "PANDASTACK_API", "PANDASTACK_API_KEY"]) vi.stubEnv(name, undefined);
});

afterEach(() => {
  vi.unstubAllEnvs();
  rmSync(home, { recursive: true });
});

function file(content: string, base = ".config"): void {
  mkdirSync(join(home, base, "pandastack"), { recursive: true });
  writeFileSync(join(home, base, "pandastack/config.json"), content);
}

test("what is given counts first, then the environment, then the file", async () => {
  file('{"api_url": "http://file:1", "api_key": "pds_file"}');
  expect(await resolveConfig({})).toEqual({ url: "http://file:1", key: "pds_file" });
  vi.stubEnv("PANDASTACK_API", "http://env:2");
  expect(await resolveConfig({})).toEqual({ url: "http://env:2", key: "pds_file" });
  vi.stubEnv("PANDASTACK_API_KEY", "pds_env");
  expect(await resolveConfig({})).toEqual({ url: "http://env:2", key: "pds_env" });
  expect(await resolveConfig({ apiUrl: "http://arg:3", apiKey: "pds_arg" })).toEqual({
    url: "http://arg:3",
    key: "pds_arg",
  });
});

test("the default address, XDG_CONFIG_HOME, and the names that other clients use", async () => {
  file('{"token": "pds_file"}', "xdg");
  vi.stubEnv("XDG_CONFIG_HOME", join(home, "xdg"));
  expect(await resolveConfig({})).toEqual({ url: "http://127.0.0.1:8080", key: "pds_file" });
  file('{"apiKey": "pds_3", "api": "https://a.example", "apiUrl": "http://no"}', "xdg");
  expect(await resolveConfig({})).toEqual({ url: "https://a.example", key: "pds_3" });
});

test.each(["http://h:1/", "http://h:1/v1", "http://h:1/v1/"])("%s is http://h:1", async (apiUrl) => {
  expect((await resolveConfig({ apiUrl, apiKey: "k" })).url).toBe("http://h:1");
});

test.each(["localhost:8080", "ftp://h", "http://", "nix"])(
  "%s is no address, and the message says how one looks",
  async (apiUrl) => {
    const error = await resolveConfig({ apiUrl, apiKey: "k" }).catch((e: unknown) => e);
    expect(error).toBeInstanceOf(ConfigError);
    expect(String(error)).toMatch(/must look like http:\/\/127.0.0.1:8080/);
  },
);

test("no key", async () => {
  const error = await resolveConfig({}).catch((e: unknown) => e);
  expect(error).toBeInstanceOf(AuthError);
  expect(String(error)).toMatch(/Set PANDASTACK_API_KEY.*config.json/);
});

test.each(["{", "[1", '{"api_key": '])("a broken file is told by its name: %s", async (content) => {
  file(content);
  const error = await resolveConfig({}).catch((e: unknown) => e);
  expect(error).toBeInstanceOf(ConfigError);
  expect(String(error)).toContain(join(home, ".config/pandastack/config.json"));
});

test.each(["null", "[]", '"text"', '{"api_key": 7, "token": ""}'])(
  "a file without a key is as none: %s",
  async (content) => {
    file(content);
    await expect(resolveConfig({})).rejects.toThrow(AuthError);
  },
);
