/**
 * Envoy's certificate selector with secrets on demand: by the client's SNI, or one fixed name.
 *
 * @module
 */

import * as v from "valibot";
import { anyOf, checked, list, message, type Reader } from "../envoy/message.ts";
import { DEFAULT_ON_DEMAND_RULES, type OnDemandPlan, type SecretRef } from "../plan.ts";
import { text } from "../values.ts";
import { configSource } from "./config_source.ts";
import type { Reading } from "./tls_context.ts";

export type CertificateSelector =
  | { readonly kind: "on_demand"; readonly plan: OnDemandPlan }
  /** A fixed name asks for nothing that a client says. */
  | { readonly kind: "certificate"; readonly ref: SecretRef };

const EXTENSIONS = "envoy.extensions.transport_sockets.tls.";

type Mapper =
  | { readonly kind: "sni"; readonly defaultName: string | undefined }
  | { readonly kind: "static"; readonly name: string };

const MAPPER = message({
  name: text(),
  typedConfig: anyOf<Mapper>({
    [`${EXTENSIONS}cert_mappers.sni.v3.SNI`]: checked(
      message({ defaultValue: v.optional(text()) }),
      ({ defaultValue }) => ({ kind: "sni", defaultName: defaultValue }),
    ),
    [`${EXTENSIONS}cert_mappers.static_name.v3.StaticName`]: checked(
      message({ name: text() }),
      ({ name }) => ({ kind: "static", name }),
    ),
  }),
});

export function certificateSelector(reading: Reading): Reader<CertificateSelector> {
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
    if (mapper.kind === "static") {
      const { name } = mapper;
      return {
        kind: "certificate",
        ref: { type: "certificate", name, source, initialFetchTimeoutMs },
      };
    }
    if (source.kind !== "sds") {
      return report(
        ["typed_config", "config_source"],
        "must be api_config_source: a file holds one secret of one name",
      );
    }
    return {
      kind: "on_demand",
      plan: {
        source,
        rules: DEFAULT_ON_DEMAND_RULES,
        prefetch: prefetchSecretNames,
        ...(mapper.defaultName !== undefined && { defaultName: mapper.defaultName }),
      },
    };
  });
}
