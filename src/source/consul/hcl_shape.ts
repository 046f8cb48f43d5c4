/**
 * Configuration as it was meant, where HCL's way through Consul changed its shape: there a block and a
 * list of one are the same, so `sanMatchers = [{ ... }]` arrives as a map, `spkiPins = ["..."]` as a
 * text, and what was repeated, or went past Consul's own mending, as a list of one map.
 *
 * @module
 */

import { isRecord } from "../../base/schema.ts";

/** Keys whose value is a list, in our own form and in Envoy's; plain keys. */
const LISTS: ReadonlySet<string> = new Set([
  ...["certificates", "sanmatchers", "spkipins", "certificatehashes", "ciphersuites"],
  ...["names", "suffixes", "prefetch", "prefetchsecretnames"],
  ...["tlscertificates", "tlscertificatesdssecretconfigs", "grpcservices", "initialmetadata"],
  ...["matchtypedsubjectaltnames", "matchsubjectaltnames", "trustdomains"],
  ...["verifycertificatehash", "verifycertificatespki", "endpoints", "lbendpoints"],
]);
/** Its keys are free names of the user's. */
const FREE = "metadata";
/** Deeper than any known key; values below it stay as they are. */
const DEPTH_LIMIT = 32;

/** The value of `postern_tls` with maps where maps are meant, and lists where lists are. Never throws. */
export function fromHcl(value: unknown): unknown {
  return shaped(value, 0);
}

/** `isList`: a list is meant here. */
function shaped(value: unknown, depth: number, isList = false): unknown {
  if (depth > DEPTH_LIMIT) return value;
  if (Array.isArray(value)) {
    const [only] = value;
    if (!isList && value.length === 1 && isRecord(only)) return fields(only, depth);
    return value.map((item) => shaped(item, depth + 1));
  }
  const whole = isRecord(value) ? fields(value, depth) : value;
  return isList && value !== null ? [whole] : whole;
}

function fields(record: Readonly<Record<string, unknown>>, depth: number): unknown {
  return Object.fromEntries(
    Object.entries(record).map(([key, value]) => {
      const plain = key.replaceAll("_", "").toLowerCase();
      if (plain === FREE) return [key, value];
      if (plain === "sdsclusters") return [key, servers(value, depth + 1)];
      return [key, shaped(value, depth + 1, LISTS.has(plain))];
    }),
  );
}

/** Servers by name, or a list of servers with a name each. */
function servers(value: unknown, depth: number): unknown {
  if (depth > DEPTH_LIMIT) return value;
  const server = (item: unknown) => shaped(item, depth + 1);
  if (Array.isArray(value)) {
    const [only] = value;
    return value.length === 1 && isRecord(only) && !hasName(only)
      ? servers(only, depth + 1)
      : value.map(server);
  }
  if (!isRecord(value)) return value;
  if (hasName(value)) return [server(value)];
  // A server may have the name of any field.
  return Object.fromEntries(Object.entries(value).map(([name, item]) => [name, server(item)]));
}

function hasName(value: Readonly<Record<string, unknown>>): boolean {
  return typeof value.name === "string";
}
