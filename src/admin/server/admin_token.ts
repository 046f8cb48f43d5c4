/**
 * The token for POST requests over the network. Its file is read for each request, so that a change or
 * removal has effect at once.
 *
 * @module
 */

import { createHash, timingSafeEqual } from "node:crypto";
import { closeSync, fstatSync, openSync, readSync } from "node:fs";
import { messageOf, ProxyError } from "../../base/mod.ts";

const LIMIT_BYTES = 4_096;
const MIN_CHARS = 16;
/** Mode bits that let others read or write the file, or its group write it. */
const TOO_OPEN = 0o026;

/** Throws `config_invalid` with the fault; no message contains the token. */
export function readAdminToken(file: string): string {
  const cannot = `Cannot use -admin-token-file ${JSON.stringify(file)}`;
  const { mode, text } = read(file, cannot);
  if (mode & TOO_OPEN) {
    const octal = (mode & 0o7777).toString(8).padStart(4, "0");
    throw invalid(`${cannot}: others may read or write it (mode ${octal}); chmod 0600`);
  }
  const token = text.trim();
  if (token.length < MIN_CHARS || text.length > LIMIT_BYTES || /[^\x21-\x7e]/.test(token)) {
    throw invalid(
      `${cannot}: want one token of ${MIN_CHARS} to ${LIMIT_BYTES} printable characters`,
    );
  }
  return token;
}

/** Why this `Authorization` header is refused; `undefined`: it is valid. */
export function tokenFault(file: string, authorization: string | undefined): string | undefined {
  let token: string;
  try {
    token = readAdminToken(file);
  } catch (error) {
    return messageOf(error);
  }
  const [, shown] = /^bearer +(\S+)$/i.exec(authorization ?? "") ?? [];
  if (shown === undefined) {
    return 'it would change something, and shows no token; send "Authorization: Bearer TOKEN" ' +
      "with that of -admin-token-file";
  }
  return timingSafeEqual(digest(shown), digest(token)) ? undefined : "its token is not ours";
}

function read(file: string, cannot: string): { readonly mode: number; readonly text: string } {
  let descriptor: number;
  try {
    descriptor = openSync(file, "r");
  } catch (error) {
    throw invalid(`${cannot}: ${messageOf(error)}`, error);
  }
  try {
    const status = fstatSync(descriptor);
    if (!status.isFile()) throw invalid(`${cannot}: it is no file`);
    const bytes = new Uint8Array(LIMIT_BYTES + 1);
    const length = readSync(descriptor, bytes, 0, bytes.length, 0);
    return { mode: status.mode, text: new TextDecoder().decode(bytes.subarray(0, length)) };
  } finally {
    closeSync(descriptor);
  }
}

/** The length is the same for every text. */
function digest(text: string): Uint8Array {
  return createHash("sha256").update(text).digest();
}

function invalid(message: string, cause?: unknown): ProxyError {
  return new ProxyError("config_invalid", message, { cause });
}
