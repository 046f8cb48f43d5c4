/**
 * Who may ask. The admin server has no password; a web page in somebody's browser must not be able to
 * use it, neither by a request across origins nor under a name that resolves to this machine.
 *
 * @module
 */

export interface GuardedRequest {
  readonly method: string;
  readonly host: string | undefined;
  readonly origin: string | undefined;
  /** `Sec-Fetch-Site`. */
  readonly fetchSite: string | undefined;
}

const LOOPBACK = /^(?:localhost|127(?:\.\d{1,3}){3}|\[::1\])$/;
/** No name can be made to resolve to something that is an address already. */
const IP_LITERAL = /^(?:\d{1,3}(?:\.\d{1,3}){3}|\[[0-9a-f:.]+\])$/;
const ANY_ADDRESS = new Set(["0.0.0.0", "[::]"]);

/** Why the request is refused; `undefined`: it may pass. `boundHost` as given to the listener. */
export function refuseRequest(request: GuardedRequest, boundHost: string): string | undefined {
  const host = request.host?.toLowerCase();
  if (host === undefined || host === "") return "it has no Host header";
  const [, name = "", port = ""] = /^(\[[0-9a-f:.]+\]|[^:[\]]+)(:\d{1,5})?$/.exec(host) ?? [];
  const bound = bracketed(boundHost.toLowerCase());
  const named = LOOPBACK.test(name) || name === bound ||
    (ANY_ADDRESS.has(bound) && IP_LITERAL.test(name));
  if (!named) {
    return "its Host header names neither localhost nor the address that the admin server listens on";
  }
  const { origin, fetchSite, method } = request;
  if (origin !== undefined && origin.toLowerCase() !== `http://${name}${port}`) {
    return "it comes from a web page of another origin";
  }
  const reads = method === "GET" || method === "HEAD";
  if (!reads && fetchSite !== undefined && fetchSite !== "same-origin" && fetchSite !== "none") {
    return "it comes from a web page of another origin";
  }
  return undefined;
}

function bracketed(host: string): string {
  return host.includes(":") && !host.startsWith("[") ? `[${host}]` : host;
}
