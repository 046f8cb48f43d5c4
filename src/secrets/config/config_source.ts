/**
 * Envoy's `ConfigSource` and `SdsSecretConfig`: the source of a secret.
 *
 * @module
 */

import * as v from "valibot";
import { checked, flag, list, type SchemaOf, text } from "../../base/schema.ts";
import { choice, message } from "../envoy/message.ts";
import { watchedDirectory } from "../envoy/tls_certificate.ts";
import {
  INITIAL_FETCH_TIMEOUT_MS,
  type SdsApi,
  type SecretRef,
  type SecretSource,
} from "../model/plan.ts";
import type { SecretType } from "../model/secret.ts";
import type { SecretSpec } from "../model/spec.ts";
import { grpcService } from "./grpc_service.ts";
import { TIMEOUT_ENTRIES } from "./sources.ts";
import type { TlsReading } from "./tls_context.ts";

/** Envoy's current release takes V3 only, which is also the meaning of AUTO here. */
const API_VERSION: SchemaOf<"v3"> = checked(
  choice({ AUTO: [0, true], V2: [1, false], V3: [2, true] }),
  (known, report) => known ? "v3" : report([], "must be V3: V2 is gone"),
);

/** The variant, or why there is none. */
const API_TYPES: SchemaOf<string> = choice({
  DEPRECATED_AND_UNAVAILABLE_DO_NOT_USE: [0, "it is deprecated"],
  REST: [1, "secrets come over gRPC only"],
  GRPC: [2, "sotw"],
  DELTA_GRPC: [3, "delta"],
  AGGREGATED_GRPC: [5, "there is no aggregated stream"],
  AGGREGATED_DELTA_GRPC: [6, "there is no aggregated stream"],
});

const API_TYPE: SchemaOf<SdsApi> = checked(API_TYPES, (found, report) => {
  if (found === "sotw" || found === "delta") return found;
  return report([], `must be GRPC or DELTA_GRPC: ${found}`);
});

export function configSource(
  reading: TlsReading,
): SchemaOf<Pick<SecretRef, "source" | "initialFetchTimeoutMs">> {
  const fields = message({
    path: v.exactOptional(text()),
    pathConfigSource: v.exactOptional(message({
      path: text(),
      watchedDirectory: v.exactOptional(watchedDirectory({ allowFiles: true })),
    })),
    apiConfigSource: v.exactOptional(apiConfigSource(reading)),
    ...TIMEOUT_ENTRIES,
    resourceApiVersion: v.exactOptional(API_VERSION),
  }, {
    oneOf: ["pathConfigSource", "apiConfigSource", "path"],
    refused: {
      ads: "cannot be honoured: there is no aggregated stream here; use api_config_source",
      self: "cannot be honoured: there is no stream that this came from",
      authorities: "cannot be honoured: secrets are named without authorities",
    },
  });
  return checked(fields, (found) => {
    const { initialFetchTimeout: initialFetchTimeoutMs, path = "" } = found;
    const file = { kind: "secret_file", path, ...found.pathConfigSource } as const;
    return { source: found.apiConfigSource ?? file, initialFetchTimeoutMs };
  });
}

function apiConfigSource(reading: TlsReading): SchemaOf<SecretSource> {
  const fields = message({
    apiType: API_TYPE,
    transportApiVersion: v.exactOptional(API_VERSION),
    grpcServices: list(grpcService(reading), 1),
    setNodeOnFirstMessageOnly: v.exactOptional(flag()),
    rateLimitSettings: v.exactOptional(v.unknown()),
  }, {
    refused: {
      clusterNames: "is for REST, which is not spoken; use grpc_services",
      refreshDelay: "is for REST, which is not spoken",
      requestTimeout: "is for REST, which is not spoken",
      configValidators: "cannot be honoured: no extension is loaded here",
    },
  });
  return checked(fields, (found, report): SecretSource | undefined => {
    const [server] = found.grpcServices;
    if (!server) return report(["grpc_services"], "must not be empty");
    if (found.rateLimitSettings !== undefined) {
      reading.warn("rate_limit_settings has no effect: requests follow what the server sends");
    }
    return { kind: "sds", server, api: found.apiType };
  });
}

/** Envoy's static secrets, which have no `sds_config`, are not supported. */
export function sdsSecretConfig(reading: TlsReading, type: SecretType): SchemaOf<SecretRef> {
  const fields = message({ name: text(), sdsConfig: v.exactOptional(configSource(reading)) });
  return checked(fields, ({ name, sdsConfig }, report): SecretRef | undefined => {
    if (sdsConfig) return { type, name, ...sdsConfig };
    const fact = "which is no static secret, and has no sds_config";
    return report(["name"], `names "${name}", ${fact}`);
  });
}

/** A secret in the configuration itself is read once, as in Envoy, unless it has a watched directory. */
export function inlineRef(name: string, spec: SecretSpec): SecretRef {
  return {
    type: spec.type,
    name,
    source: { kind: "spec", spec, watch: spec.watchedDirectory !== undefined },
    initialFetchTimeoutMs: INITIAL_FETCH_TIMEOUT_MS,
  };
}
