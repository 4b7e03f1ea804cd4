// SPDX-License-Identifier: Apache-2.0
// Made of api/errors.def by scripts/generate.mjs; not to be edited.

export const statusOfCode = {
  internal: 500,
  "request.invalid": 400,
  "auth.unauthorized": 401,
  not_found: 404,
  "sandbox.not_found": 404,
  "template.not_found": 404,
  "template.unknown": 400,
  "session.not_found": 404,
  "process.not_found": 404,
  "file.not_found": 404,
  "snapshot.not_found": 404,
  "request.method": 405,
  conflict: 409,
  "request.too_large": 413,
  "limit.reached": 429,
  not_supported: 501,
  "engine.failed": 500,
  "template.stale": 503,
  "snapshot.damaged": 500,
  "sandbox.failed": 503,
  timeout: 504,
  "upstream.failed": 502,
  "auth.forbidden": 403,
  no_space: 507,
} as const;
