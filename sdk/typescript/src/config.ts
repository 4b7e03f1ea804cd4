// SPDX-License-Identifier: Apache-2.0
// Where the server is and with which key: what the caller gives, then the environment, then the config file that the
// daemon writes. A browser has neither of the latter.
import { AuthError, ConfigError } from "./errors.js";
import { environment, readTextFile } from "./platform.js";

export interface ClientOptions {
  /** `http://127.0.0.1:8080` without it, without PANDASTACK_API and without a config file. */
  apiUrl?: string | undefined;
  apiKey?: string | undefined;
  /** How long the server may be silent, 120,000 without it. It is no limit on how long a call takes. */
  timeoutMs?: number | undefined;
}

export interface Config {
  /** Without a slash at its end, and without `/v1`. */
  url: string;
  key: string;
}

const DEFAULT_URL = "http://127.0.0.1:8080";

export const KEY_ADVICE =
  "Set PANDASTACK_API_KEY or give apiKey; `pandastack serve` writes a key to ~/.config/pandastack/config.json at its first start";

async function readConfigFile(): Promise<Record<string, unknown>> {
  const home = environment("XDG_CONFIG_HOME") ?? `${environment("HOME") ?? ""}/.config`;
  const path = `${home}/pandastack/config.json`;
  try {
    return Object(JSON.parse((await readTextFile(path)) ?? "{}")) as Record<string, unknown>;
  } catch (cause) {
    const why = `${path} can't be read (${String(cause)}): correct it, or set PANDASTACK_API and PANDASTACK_API_KEY`;
    throw new ConfigError(why, { cause });
  }
}

function normalised(url: string): string {
  const clean = url.replace(/\/+$/, "").replace(/\/v1$/, "");
  if (!/^https?:\/\/[^/]/.test(clean))
    throw new ConfigError(`"${url}" is no address of a server: PANDASTACK_API or apiUrl must look like ${DEFAULT_URL}`);
  return clean;
}

export async function resolveConfig(options: ClientOptions): Promise<Config> {
  let url = options.apiUrl || environment("PANDASTACK_API");
  let key = options.apiKey || environment("PANDASTACK_API_KEY");
  if (!url || !key) {
    const file = await readConfigFile();
    const member = (...names: string[]) =>
      names.map((name) => file[name]).find((v) => typeof v === "string" && v !== "");
    url ||= member("api", "api_url", "apiUrl") as string | undefined;
    key ||= member("api_key", "token", "apiKey") as string | undefined;
  }
  if (!key) throw new AuthError(`no API key. ${KEY_ADVICE}`);
  return { url: normalised(url || DEFAULT_URL), key };
}
