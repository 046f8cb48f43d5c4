/**
 * `-upstream name[.type]:[addr:]port`, as Consul's built-in proxy takes it, and an IPv6 address in brackets,
 * which Consul does not take.
 *
 * @module
 */

import { hostFault, ProxyError } from "../../base/mod.ts";
import { quote } from "./parse_flags.ts";
import { parsePort } from "./read_values.ts";

export interface UpstreamArgument {
  readonly name: string;
  readonly type: "service" | "prepared_query";
  readonly host: string;
  readonly port: number;
}

const LONGEST = 500;

export function parseUpstream(text: string): UpstreamArgument {
  const match = /^([^:[\]]+):(?:(?:([^:[\]]*)|\[([0-9A-Fa-f:.]+)\]):)?([^:[\]]+)$/.exec(text);
  if (!match || text.length > LONGEST) {
    throw bad(text, "want name:port, name:address:port, or name.query:port for a prepared query");
  }
  const [, nameAndType = "", plain, bracketed, portText = ""] = match;
  // The type follows the last dot: a service name of the mesh is a DNS label and has no dot.
  const dot = nameAndType.lastIndexOf(".");
  const name = dot < 0 ? nameAndType : nameAndType.slice(0, dot);
  const type = dot < 0 ? "" : nameAndType.slice(dot + 1);
  if (name === "") throw bad(text, "it names no service");
  if (type !== "" && type !== "service" && type !== "query") {
    throw bad(text, `the type is ${quote(type)}; want service or query`);
  }
  const port = parsePort(portText, 1);
  if (port === undefined) throw bad(text, "the port must be a number from 1 to 65535");
  const host = bracketed ?? (plain || "127.0.0.1");
  const fault = hostFault(host);
  if (fault !== undefined) throw bad(text, `it names ${fault}`);
  return {
    name,
    type: type === "query" ? "prepared_query" : "service",
    host,
    port,
  };
}

/** Upstreams sorted by name; the last one of a name counts, as in Consul. */
export function parseUpstreams(texts: readonly string[]): readonly UpstreamArgument[] {
  const byName = new Map(texts.map(parseUpstream).map((upstream) => [upstream.name, upstream]));
  return [...byName.values()].sort((a, b) => a.name < b.name ? -1 : a.name > b.name ? 1 : 0);
}

function bad(text: string, reason: string): ProxyError {
  return new ProxyError("usage", `Cannot read -upstream ${quote(text)}: ${reason}`);
}
