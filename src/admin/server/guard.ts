/**
 * Who may ask. Reading takes no password; a web page in somebody's browser must not be able to do it,
 * neither by a request across origins nor under a name that resolves to this machine. What changes
 * something is for this machine, or for who shows the token where there is one.
 *
 * @module
 */

import { ANOTHER_ORIGIN, refuseWebPage } from "../../http/mod.ts";

export interface GuardedRequest {
  readonly method: string;
  readonly host: string | undefined;
  readonly origin: string | undefined;
  /** `Sec-Fetch-Site`. */
  readonly fetchSite: string | undefined;
  /** `Authorization`. */
  readonly authorization: string | undefined;
  /** Address at the other end; `""` where it is not known. */
  readonly peer: string;
}

export interface GuardRules {
  /** As given to the listener. */
  readonly boundHost: string;
  /** Lower case; see {@link machineNames}. */
  readonly names?: readonly string[];
  /** Why what an `Authorization` header shows is not enough; absent: there is no token. */
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
