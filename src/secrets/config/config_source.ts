/** Envoy's `ConfigSource`, `SdsSecretConfig` and `GrpcService`: a secret's source, its server. @module */

import * as v from "valibot";
import type { Address } from "../../base/mod.ts";
import {
  checked,
  defined,
  duration,
  flag,
  isSocketPath,
  list,
  parseAddress,
  reader,
  type SchemaOf,
  text,
} from "../../base/schema.ts";
import { NO_RULES } from "../../identity/mod.ts";
import { choice, dataSource, message, number, watchedDirectory } from "../envoy/message.ts";
import { type SdsApi, type SdsServer, type SecretRef, type SecretSource } from "../model/plan.ts";
import type { SecretType } from "../model/secret.ts";
import {
  isLoopback,
  metadataName,
  sdsServer,
  serverOf,
  TIMEOUT_ENTRIES,
  type TlsReading,
} from "./sources.ts";

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

export function grpcService(reading: TlsReading): SchemaOf<SdsServer> {
  const fields = message({
    envoyGrpc: v.exactOptional(envoyGrpc(reading)),
    googleGrpc: v.exactOptional(googleGrpc(reading)),
    initialMetadata: list(
      message({ key: metadataName(), value: v.exactOptional(text()) }, {
        refused: { rawValue: "cannot be honoured: give a text as value" },
      }),
      100,
    ),
    // In Envoy it limits unary calls; a stream has no end.
    timeout: v.exactOptional(duration(0)),
    retryPolicy: v.exactOptional(RETRY_POLICY),
  }, { oneOf: ["envoyGrpc", "googleGrpc"] });
  return checked(fields, (found, report): SdsServer | undefined => {
    const server = found.envoyGrpc ?? found.googleGrpc;
    if (!server) return undefined;
    const metadata = { ...server.metadata };
    found.initialMetadata.forEach(({ key, value = "" }, index) => {
      const at = ["initial_metadata", index, "value"];
      if (value === "") report(at, "is missing");
      // Envoy's formatters would replace it by another value.
      if (value.includes("%")) report(at, "has a %, whose command cannot be honoured");
      metadata[key] = value;
    });
    return { ...server, metadata, ...found.retryPolicy };
  });
}

function envoyGrpc(reading: TlsReading): SchemaOf<SdsServer> {
  const fields = message({
    clusterName: text(),
    retryPolicy: v.exactOptional(RETRY_POLICY),
    maxReceiveMessageLength: v.exactOptional(v.unknown()),
  }, {
    refused: {
      authority:
        "cannot be honoured: the server's name is that of its TLS settings, or its address",
      skipEnvoyHeaders: "cannot be honoured, and need not be: no headers of Envoy's are sent",
    },
  });
  return checked(fields, ({ clusterName, retryPolicy, maxReceiveMessageLength }, report) => {
    const server = serverOf(clusterName, { reading, report, path: ["cluster_name"] });
    if (maxReceiveMessageLength !== undefined) {
      reading.warn("max_receive_message_length has no effect: our own limit holds");
    }
    return server && { ...server, ...retryPolicy };
  });
}

/** Only the backoff has an effect: streams are retried for ever. */
const RETRY_POLICY: SchemaOf<Partial<Pick<SdsServer, "backoffBaseMs" | "backoffMaxMs">>> = checked(
  message({
    retryBackOff: v.exactOptional(message({
      baseInterval: duration(1),
      maxInterval: v.exactOptional(duration(1)),
    })),
    numRetries: v.exactOptional(number(0, 4_294_967_295)),
    retryOn: v.exactOptional(v.string("must be a text")),
  }),
  ({ retryBackOff }, report) => {
    if (!retryBackOff) return {};
    const { baseInterval: backoffBaseMs, maxInterval: backoffMaxMs = backoffBaseMs * 10 } =
      retryBackOff;
    return backoffMaxMs < backoffBaseMs
      ? report(["retry_back_off", "max_interval"], "is below base_interval")
      : { backoffBaseMs, backoffMaxMs };
  },
);

/** A server by its address, as Google's client has it. */
function googleGrpc(reading: TlsReading): SchemaOf<SdsServer> {
  const source = v.exactOptional(dataSource({ allowFiles: true }));
  const noExtension = "cannot be honoured: no extension is loaded here";
  const fields = message({
    targetUri: target(),
    statPrefix: v.optional(v.string("must be a text"), ""),
    channelCredentials: v.exactOptional(message({
      sslCredentials: v.exactOptional(
        message({ rootCerts: source, privateKey: source, certChain: source }),
      ),
      localCredentials: v.exactOptional(message({})),
    }, { refused: { googleDefault: "cannot be honoured: give ssl_credentials" } })),
  }, {
    refused: {
      callCredentials: "cannot be honoured: give a token as initial_metadata",
      credentialsFactoryName: noExtension,
      channelCredentialsPlugin: noExtension,
      callCredentialsPlugin: noExtension,
      config: "cannot be honoured: it is of another library",
      perStreamBufferLimitBytes: "cannot be honoured: our own limit holds",
      channelArgs: "cannot be honoured: they are of another library",
    },
  });
  return checked(fields, ({ targetUri, statPrefix, channelCredentials }, report) => {
    const { address } = targetUri;
    const named = { name: statPrefix || targetUri.name, addresses: [address] };
    const ssl = channelCredentials?.sslCredentials;
    if (!ssl) {
      return isLoopback(address)
        ? sdsServer(named, reading.node)
        : report(["channel_credentials"], "is missing: secrets would cross the network in clear");
    }
    const { rootCerts: trustedCa, certChain: chain, privateKey: key } = ssl;
    if (!chain !== !key) {
      report(
        ["channel_credentials", "ssl_credentials"],
        "needs cert_chain and private_key, or neither",
      );
    }
    if (address.kind === "unix") {
      return report(
        ["channel_credentials"],
        "has ssl_credentials, which a unix socket does not need",
      );
    }
    const validation = {
      type: "validation",
      ...defined({ trustedCa }),
      systemRoots: !trustedCa,
      rules: NO_RULES,
    } as const;
    const certificate = chain && key && { type: "certificate", chain, key } as const;
    const tls = { serverName: address.host, validation, ...defined({ certificate }) };
    return sdsServer({ ...named, tls }, reading.node);
  });
}

/** `unix:///run/sds.sock`, `unix:/run/sds.sock`, `dns:///host:port`, `host:port`. */
function target(): SchemaOf<{ readonly name: string; readonly address: Address }> {
  return reader((value, report) => {
    const wanted = "must be unix:///path, dns:///host:port or host:port";
    if (typeof value !== "string" || value.length > 4_096) return report([], wanted);
    if (value.startsWith("unix:")) {
      const path = value.slice("unix:".length).replace(/^\/\/(?=\/)/, "");
      if (!isSocketPath(path)) return report([], wanted);
      return { name: value, address: { kind: "unix", path } };
    }
    const address = parseAddress(value.replace(/^dns:\/\/\//, ""), { unix: false });
    return typeof address === "string" ? report([], wanted) : { name: value, address };
  });
}
