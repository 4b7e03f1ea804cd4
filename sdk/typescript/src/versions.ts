// SPDX-License-Identifier: Apache-2.0
// The server's version and this SDK's, said where something went wrong that may come of two that do not fit. The daemon
// names its own in a header of each answer, so that costs no request.
import { VERSION } from "./version.js";

/** What a header may hold to be shown in a message: it comes from whoever answers. */
const FORM = /^\d{1,5}\.\d{1,5}\.\d{1,5}[\w.+-]{0,32}$/;

/** The version of the daemon that gave this answer; undefined where it says none. */
export function versionOf(headers: Headers): string | undefined {
  const text = headers.get("pandastack-version") ?? "";
  return FORM.test(text) ? text : undefined;
}

/** Over 0 where a is the newer one; 0 also where only what follows the numbers differs. */
function compare(a: string, b: string): number {
  const [left, right] = [a, b].map((version) => version.split(/[^\d]/, 3).map(Number));
  return left?.map((part, i) => part - (right?.[i] ?? 0)).find((difference) => difference !== 0) ?? 0;
}

const UPDATE_SDK = "update this SDK, by npm install of the sdk/typescript that came with the daemon";
const UPDATE_DAEMON = "update the daemon and restart it";

/** What to do about a failure that another version of the daemon explains. */
export function versionAdvice(daemon: string | undefined): string {
  if (daemon === undefined)
    return `the server names no version, this SDK is pandastack ${VERSION}: if it is an older daemon, ${UPDATE_DAEMON}`;
  const both = `the daemon is pandastack ${daemon}, this SDK is pandastack ${VERSION}`;
  if (daemon === VERSION) return `${both}: is something between them that changes requests or answers?`;
  const newer = compare(daemon, VERSION);
  return `${both}: ${newer > 0 ? UPDATE_SDK : newer < 0 ? UPDATE_DAEMON : "update the older of the two"}`;
}
