/**
 * The proxies that stories about TLS compare, and the interface that such stories need of each.
 *
 * @module
 */

import type { Place } from "../wire/echo.ts";
import { sdsSecret, startEnvoyTls, type StartTlsProxy, type TlsProxy } from "./envoy_tls.ts";
import { startPosternTls } from "./postern_tls.ts";
import { eventually } from "../process/process.ts";
import { probeTls, serialOf } from "../wire/tls_probe.ts";
import type { ClientPair } from "../wire/tls_session.ts";

export type Subject = "Envoy" | "Postern";

/** One row per proxy: all of them must pass the same stories. */
export const SUBJECTS: readonly (readonly [Subject, StartTlsProxy])[] = [
  ["Envoy", startEnvoyTls],
  ["Postern", startPosternTls],
];

export const APIS = ["sotw", "delta"] as const;
export type Api = (typeof APIS)[number];

/** A `DownstreamTlsContext`: leaf `web` for the listener, and `roots` for its clients. */
export function mutualTls(api: Api, initialFetchTimeoutMs?: number): Record<string, unknown> {
  const options = {
    api,
    ...(initialFetchTimeoutMs === undefined ? {} : { initialFetchTimeoutMs }),
  };
  return {
    require_client_certificate: true,
    common_tls_context: {
      tls_certificate_sds_secret_configs: [sdsSecret("web", options)],
      validation_context_sds_secret_config: sdsSecret("roots", options),
    },
  };
}

/** Where the listener is, once it is open and shows this leaf. */
export async function waitForLeaf(
  proxy: TlsProxy,
  leaf: { readonly certPem: string },
  client?: ClientPair & { readonly servername?: string },
  options: { readonly timeoutMs?: number } = {},
): Promise<Place> {
  return await eventually("the listener shows the new leaf", async () => {
    const place = await proxy.place("tls_in");
    if (!place) throw new Error("it is not open");
    const outcome = await probeTls(place, client);
    if (!outcome.accepted) throw new Error(outcome.alert);
    if (outcome.serial !== serialOf(leaf.certPem)) throw new Error(`it shows ${outcome.serial}`);
    return place;
  }, options);
}
