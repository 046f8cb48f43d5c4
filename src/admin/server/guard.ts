/**
 * Who may ask. Reading takes no password; a web page in somebody's browser must not be able to do it,
 * neither by a request across origins nor under a name that resolves to this machine. What changes
 * something is for this machine, or for who shows the token where there is one.
 *
 * @module
 */

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

const LOOPBACK = /^(?:localhost|127(?:\.\d{1,3}){3}|\[::1\])$/;
const LOOPBACK_PEER = /^(?:(?:::ffff:)?127(?:\.\d{1,3}){3}|::1)$/i;
/** No name can be made to resolve to something that is an address already. */
const IP_LITERAL = /^(?:\d{1,3}(?:\.\d{1,3}){3}|\[[0-9a-f:.]+\])$/;
const ANY_ADDRESS = new Set(["0.0.0.0", "[::]"]);

/** Why the request is refused; `undefined`: it may pass. */
export function refuseRequest(request: GuardedRequest, rules: GuardRules): string | undefined {
  const host = request.host?.toLowerCase();
  if (host === undefined || host === "") return "it has no Host header";
  const [, name = "", port = ""] = /^(\[[0-9a-f:.]+\]|[^:[\]]+)(:\d{1,5})?$/.exec(host) ?? [];
  const bound = bracketed(rules.boundHost.toLowerCase());
  const named = LOOPBACK.test(name) || name === bound || rules.names?.includes(name) ||
    (ANY_ADDRESS.has(bound) && IP_LITERAL.test(name));
  if (!named) {
    return "its Host header names neither this machine nor the address that the admin server " +
      "listens on";
  }
  const { origin, fetchSite, method, peer, authorization } = request;
  if (origin !== undefined && origin.toLowerCase() !== `http://${name}${port}`) {
    return "it comes from a web page of another origin";
  }
  if (method === "GET" || method === "HEAD") return undefined;
  if (fetchSite !== undefined && fetchSite !== "same-origin" && fetchSite !== "none") {
    return "it comes from a web page of another origin";
  }
  if (rules.tokenFault) return rules.tokenFault(authorization);
  if (LOOPBACK_PEER.test(peer)) return undefined;
  return "it would change something, and does not come from this machine's loopback address; ask " +
    "127.0.0.1 or ::1 from there, or start the proxy with -admin-token-file";
}

function bracketed(host: string): string {
  return host.includes(":") && !host.startsWith("[") ? `[${host}]` : host;
}
