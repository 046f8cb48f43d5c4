/**
 * Access rules of the admin server. Reading takes no password. A web page in a browser is refused, for
 * requests across origins and under a name that resolves to this machine. POST is allowed from this machine
 * only or, where a token is configured, with the token only.
 *
 * @module
 */

import { ANOTHER_ORIGIN, refuseWebPage } from "../../http/mod.ts";
import { closeSync, fstatSync, openSync, readFileSync, readSync } from "node:fs";
import { hostname } from "node:os";
import { createHash, timingSafeEqual } from "node:crypto";
import { messageOf, ProxyError } from "../../base/mod.ts";

interface GuardedRequest {
  readonly method: string;
  readonly host: string | undefined;
  readonly origin: string | undefined;
  readonly fetchSite: string | undefined;
  readonly authorization: string | undefined;
  /** Remote address; `""`: unknown. */
  readonly peer: string;
}

export interface GuardRules {
  readonly boundHost: string;
  /** Lower case; see {@link machineNames}. */
  readonly names?: readonly string[];
  /** Why an `Authorization` header is refused; absent: no token is configured. */
  readonly tokenFault?: (authorization: string | undefined) => string | undefined;
}

const LOOPBACK_PEER = /^(?:(?:::ffff:)?127(?:\.\d{1,3}){3}|::1)$/i;
/** Why the request is refused; `undefined`: it may pass. */
export function refuseRequest(request: GuardedRequest, rules: GuardRules): string | undefined {
  const own = { ...rules, server: "admin server" };
  const refused = refuseWebPage(request, own);
  if (refused) return refused;
  const { fetchSite, method, peer, authorization } = request;
  if (method === "GET" || method === "HEAD") return undefined;
  if (fetchSite !== undefined && fetchSite !== "same-origin" && fetchSite !== "none") {
    return ANOTHER_ORIGIN;
  }
  if (rules.tokenFault) return rules.tokenFault(authorization);
  if (LOOPBACK_PEER.test(peer)) return undefined;
  return "it would change something, and does not come from this machine's loopback address; ask " +
    "127.0.0.1 or ::1 from there, or start the proxy with -admin-token-file";
}

interface NameFiles {
  readonly hostname: string;
  readonly hosts: string;
  readonly resolv: string;
}

/** Lower case, without the dot at the end. */
export function machineNames(files: NameFiles = systemFiles()): readonly string[] {
  const host = files.hostname.toLowerCase().replace(/\.$/, "");
  if (!/^[a-z0-9_.-]+$/.test(host) || host.startsWith("localhost")) return [];
  const names = new Set([host]);
  const [short = ""] = host.split(".");
  if (!/^\d+$/.test(short)) names.add(short);
  for (const [, ...aliases] of wordsOf(files.hosts)) {
    if (aliases.some((alias) => names.has(alias))) {
      for (const alias of aliases) names.add(alias);
    }
  }
  if (host === short) {
    for (const [key, ...domains] of wordsOf(files.resolv)) {
      if (key !== "search" && key !== "domain") continue;
      for (const domain of domains) names.add(`${short}.${domain.replace(/\.$/, "")}`);
    }
  }
  return [...names];
}

function wordsOf(text: string): readonly (readonly string[])[] {
  return text.toLowerCase().split("\n").map((line) =>
    line.replace(/[#;].*/, "").split(/\s+/).filter((word) => word !== "")
  );
}

function systemFiles(): NameFiles {
  return {
    hostname: hostname(),
    hosts: readFile("/etc/hosts"),
    resolv: readFile("/etc/resolv.conf"),
  };
}

function readFile(path: string): string {
  try {
    return readFileSync(path, "utf8").slice(0, 100_000);
  } catch {
    // A missing file only gives fewer names.
    return "";
  }
}

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
