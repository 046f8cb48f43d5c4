/**
 * The caller that a query names, as if it had proved that identity.
 *
 * @module
 */

import { namedCallerElement } from "../../http/mod.ts";
import { formatServiceId, parseServiceId, type TrustedPeer } from "../../identity/mod.ts";
import type { Snapshot } from "../../snapshot/mod.ts";
import type { ServedListener } from "../listen/listener.ts";

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
