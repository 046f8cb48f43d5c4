/** The listener that an explained request would reach, and the caller that it names. @module */

import { type Snapshot, upstreamLabel, upstreamsNamed } from "../../snapshot/mod.ts";
import type { ExplainQuery } from "./explanation.ts";
import type { ServedListener } from "../listen/listener.ts";
import { namedCallerElement } from "../../http/mod.ts";
import { formatServiceId, parseServiceId, type TrustedPeer } from "../../identity/mod.ts";

export interface ExplainContext {
  readonly snapshot: Snapshot;
  /** Listeners by their names, and upstreams that edges lead to. */
  readonly listeners: ReadonlyMap<string, ServedListener>;
  /** Why the listener of that name is not bound; `""`: it is, or needs no address. */
  faultOf(listener: string): string;
}

type Found = { readonly listener: ServedListener } | {
  readonly kind: "unknown";
  readonly reason: string;
};

export function findListener(
  { to, host }: ExplainQuery,
  { listeners, snapshot }: ExplainContext,
): Found {
  const all = [...listeners.values()];
  if (to.kind === "listener") {
    return found(listeners.get(to.name), "listener", to.name, [...listeners.keys()]);
  }
  if (to.kind === "inbound") {
    const name = Object.keys(snapshot.inbound)[0] ?? "";
    return found(listeners.get(name), "listener for callers of the service", name, []);
  }
  const outbounds = all.flatMap(({ name, upstream }) => upstream ? [{ name, upstream }] : []);
  const [first, second] = upstreamsNamed(outbounds, to.name, ({ upstream }) => upstream.part);
  if (first && second) {
    const ids = `${first.name} ${second.name}`;
    return { kind: "unknown", reason: `several upstreams have the name "${to.name}": ${ids}` };
  }
  const edge = all.find(({ kind, httpListener }) =>
    kind === "edge" && httpListener?.routeOf({ authority: host ?? to.name })
  );
  const labels = outbounds.map(({ upstream }) => upstreamLabel(upstream.part));
  return found(first ? listeners.get(first.name) : edge, "upstream", to.name, labels);
}

function found(
  listener: ServedListener | undefined,
  what: string,
  name: string,
  known: readonly string[],
): Found {
  if (listener) return { listener };
  const there = known.length === 0 ? "there is none" : `there is: ${known.join(" ")}`;
  return { kind: "unknown", reason: `there is no ${what}${name && ` "${name}"`}; ${there}` };
}

/** `undefined`: it shows no certificate. A name alone is a service of our own datacenter. */
export function callerOfQuery(
  source: string,
  { listener, snapshot }: {
    readonly listener: Pick<ServedListener, "tls">;
    readonly snapshot: Snapshot;
  },
): TrustedPeer | undefined {
  if (source === "") return undefined;
  const credentials = listener.tls?.credentials ?? null;
  const own = credentials === null ? null : snapshot.ownCredentials[credentials] ?? null;
  const [trustDomain = ""] = (own ?? snapshot.credentials)?.trustDomains ?? [];
  const uri = source.includes("://") ? source : formatServiceId({
    trustDomain,
    partition: "default",
    namespace: "default",
    datacenter: snapshot.datacenter,
    service: source,
  });
  const parsed = parseServiceId(uri);
  return {
    kind: "trusted",
    id: parsed.kind === "service" ? parsed.id : undefined,
    uri,
    name: uri,
    verified: true,
    serial: "",
    rootId: "",
    notBeforeMs: 0,
    notAfterMs: Infinity,
  };
}

/** The `X-Forwarded-Client-Cert` that the application would get, as far as it is known. */
export function clientCertOfQuery(
  caller: TrustedPeer | undefined,
  listener: Pick<ServedListener, "tls" | "context">,
): string {
  const { tls, context: { facts: { trusts } } } = listener;
  if (!caller || !tls) return "";
  return namedCallerElement({ by: trusts.of(tls.credentials)?.ownUris ?? [], uri: caller.uri });
}
