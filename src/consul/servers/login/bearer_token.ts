/** The bearer token of a login, given or in a file. It is never shown. @module */

import { Buffer } from "node:buffer";
import { closeSync, openSync, readSync, statSync } from "node:fs";
import { messageOf, ProxyError } from "../../../base/mod.ts";
import { hideSecrets } from "../../model/texts.ts";
import type { LoginOptions } from "../types.ts";

/** Kubernetes' tokens have two thousand bytes, and no longer one fits a header. */
const LIMIT_BYTES = 64 * 1024;

/** Trimmed; fails with `agent_failed`, because a missing or bad file may be mended. */
export function readBearerToken(
  { bearerToken, bearerTokenFile }: Pick<LoginOptions, "bearerToken" | "bearerTokenFile">,
): string {
  if (bearerToken) return bearerToken.trim();
  const cannot = `Cannot log in: the bearer token file ${JSON.stringify(bearerTokenFile)}`;
  let token: string;
  try {
    token = readFile(bearerTokenFile).trim();
  } catch (cause) {
    throw new ProxyError("agent_failed", `${cannot} cannot be read: ${messageOf(cause)}`, {
      cause,
    });
  }
  if (token === "") throw new ProxyError("agent_failed", `${cannot} is empty`);
  // deno-lint-ignore no-control-regex -- a bearer token must not have control characters
  if (/[\x00-\x1f\x7f]/.test(token)) {
    throw new ProxyError("agent_failed", `${cannot} has characters that no bearer token has`);
  }
  return token;
}

function readFile(path: string): string {
  // A device or a pipe could be read for ever, or not at all.
  if (!statSync(path).isFile()) throw new Error("it is not a file");
  const file = openSync(path, "r");
  try {
    const bytes = Buffer.alloc(LIMIT_BYTES + 1);
    let length = 0;
    for (let read = -1; read !== 0 && length < bytes.length; length += read) {
      read = readSync(file, bytes, length, bytes.length - length, null);
    }
    if (length > LIMIT_BYTES) throw new Error(`it is longer than ${LIMIT_BYTES} bytes`);
    return bytes.toString("utf8", 0, length);
  } finally {
    closeSync(file);
  }
}

/** The fix for each refusal of Consul; `method` is the quoted name of the auth method. */
const FIXES: readonly (readonly [RegExp, (method: string) => string])[] = [
  [
    /auth method .* not found/,
    (method) => `create ${method}, or is its name in -login-auth-method another?`,
  ],
  [
    /Permission denied/,
    (method) => `no binding rule of ${method} fits what the bearer token says: add one`,
  ],
  [
    /invalid bind name/,
    (method) => `a binding rule of ${method} names a claim that the bearer token does not have`,
  ],
  [/token is expired/, () => "whoever writes the bearer token has to renew it"],
  [/not valid yet/, () => "is the clock of whoever wrote the bearer token ahead of the servers'?"],
  [
    /aud claim/,
    (method) => `have the bearer token made for an audience in BoundAudiences of ${method}`,
  ],
  [/issuer/, (method) => `${method} wants the bearer token of another issuer (BoundIssuer)`],
  [
    /no known key/,
    (method) => `the key that signed the bearer token is none of those that ${method} trusts`,
  ],
  [/error parsing token|missing jwt/, () => "what was given as bearer token is no JWT"],
  [/ACL support disabled/, () => "the servers have no ACLs: leave out -login-auth-method"],
  [/Enterprise feature/, () => "here that is -login-namespace and -login-partition"],
];

/** `error` with the fix, and without the bearer token, which the reply may quote. */
export function explainRefusal(
  error: unknown,
  { authMethod, bearerToken }: Pick<LoginOptions, "authMethod" | "bearerToken">,
): ProxyError {
  const code = error instanceof ProxyError ? error.code : "internal";
  const text = hideSecrets(messageOf(error), [bearerToken, ...bearerToken.split(".")]);
  const fix = FIXES.find(([pattern]) => pattern.test(text))?.[1];
  return new ProxyError(code, fix ? `${text} (${fix(JSON.stringify(authMethod))})` : text);
}
