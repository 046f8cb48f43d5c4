/**
 * What no single key of a configuration file can show: what is given twice, and what does not go
 * together.
 * @module
 */

import { formatAddress } from "../../base/mod.ts";
import { parseServiceId } from "../../identity/mod.ts";
import type { Problem } from "../../base/schema.ts";
import { intentionContradictions } from "./file_intentions.ts";
import { httpContradictions } from "./file_http.ts";
import type { FileConfigOutput } from "./file_config_schema.ts";

/** All contradictions, not only the first. */
export function contradictions(config: FileConfigOutput): readonly Problem[] {
  const found: Problem[] = [];
  if (!config.inbound && config.upstreams.length === 0) {
    found.push({
      path: [],
      message: 'has neither "inbound" nor "upstreams": nothing would be served',
    });
  }
  for (const problem of config.inbound ? httpContradictions(config.inbound) : []) {
    found.push({ ...problem, path: ["inbound", ...problem.path] });
  }
  const names = new Set<string>();
  const binds = new Set(config.inbound ? [formatAddress(config.inbound.bind)] : []);
  config.upstreams.forEach((upstream, index) => {
    const at = (key: string, message: string) =>
      found.push({ path: ["upstreams", index, key], message });
    if (names.has(upstream.name)) at("name", `"${upstream.name}" is used by an earlier upstream`);
    names.add(upstream.name);
    const bind = formatAddress(upstream.bind);
    if (binds.has(bind)) at("bind", `${bind} is taken by an earlier listener`);
    binds.add(bind);
    const addresses = new Set<string>();
    upstream.addresses.forEach(({ host, port }, position) => {
      const address = `${host}:${port}`;
      if (addresses.has(address)) {
        const path = ["upstreams", index, "addresses", position];
        found.push({ path, message: "is given twice" });
      }
      addresses.add(address);
    });
    const hasIdentity = upstream.identity !== undefined;
    const hasIds = upstream.spiffeIds !== undefined;
    // Rules of its own credentials may name the server instead; those from SDS are known later.
    if (hasIdentity && hasIds || !hasIdentity && !hasIds && upstream.tls === undefined) {
      at("identity", 'is needed, or "spiffeIds"; one of the two says who must answer');
    }
    if (hasIdentity && config.trustDomain === undefined) {
      at("identity", 'needs "trustDomain" at the top of the file');
    }
    for (const id of upstream.spiffeIds ?? []) {
      // An upstream with credentials of its own names its own bundle for each id.
      if (upstream.tls !== undefined || config.trustDomain === undefined) continue;
      const parsed = parseServiceId(id);
      if (parsed.kind === "refused") at("spiffeIds", `has "${id}", which ${parsed.reason}`);
      else if (!id.startsWith(`spiffe://${config.trustDomain}/`)) {
        at("spiffeIds", `has "${id}", which is not in trust domain "${config.trustDomain}"`);
      }
    }
    for (const problem of httpContradictions(upstream)) {
      found.push({ ...problem, path: ["upstreams", index, ...problem.path] });
    }
    if (upstream.socketMode !== undefined && upstream.bind.kind !== "unix") {
      at("socketMode", "is for unix sockets only");
    }
    const { balancing } = upstream;
    if (balancing.kind === "ring_hash" && balancing.minimumSize > balancing.maximumSize) {
      at("balancing", "has a minimumSize above its maximumSize");
    }
  });
  found.push(...intentionContradictions(config));
  return found;
}
