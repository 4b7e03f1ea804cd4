// SPDX-License-Identifier: Apache-2.0
// Every failure, as one tree. The class says of what kind it is, `code` which one, and the message what to do.
import { statusOfCode } from "./generated.js";
import { VERSION } from "./version.js";

/** A row of api/errors.def; a server that is newer than this SDK may send others. */
export type ErrorCode = keyof typeof statusOfCode | (string & {});

export interface ErrorFacts {
  status?: number | undefined;
  code?: ErrorCode | undefined;
  requestId?: string | undefined;
  details?: unknown;
  cause?: unknown;
}

export class PandastackError extends Error {
  /** The HTTP status that stands for it; undefined where there was no answer. */
  readonly status: number | undefined;
  /** For programs. Undefined where the server had no part in it. */
  readonly code: ErrorCode | undefined;
  /** What the server's log calls the request. */
  readonly requestId: string | undefined;
  /** What there was until it failed: of a command an ExecResult, of a cell an Execution. */
  readonly details: unknown;

  constructor(message: string, facts: ErrorFacts = {}) {
    super(message, facts.cause === undefined ? undefined : { cause: facts.cause });
    this.name = new.target.name;
    this.status = facts.status;
    this.code = facts.code;
    this.requestId = facts.requestId;
    this.details = facts.details;
  }

  /** What a command or a cell had written until it failed. */
  get stdout(): string {
    return (Object(this.details) as { stdout?: string }).stdout ?? "";
  }

  get stderr(): string {
    return (Object(this.details) as { stderr?: string }).stderr ?? "";
  }
}

/** The address or the config file is none. */
export class ConfigError extends PandastackError {}
/** No API key, or one that the server does not know. */
export class AuthError extends PandastackError {}
/** No such sandbox, session, file, snapshot or template. */
export class NotFoundError extends PandastackError {}
/** The server refused the request, and would again. */
export class BadRequestError extends PandastackError {}
/** Not in the state that it is in: paused, or in use by others. */
export class ConflictError extends BadRequestError {}
/** There are as many as there may be. */
export class LimitError extends BadRequestError {}
/** It is not the request's fault. */
export class ServerError extends PandastackError {}
/** The sandbox's machine is gone; the message says why. */
export class SandboxFailed extends ServerError {}
/** This server does not have that. */
export class NotSupportedError extends ServerError {}
/** A command or a cell was ended by its time limit. */
export class SandboxTimeout extends PandastackError {}
/** No answer: the server is not there, was silent for too long, or went away. */
export class APIConnectionError extends PandastackError {}
/** The server was silent for longer than `timeoutMs`. */
export class APITimeoutError extends APIConnectionError {}
/** The stream of a command or a cell ended before its end: what became of it is not known. */
export class ExecInterrupted extends APIConnectionError {}
/** With `check`: a command ended with another status than 0. `details` is its ExecResult. */
export class CommandError extends PandastackError {
  constructor(
    message: string,
    readonly exitCode: number,
    facts: ErrorFacts,
  ) {
    super(message, facts);
  }
}
/** No candidate of explore() may win. */
export class ExploreError extends PandastackError {}

const UPDATE = `this SDK is pandastack ${VERSION}, GET /version says what the server is: update the older of the two`;

function classOf(code: ErrorCode | undefined, status: number): typeof PandastackError {
  if (code === "sandbox.failed") return SandboxFailed;
  // The path itself: what is asked for by its name has a code of its own.
  if (code === "not_found" || code === "request.method" || status === 501) return NotSupportedError;
  if (status === 401 || status === 403) return AuthError;
  if (status === 404) return NotFoundError;
  if (status === 409) return ConflictError;
  if (status === 429) return LimitError;
  if (status === 504) return SandboxTimeout;
  return status < 500 ? BadRequestError : ServerError;
}

/** What an answer of an error stands for, or the `error` event of a stream, which has no status of its own. */
export function errorOf(message: string, facts: ErrorFacts): PandastackError {
  const { code } = facts;
  const known =
    code !== undefined && Object.hasOwn(statusOfCode, code) ? statusOfCode[code as keyof typeof statusOfCode] : 500;
  const status = facts.status ?? known;
  const kind = classOf(code, status);
  return new kind(kind === NotSupportedError ? `${message} (${UPDATE})` : message, { ...facts, status });
}

/** The error for an answer of another shape than expected. */
export function notUnderstood(what: string): ServerError {
  return new ServerError(`the server's answer is not what this SDK expects: ${what} (${UPDATE})`);
}
