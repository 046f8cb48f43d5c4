/**
 * Keeps web pages away from servers that are meant for programs. A page in a browser must not be able to
 * send requests to them, neither across origins nor under a name of its own that resolves to this machine.
 *
 * @module
 */

export interface BrowserRequest {
  readonly host: string | undefined;
  readonly origin: string | undefined;
}

export interface OwnHosts {
  /** The address as configured for the listener. */
  readonly boundHost: string;
  /** Name of the listener, for the refusal. */
  readonly server: string;
  /** Lower case. */
  readonly names?: readonly string[];
}

const LOOPBACK = /^(?:localhost|127(?:\.\d{1,3}){3}|\[::1\])$/;
/** An IP literal: no attacker can make a name resolve to it. */
const IP_LITERAL = /^(?:\d{1,3}(?:\.\d{1,3}){3}|\[[0-9a-f:.]+\])$/;
const ANY_ADDRESS = new Set(["0.0.0.0", "[::]"]);

/** The reason to refuse a page of another origin, to continue "because"; `undefined`: it is none. */
export function refuseWebPage(asked: BrowserRequest, own: OwnHosts): string | undefined {
  const host = asked.host?.toLowerCase();
  if (host === undefined || host === "") return "it has no Host header";
  const [, name = "", port = ""] = /^(\[[0-9a-f:.]+\]|[^:[\]]+)(:\d{1,5})?$/.exec(host) ?? [];
  const ownHost = own.boundHost.toLowerCase();
  const bound = ownHost.includes(":") && !ownHost.startsWith("[") ? `[${ownHost}]` : ownHost;
  const named = LOOPBACK.test(name) || name === bound || own.names?.includes(name) ||
    (ANY_ADDRESS.has(bound) && IP_LITERAL.test(name));
  if (!named) {
    return `its Host header names neither this machine nor the address that the ${own.server} ` +
      "listens on";
  }
  const { origin } = asked;
  return origin === undefined || origin.toLowerCase() === `http://${name}${port}`
    ? undefined
    : ANOTHER_ORIGIN;
}

export const ANOTHER_ORIGIN = "it comes from a web page of another origin";
