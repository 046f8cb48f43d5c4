/**
 * Names under which operators write an upstream: its id, Consul's short form of it, its service, its
 * local address.
 *
 * @module
 */

import { formatAddress } from "../base/mod.ts";
import type { UpstreamPart } from "./snapshot.ts";

export type NamedUpstream = Pick<UpstreamPart, "id" | "name" | "bind">;

/** Consul's identifier of an upstream at Envoy: `db`, `db?dc=dc2`, `prepared_query:geo`. */
export function upstreamLabel({ id, name }: Pick<UpstreamPart, "id" | "name">): string {
  const type = /^(?!service:|ingress:)([a-z_]+:)/.exec(id)?.[1] ?? "";
  const place = /\?(?:dc|peer)=.*$/.exec(id)?.[0] ?? "";
  return `${type}${name}${place}`;
}

/** The address for the application; `""`: the upstream is reached through an ingress listener only. */
export function localAddressOf({ bind }: Pick<NamedUpstream, "bind">): string {
  return bind ? formatAddress(bind) : "";
}

/**
 * The upstreams that `name` means. An id, a label or an address is exact and comes before a service's
 * name, which upstreams of several datacenters share. As in a URL, a port may follow the service's name.
 */
export function upstreamsNamed<T>(
  upstreams: readonly T[],
  name: string,
  partOf: (upstream: T) => NamedUpstream,
): readonly T[] {
  const exact = upstreams.filter((upstream) => {
    const part = partOf(upstream);
    return [part.id, upstreamLabel(part), localAddressOf(part)].includes(name);
  });
  if (exact.length > 0) return exact;
  const service = name.replace(/:\d+$/, "");
  return upstreams.filter((upstream) => partOf(upstream).name === service);
}
