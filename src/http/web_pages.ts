/**
 * Keeps web pages away from servers that are meant for programs: a page in a browser must not be able to
 * ask, neither across origins nor under a name of its own that resolves to this machine.
 *
 * @module
 */

export interface BrowserRequest {
  readonly host: string | undefined;
  readonly origin: string | undefined;
}

export interface OwnHosts {
  /** As given to the listener. */
  readonly boundHost: string;
  /** What the listener is called, for the refusal. */
  readonly server: string;
  /** Lower case. */
  readonly names?: readonly string[];
}

const LOOPBACK = /^(?:localhost|127(?:\.\d{1,3}){3}|\[::1\])$/;
/** No name can be made to resolve to something that is an address already. */
const IP_LITERAL = /^(?:\d{1,3}(?:\.\d{1,3}){3}|\[[0-9a-f:.]+\])$/;
const ANY_ADDRESS = new Set(["0.0.0.0", "[::]"]);

/** Why the request is refused, to continue "because"; `undefined`: no page of another origin asks. */
export function refuseWebPage(asked: BrowserRequest, own: OwnHosts): string | undefined {
  const host = asked.host?.toLowerCase();
  if (host === undefined || host === "") return "it has no Host header";
  const [, name = "", port = ""] = /^(\[[0-9a-f:.]+\]|[^:[\]]+)(:\d{1,5})?$/.exec(host) ?? [];
  const bound = bracketed(own.boundHost.toLowerCase());
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

function bracketed(host: string): string {
  return host.includes(":") && !host.startsWith("[") ? `[${host}]` : host;
}
