/** Keys of config entries that Postern does not follow, as sentences. @module */

import { refusalReason } from "../../consul/mod.ts";
import type { Refusal } from "../../snapshot/mod.ts";
import type { ConsulState } from "./consul_state.ts";

type Entries = Pick<ConsulState, "mesh" | "proxyDefaults" | "serviceDefaults">;

export function entryWarnings({ mesh, proxyDefaults, serviceDefaults }: Entries): string[] {
  return [mesh, proxyDefaults, serviceDefaults].flatMap((entry) => entry?.warnings ?? []);
}

/**
 * `MutualTLSMode` is in no registration. The service's own mode counts before that of all proxies;
 * any but strict is refused, and the public listener goes on taking mutual TLS only.
 */
export function refusedMutualTls(
  { proxyDefaults, serviceDefaults }: Entries,
  service: string,
): readonly Refusal[] {
  const own = serviceDefaults?.mutualTlsMode;
  const mode = own ?? proxyDefaults?.mutualTlsMode ?? "strict";
  if (mode === "strict") return [];
  const place = own === undefined ? "proxy-defaults" : "service-defaults";
  const name = own === undefined ? "global" : service;
  const reason = mode === "permissive"
    ? refusalReason(place, "MutualTLSMode")
    : `${JSON.stringify(mode)} is not known; write strict`;
  return [{ what: `${place} ${name}: MutualTLSMode`, reason }];
}

export function unfollowedOf(
  known: Entries & Pick<ConsulState, "registration">,
  { upstream, refused, ignored = [] }: {
    /** Its id; `undefined`: the proxy and its service. */
    readonly upstream: string | undefined;
    readonly refused: readonly Refusal[];
    /** Settings of the config entries that are left out. */
    readonly ignored?: readonly string[];
  },
): readonly string[] {
  const { registration } = known;
  const sentenceOf = ({ what, reason }: Refusal) => `${what} is refused: ${reason}`;
  if (upstream === undefined) {
    const permissive = refusedMutualTls(known, registration?.service ?? "");
    const required = refused.filter(({ reason }) => reason.startsWith("EnvoyExtensions["));
    return [
      ...registration?.warnings ?? [],
      ...entryWarnings(known),
      ...ignored,
      ...[...permissive, ...required].map(sentenceOf),
    ];
  }
  const declared = registration?.upstreams.find(({ id }) => id === upstream);
  const own = refused.filter(({ what }) => what === `upstream ${upstream}`);
  return [...declared?.warnings ?? [], ...own.map(sentenceOf)];
}
