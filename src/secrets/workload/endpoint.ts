/**
 * Where a SPIFFE Workload API listens, as `SPIFFE_ENDPOINT_SOCKET` says it (SPIFFE Workload Endpoint 4).
 *
 * @module
 */

import * as v from "valibot";
import { type Address, ProxyError } from "../../base/mod.ts";
import { isSocketPath } from "../../base/schema.ts";

/** The variable every workload may be given. */
export const ENDPOINT_VARIABLE = "SPIFFE_ENDPOINT_SOCKET";

const IPV4 = v.pipe(v.string(), v.ipv4());
const IPV6 = v.pipe(v.string(), v.ipv6());

/** `unix:///run/agent.sock` or `tcp://127.0.0.1:8081`; throws `config_invalid` on anything else. */
export function parseEndpointSocket(text: string): Address {
  if (text.startsWith("unix:")) return parseUnix(text);
  if (text.startsWith("tcp:")) return parseTcp(text);
  return fail(text, "it begins with neither unix:// nor tcp://");
}

function parseUnix(text: string): Address {
  if (!text.startsWith("unix://")) return fail(text, "write unix:///run/agent.sock");
  const path = text.slice("unix://".length);
  if (!path.startsWith("/")) {
    return fail(text, "it names a host or a relative path: write unix:///run/agent.sock");
  }
  if (/[?#]/.test(path)) return fail(text, "a unix socket has a path and nothing else");
  const decoded = unescapePath(path);
  if (decoded === undefined) return fail(text, "the path is badly escaped");
  if (path.endsWith("/") || !isSocketPath(decoded)) {
    return fail(text, "the path is not one of a socket, or longer than 107 bytes");
  }
  return { kind: "unix", path: decoded };
}

function parseTcp(text: string): Address {
  const match = /^tcp:\/\/(?:\[([0-9A-Fa-f:.]+)\]|([^\s[\]:/?#@]+)):(\d{1,5})(.*)$/s.exec(text);
  if (!match) return fail(text, "write tcp://127.0.0.1:8081, with an IP address and a port");
  const [, ipv6, name, digits = "", rest] = match;
  if (rest) return fail(text, "nothing may follow the port");
  const host = ipv6 ?? name ?? "";
  // A name could lead elsewhere later, to somebody who hands out identities of his own.
  if (!v.is(ipv6 === undefined ? IPV4 : IPV6, host)) {
    return fail(text, `${JSON.stringify(host)} is not an IP address`);
  }
  const port = Number(digits);
  if (port < 1 || port > 65_535) return fail(text, "the port must be from 1 to 65535");
  return { kind: "tcp", host, port };
}

function unescapePath(path: string): string | undefined {
  try {
    return decodeURIComponent(path);
  } catch {
    // A "%" without two hex digits, or bytes that are no UTF-8: no path.
    return undefined;
  }
}

function fail(text: string, fact: string): never {
  const shown = JSON.stringify(text.slice(0, 200));
  throw new ProxyError("config_invalid", `Cannot use ${shown} as a Workload API socket: ${fact}`);
}
