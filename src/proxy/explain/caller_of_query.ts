/**
 * The caller that a question about a request names, as if it had proven to be that.
 *
 * @module
 */

import { namedCallerElement } from "../../http/mod.ts";
import { formatServiceId, parseServiceId, type TrustedPeer } from "../../identity/mod.ts";
import type { Snapshot } from "../../snapshot/mod.ts";
import type { ServedListener } from "../listen/listener.ts";

/** `undefined`: it shows no certificate. The name of a service is of our own datacenter. */
export function callerOfQuery(
  source: string,
  { front, snapshot }: { readonly front: ServedListener; readonly snapshot: Snapshot },
): TrustedPeer | undefined {
  if (source === "") return undefined;
  const credentials = front.tls?.credentials ?? null;
  const own = credentials === null ? null : snapshot.ownCredentials[credentials] ?? null;
  const [trustDomain = ""] = (own ?? snapshot.credentials)?.trustDomains ?? [];
  const uri = source.includes("://") ? source : formatServiceId({
    ...{ trustDomain, partition: "default", namespace: "default" },
    ...{ datacenter: snapshot.datacenter, service: source },
  });
  const parsed = parseServiceId(uri);
  return {
    ...{ kind: "trusted", id: parsed.kind === "service" ? parsed.id : undefined, uri, name: uri },
    ...{ verified: true, serial: "", rootId: "", notBeforeMs: 0, notAfterMs: Infinity },
  };
}

/** What the application is told of it in `X-Forwarded-Client-Cert`, as far as that is known. */
export function clientCertOfQuery(caller: TrustedPeer | undefined, front: ServedListener): string {
  const { tls, context: { facts: { trusts } } } = front;
  if (!caller || !tls) return "";
  return namedCallerElement({ by: trusts.of(tls.credentials)?.ownUris ?? [], uri: caller.uri });
}
