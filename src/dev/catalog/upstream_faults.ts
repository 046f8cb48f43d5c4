/**
 * What Consul minds about the upstreams of a registration, in its words.
 *
 * @module
 */

import { isObject, type Json, type JsonObject } from "../http/decode.ts";
import { numberAt, textAt } from "../http/fields.ts";

/** In the order of the upstreams. `plainType` is what an upstream without a type is shown as. */
export function upstreamFaults(proxy: JsonObject, plainType: "" | "service"): readonly string[] {
  const upstreams = Array.isArray(proxy["Upstreams"]) ? proxy["Upstreams"] as readonly Json[] : [];
  const names = new Set<string>();
  const binds = new Set<string>();
  return upstreams.filter(isObject).flatMap((upstream) => {
    const own = ownFaults(upstream);
    if (own.length > 0) return own;
    const port = numberAt(upstream, "LocalBindPort");
    const path = textAt(upstream, "LocalBindSocketPath");
    const bind = path !== ""
      ? path
      : `${textAt(upstream, "LocalBindAddress") || "127.0.0.1"}:${port}`;
    const type = textAt(upstream, "DestinationType") || plainType;
    const key = `type="${type}", name="${textAt(upstream, "DestinationName")}", ` +
      `partition="${textAt(upstream, "DestinationPartition")}", ` +
      `namespace="${textAt(upstream, "DestinationNamespace")}", ` +
      `peer="${textAt(upstream, "DestinationPeer")}", ` +
      `datacenter="${textAt(upstream, "Datacenter")}"`;
    const faults = [
      ...binds.has(bind)
        ? [
          "upstreams cannot contain duplicates by local bind address and port or unix path; " +
          `"${bind}" is specified twice`,
        ]
        : [],
      ...names.has(key) ? [`upstreams cannot contain duplicates of [${key}]`] : [],
    ];
    binds.add(bind);
    names.add(key);
    return faults;
  });
}

function ownFaults(upstream: JsonObject): readonly string[] {
  const name = textAt(upstream, "DestinationName");
  const type = textAt(upstream, "DestinationType");
  const port = numberAt(upstream, "LocalBindPort");
  const path = textAt(upstream, "LocalBindSocketPath");
  if (name === "") return ["upstream destination name cannot be empty"];
  if (name === "*") return ["upstream destination name cannot be a wildcard"];
  if (!["", "service", "prepared_query"].includes(type)) {
    return [`unknown upstream destination type: "${type}"`];
  }
  if (textAt(upstream, "DestinationPeer") !== "" && textAt(upstream, "Datacenter") !== "") {
    return ["upstream cannot specify both destination peer and datacenter"];
  }
  if (port === 0 && path === "") {
    return ["upstream local bind port or local socket path must be defined and nonzero"];
  }
  if (port !== 0 && path !== "") {
    return [
      "only one of upstream local bind port or local socket path can be defined and nonzero",
    ];
  }
  return [];
}
