// SPDX-License-Identifier: Apache-2.0
// Which error of the tree an answer stands for.
import { statusOfCode } from "./codes.js";
import * as errors from "./errors.js";
import { VERSION } from "./version.js";
import { versionAdvice } from "./versions.js";

type Code = string | undefined;
/** The path itself: what is asked for by its name has a code of its own. */
const UNKNOWN_PATH: Code[] = ["not_found", "request.method"];
/** What one version refuses or lacks, another may have. */
const MAY_BE_NEWS: Code[] = ["request.invalid", "not_supported"];
/** Of a command or a cell. */
const TIMED_OUT = " timeout after ";

function classOf(code: Code, status: number): typeof errors.PandastackError {
  if (code === "sandbox.failed") return errors.SandboxFailed;
  if (UNKNOWN_PATH.includes(code) || status === 501) return errors.NotSupportedError;
  if (status === 401 || status === 403) return errors.AuthError;
  if (status === 404) return errors.NotFoundError;
  if (status === 409) return errors.ConflictError;
  if (status === 429) return errors.LimitError;
  if (status === 504) return errors.SandboxTimeout;
  return status < 500 ? errors.BadRequestError : errors.ServerError;
}

function advised(message: string, code: Code, kind: typeof errors.PandastackError, daemon: string | undefined): string {
  const other = daemon !== undefined && daemon !== VERSION;
  if (UNKNOWN_PATH.includes(code) || (other && MAY_BE_NEWS.includes(code)))
    return `${message} (${versionAdvice(daemon)})`;
  if (kind === errors.SandboxTimeout && message.includes(TIMED_OUT))
    return `${message}: allow it more time, or do less at once`;
  return message;
}

/**
 * What an answer of an error stands for, or the `error` event of a stream, which has no status of its own. `daemon` is the
 * version of who answered.
 */
export function errorOf(message: string, facts: errors.ErrorFacts, daemon: string | undefined): errors.PandastackError {
  const { code } = facts;
  const known =
    code !== undefined && Object.hasOwn(statusOfCode, code) ? statusOfCode[code as keyof typeof statusOfCode] : 500;
  const status = facts.status ?? known;
  const kind = classOf(code, status);
  return new kind(advised(message, code, kind, daemon), { ...facts, status });
}

/** An answer of another shape than expected; Reply.explain() makes an error for users of it. */
export class Misshapen extends Error {}
