/**
 * What a proxy proves by who it is, to get a token: given, or in a file that an orchestrator writes and
 * renews. It is as good as a password, and never shown.
 *
 * @module
 */

import { Buffer } from "node:buffer";
import { closeSync, openSync, readSync, statSync } from "node:fs";
import { messageOf, ProxyError } from "../../../base/mod.ts";
import type { LoginOptions } from "../types.ts";

/** Kubernetes' have two thousand bytes, and none fits a header with more than this. */
const LIMIT_BYTES = 64 * 1024;

/** Trimmed; fails with `agent_failed`, because a file that is missing or bad may come or mend. */
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
  const fault = bearerFault(token);
  if (fault) throw new ProxyError("agent_failed", `${cannot} ${fault}`);
  return token;
}

/** What is wrong with a trimmed bearer token, for people; `""`: nothing that can be seen. */
export function bearerFault(token: string): string {
  if (token === "") return "is empty";
  // deno-lint-ignore no-control-regex -- these are what must not be in it
  return /[\x00-\x1f\x7f]/.test(token) ? "has characters that no bearer token has" : "";
}

function readFile(path: string): string {
  // What is no file could be read for ever, or not at all.
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
