/**
 * Envoy's certificate selector with secrets on demand: by the client's SNI, or one fixed name.
 *
 * @module
 */

import * as v from "valibot";
import { anyOf, message } from "../envoy/message.ts";
import { checked, defined, list, type SchemaOf, text } from "../../base/schema.ts";
import { DEFAULT_ON_DEMAND_RULES, type OnDemandPlan, type SecretRef } from "../plan.ts";
import { configSource } from "./config_source.ts";
import type { TlsReading } from "./tls_context.ts";

export type CertificateSelector =
  | { readonly kind: "on_demand"; readonly plan: OnDemandPlan }
  /** A fixed name asks for nothing that a client says. */
  | { readonly kind: "certificate"; readonly ref: SecretRef };

const EXTENSIONS = "envoy.extensions.transport_sockets.tls.";

/** The one name that is asked for, or the one for clients that name nobody. */
type Mapper = { readonly name: string } | { readonly defaultName?: string };

const MAPPER = message({
  name: text(),
  typedConfig: anyOf<Mapper>({
    [`${EXTENSIONS}cert_mappers.sni.v3.SNI`]: checked(
      message({ defaultValue: v.exactOptional(text()) }),
      ({ defaultValue: defaultName }) => defined({ defaultName }),
    ),
    [`${EXTENSIONS}cert_mappers.static_name.v3.StaticName`]: message({ name: text() }),
  }),
});

export function certificateSelector(reading: TlsReading): SchemaOf<CertificateSelector> {
  const config = message({
    configSource: configSource(reading),
    certificateMapper: MAPPER,
    prefetchSecretNames: list(text(), 10_000),
  });
  const fields = message({
    name: text(),
    typedConfig: anyOf({ [`${EXTENSIONS}cert_selectors.on_demand_secret.v3.Config`]: config }),
  });
  return checked(fields, ({ typedConfig }, report): CertificateSelector | undefined => {
    const { configSource: { source, initialFetchTimeoutMs }, prefetchSecretNames } = typedConfig;
    const mapper = typedConfig.certificateMapper.typedConfig;
    if ("name" in mapper) {
      const ref: SecretRef = { type: "certificate", ...mapper, source, initialFetchTimeoutMs };
      return { kind: "certificate", ref };
    }
    if (source.kind !== "sds") {
      return report(
        ["typed_config", "config_source"],
        "must be api_config_source: a file holds one secret of one name",
      );
    }
    const rules = DEFAULT_ON_DEMAND_RULES;
    return {
      kind: "on_demand",
      plan: { source, rules, prefetch: prefetchSecretNames, ...mapper },
    };
  });
}
