/**
 * Envoy's `ConfigSource` and `SdsSecretConfig`: where a secret comes from.
 *
 * @module
 */

import * as v from "valibot";
import { watchedDirectory } from "../envoy/data_source.ts";
import {
  checked,
  choice,
  flag,
  list,
  message,
  oneOf,
  type Reader,
  type Report,
} from "../envoy/message.ts";
import {
  INITIAL_FETCH_TIMEOUT_MS,
  type SdsApi,
  type SecretRef,
  type SecretSource,
} from "../plan.ts";
import type { SecretType } from "../secret.ts";
import type { SecretSpec } from "../spec.ts";
import { duration, text } from "../values.ts";
import type { Reading } from "./tls_context.ts";
import { grpcService } from "./grpc_service.ts";

export interface ConfigSource {
  readonly source: SecretSource;
  readonly initialFetchTimeoutMs: number;
}

const VERSIONS = [
  { name: "AUTO", number: 0, value: "auto" },
  { name: "V2", number: 1, value: "v2" },
  { name: "V3", number: 2, value: "v3" },
] as const;

/** Envoy's current release takes V3 only; where nothing is said, nothing else is meant. */
function apiVersion(): Reader<"v3"> {
  return checked(
    choice([...VERSIONS]),
    (version, report) => version === "v2" ? report([], "must be V3: V2 is gone") : "v3",
  );
}

const API_TYPES = [
  { name: "DEPRECATED_AND_UNAVAILABLE_DO_NOT_USE", number: 0, value: "it is deprecated" },
  { name: "REST", number: 1, value: "secrets come over gRPC only" },
  { name: "GRPC", number: 2, value: "sotw" },
  { name: "DELTA_GRPC", number: 3, value: "delta" },
  { name: "AGGREGATED_GRPC", number: 5, value: "there is no aggregated stream" },
  { name: "AGGREGATED_DELTA_GRPC", number: 6, value: "there is no aggregated stream" },
] as const;

function apiType(): Reader<SdsApi> {
  return checked(choice([...API_TYPES]), (found, report): SdsApi | undefined => {
    if (found === "sotw" || found === "delta") return found;
    return report([], `must be GRPC or DELTA_GRPC: ${found}`);
  });
}

export function configSource(reading: Reading): Reader<ConfigSource> {
  const fields = message({
    path: v.optional(text()),
    pathConfigSource: v.optional(message({
      path: text(),
      watchedDirectory: v.optional(watchedDirectory({ allowFiles: true })),
    })),
    apiConfigSource: v.optional(apiConfigSource(reading)),
    initialFetchTimeout: v.optional(duration(0)),
    resourceApiVersion: v.optional(apiVersion()),
  }, {
    refused: {
      ads: "cannot be honoured: there is no aggregated stream here; use api_config_source",
      self: "cannot be honoured: there is no stream that this came from",
      authorities: "cannot be honoured: secrets are named without authorities",
    },
  });
  return checked(fields, (found, report): ConfigSource | undefined => {
    const given = oneOf(found, ["pathConfigSource", "apiConfigSource", "path"]);
    if (typeof given === "string") return report([], given);
    const { initialFetchTimeout, pathConfigSource, path, apiConfigSource } = found;
    const initialFetchTimeoutMs = initialFetchTimeout ?? INITIAL_FETCH_TIMEOUT_MS;
    if (apiConfigSource) return { source: apiConfigSource, initialFetchTimeoutMs };
    const directory = pathConfigSource?.watchedDirectory;
    return {
      source: {
        kind: "secret_file",
        path: pathConfigSource?.path ?? path ?? "",
        ...(directory && { watchedDirectory: directory }),
      },
      initialFetchTimeoutMs,
    };
  });
}

function apiConfigSource(reading: Reading): Reader<SecretSource> {
  const fields = message({
    apiType: apiType(),
    transportApiVersion: v.optional(apiVersion()),
    grpcServices: list(grpcService(reading), 1),
    setNodeOnFirstMessageOnly: v.optional(flag()),
    rateLimitSettings: v.optional(v.unknown()),
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
export function sdsSecretConfig(reading: Reading, type: SecretType): Reader<SecretRef> {
  const fields = message({ name: text(), sdsConfig: v.optional(configSource(reading)) });
  return checked(fields, ({ name, sdsConfig }, report): SecretRef | undefined => {
    if (sdsConfig) return { type, name, ...sdsConfig };
    return staticRef(name, { type, reading, report });
  });
}

function staticRef(
  name: string,
  options: { readonly type: SecretType; readonly reading: Reading; readonly report: Report },
): SecretRef | undefined {
  const { type, reading: { staticSecrets }, report } = options;
  const found = staticSecrets.find((secret) => secret.name === name && secret.spec.type === type);
  if (found) return inlineRef(name, found.spec);
  const other = staticSecrets.some((secret) => secret.name === name);
  const fact = other ? `which is no ${type}` : "which is no static secret, and has no sds_config";
  return report(["name"], `names "${name}", ${fact}`);
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
