/**
 * Access rules of the admin server. Reading takes no password. A web page in a browser is refused, for
 * requests across origins and under a name that resolves to this machine. POST is allowed from this machine
 * only or, where a token is configured, with the token only.
 *
 * @module
 */

import { ANOTHER_ORIGIN, refuseWebPage } from "../../http/mod.ts";
import { readFileSync } from "node:fs";
import { hostname } from "node:os";

interface GuardedRequest {
  readonly method: string;
  readonly host: string | undefined;
  readonly origin: string | undefined;
  /** `Sec-Fetch-Site`. */
  readonly fetchSite: string | undefined;
  /** `Authorization`. */
  readonly authorization: string | undefined;
  /** Remote address; `""`: unknown. */
  readonly peer: string;
}

export interface GuardRules {
  /** Host of the bound address. */
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
  /** `/etc/hosts`. */
  readonly hosts: string;
  /** `/etc/resolv.conf`. */
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
  return { hostname: hostname(), hosts: read("/etc/hosts"), resolv: read("/etc/resolv.conf") };
}

function read(path: string): string {
  try {
    return readFileSync(path, "utf8").slice(0, 100_000);
  } catch {
    // A missing file only gives fewer names.
    return "";
  }
}
