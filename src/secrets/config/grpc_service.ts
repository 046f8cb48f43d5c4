/**
 * Envoy's `GrpcService`: a configured SDS server, or one that is described in place.
 *
 * @module
 */

import * as v from "valibot";
import type { Address } from "../../base/mod.ts";
import { dataSource } from "../envoy/data_source.ts";
import { checked, list, message, number, oneOf, type Reader, reader } from "../envoy/message.ts";
import type { SdsServer } from "../plan.ts";
import { NO_RULES } from "../../identity/mod.ts";
import { duration, isSocketPath, parseAddress, text } from "../values.ts";
import type { Reading } from "./tls_context.ts";
import { isLoopback, metadataName, sdsServer } from "./sds_defaults.ts";
import { serverOf } from "./sources.ts";

type Change = (server: SdsServer) => SdsServer;

export function grpcService(reading: Reading): Reader<SdsServer> {
  const fields = message({
    envoyGrpc: v.optional(envoyGrpc(reading)),
    googleGrpc: v.optional(googleGrpc(reading)),
    initialMetadata: list(
      message({ key: metadataName(), value: v.optional(text()) }, {
        refused: { rawValue: "cannot be honoured: give a text as value" },
      }),
      100,
    ),
    // Of unary calls in Envoy; a stream has no end.
    timeout: v.optional(duration(0)),
    retryPolicy: v.optional(retryPolicy()),
  });
  return checked(fields, (found, report): SdsServer | undefined => {
    const given = oneOf(found, ["envoyGrpc", "googleGrpc"]);
    if (typeof given === "string") return report([], given);
    const server = found.envoyGrpc ?? found.googleGrpc;
    if (!server) return undefined;
    const metadata = { ...server.metadata };
    found.initialMetadata.forEach(({ key, value }, index) => {
      if (value === undefined) report(["initial_metadata", index, "value"], "is missing");
      // Envoy's formatters would put something else in its place.
      if (value?.includes("%")) {
        report(["initial_metadata", index, "value"], "has a %, whose command cannot be honoured");
      }
      metadata[key] = value ?? "";
    });
    const change = found.retryPolicy ?? ((same) => same);
    return change({ ...server, metadata });
  });
}

function envoyGrpc(reading: Reading): Reader<SdsServer> {
  const fields = message({
    clusterName: text(),
    retryPolicy: v.optional(retryPolicy()),
    maxReceiveMessageLength: v.optional(v.unknown()),
  }, {
    refused: {
      authority:
        "cannot be honoured: the server's name is that of its TLS settings, or its address",
      skipEnvoyHeaders: "cannot be honoured, and need not be: no headers of Envoy's are sent",
    },
  });
  return checked(fields, ({ clusterName, retryPolicy, maxReceiveMessageLength }, report) => {
    const server = serverOf(clusterName, { context: reading, report, path: ["cluster_name"] });
    if (maxReceiveMessageLength !== undefined) {
      reading.warn("max_receive_message_length has no effect: our own limit holds");
    }
    return server && (retryPolicy ? retryPolicy(server) : server);
  });
}

/** Of a retry policy only the back-off: streams are begun again for ever. */
function retryPolicy(): Reader<Change> {
  const backOff = message({
    baseInterval: duration(1),
    maxInterval: v.optional(duration(1)),
  });
  const fields = message({
    retryBackOff: v.optional(backOff),
    numRetries: v.optional(number(0, 4_294_967_295)),
    retryOn: v.optional(v.string("must be a text")),
  });
  return checked(fields, ({ retryBackOff }, report): Change | undefined => {
    if (!retryBackOff) return (server) => server;
    const backoffBaseMs = retryBackOff.baseInterval;
    const backoffMaxMs = retryBackOff.maxInterval ?? backoffBaseMs * 10;
    if (backoffMaxMs < backoffBaseMs) {
      return report(["retry_back_off", "max_interval"], "is below base_interval");
    }
    return (server) => ({ ...server, backoffBaseMs, backoffMaxMs });
  });
}

/** A server by its address, as Google's client takes it. */
function googleGrpc(reading: Reading): Reader<SdsServer> {
  const source = dataSource({ allowFiles: true });
  const fields = message({
    targetUri: target(),
    statPrefix: v.optional(v.string("must be a text")),
    channelCredentials: v.optional(message({
      sslCredentials: v.optional(message({
        rootCerts: v.optional(source),
        privateKey: v.optional(source),
        certChain: v.optional(source),
      })),
      localCredentials: v.optional(message({})),
    }, { refused: { googleDefault: "cannot be honoured: give ssl_credentials" } })),
  }, {
    refused: {
      callCredentials: "cannot be honoured: give a token as initial_metadata",
      credentialsFactoryName: "cannot be honoured: no extension is loaded here",
      channelCredentialsPlugin: "cannot be honoured: no extension is loaded here",
      callCredentialsPlugin: "cannot be honoured: no extension is loaded here",
      config: "cannot be honoured: it is of another library",
      perStreamBufferLimitBytes: "cannot be honoured: our own limit holds",
      channelArgs: "cannot be honoured: they are of another library",
    },
  });
  return checked(fields, ({ targetUri, statPrefix, channelCredentials }, report) => {
    const { name, address } = targetUri;
    const ssl = channelCredentials?.sslCredentials;
    if (!ssl && !isLoopback(address)) {
      return report(
        ["channel_credentials"],
        "is missing: secrets would cross the network in clear",
      );
    }
    if (!ssl) {
      return sdsServer({ name: statPrefix || name, addresses: [address] }, reading.node);
    }
    if ((ssl.certChain === undefined) !== (ssl.privateKey === undefined)) {
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
    const { rootCerts, certChain: chain, privateKey: key } = ssl;
    const tls: SdsServer["tls"] = {
      serverName: address.host,
      validation: {
        type: "validation",
        ...(rootCerts && { trustedCa: rootCerts }),
        systemRoots: !rootCerts,
        rules: NO_RULES,
      },
      ...(chain && key && { certificate: { type: "certificate", chain, key } }),
    };
    return sdsServer({ name: statPrefix || name, addresses: [address], tls }, reading.node);
  });
}

/** `unix:///run/sds.sock`, `unix:/run/sds.sock`, `dns:///host:port`, `host:port`. */
function target(): Reader<{ readonly name: string; readonly address: Address }> {
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
