/**
 * Envoy's `ConfigSource` and `SdsSecretConfig`: where a secret comes from.
 *
 * @module
 */

import * as v from "valibot";
import { watchedDirectory } from "../envoy/data_source.ts";
import { choice, message } from "../envoy/message.ts";
import { checked, flag, list, type SchemaOf, text } from "../../base/schema.ts";
import {
  INITIAL_FETCH_TIMEOUT_MS,
  type SdsApi,
  type SecretRef,
  type SecretSource,
} from "../plan.ts";
import type { SecretType } from "../secret.ts";
import type { SecretSpec } from "../spec.ts";
import { grpcService } from "./grpc_service.ts";
import { TIMEOUT_ENTRIES } from "./sources.ts";
import type { TlsReading } from "./tls_context.ts";

export interface ConfigSource {
  readonly source: SecretSource;
  readonly initialFetchTimeoutMs: number;
}

/** Envoy's current release takes V3 only; where nothing is said, nothing else is meant. */
function apiVersion(): SchemaOf<"v3"> {
  return checked(
    choice({ AUTO: [0, true], V2: [1, false], V3: [2, true] }),
    (known, report) => known ? "v3" : report([], "must be V3: V2 is gone"),
  );
}

/** Which is asked for, or why it cannot be. */
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

export function configSource(reading: TlsReading): SchemaOf<ConfigSource> {
  const fields = message({
    path: v.exactOptional(text()),
    pathConfigSource: v.exactOptional(message({
      path: text(),
      watchedDirectory: v.exactOptional(watchedDirectory({ allowFiles: true })),
    })),
    apiConfigSource: v.exactOptional(apiConfigSource(reading)),
    ...TIMEOUT_ENTRIES,
    resourceApiVersion: v.exactOptional(apiVersion()),
  }, {
    oneOf: ["pathConfigSource", "apiConfigSource", "path"],
    refused: {
      ads: "cannot be honoured: there is no aggregated stream here; use api_config_source",
      self: "cannot be honoured: there is no stream that this came from",
      authorities: "cannot be honoured: secrets are named without authorities",
    },
  });
  return checked(fields, (found): ConfigSource => {
    const { initialFetchTimeout: initialFetchTimeoutMs, path = "" } = found;
    const file = { kind: "secret_file", path, ...found.pathConfigSource } as const;
    return { source: found.apiConfigSource ?? file, initialFetchTimeoutMs };
  });
}

function apiConfigSource(reading: TlsReading): SchemaOf<SecretSource> {
  const fields = message({
    apiType: API_TYPE,
    transportApiVersion: v.exactOptional(apiVersion()),
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

/** A secret by name: from a source, or of those that the configuration has itself. */
export function sdsSecretConfig(reading: TlsReading, type: SecretType): SchemaOf<SecretRef> {
  const fields = message({ name: text(), sdsConfig: v.exactOptional(configSource(reading)) });
  return checked(fields, ({ name, sdsConfig }, report): SecretRef | undefined => {
    if (sdsConfig) return { type, name, ...sdsConfig };
    const named = reading.staticSecrets.filter((secret) => secret.name === name);
    const found = named.find(({ spec }) => spec.type === type);
    if (found) return inlineRef(name, found.spec);
    const fact = named.length > 0
      ? `which is no ${type}`
      : "which is no static secret, and has no sds_config";
    return report(["name"], `names "${name}", ${fact}`);
  });
}

/** What the configuration says itself is read once, as in Envoy, unless it says what to watch. */
export function inlineRef(name: string, spec: SecretSpec): SecretRef {
  return {
    type: spec.type,
    name,
    source: { kind: "spec", spec, watch: spec.watchedDirectory !== undefined },
    initialFetchTimeoutMs: INITIAL_FETCH_TIMEOUT_MS,
  };
}
