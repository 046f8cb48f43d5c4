/** An SDS server as Envoy's static cluster; only settings that balance requests are ignored. @module */

import * as v from "valibot";
import type { Address } from "../../base/mod.ts";
import {
  checked,
  defined,
  duration,
  flag,
  host,
  isRecord,
  isSocketPath,
  list,
  port,
  type SchemaOf,
  text,
} from "../../base/schema.ts";
import { choice, message, number } from "../envoy/message.ts";
import type { SdsServer, SecretRef } from "../model/plan.ts";
import { envoyForm } from "./envoy_form.ts";
import { hostOf, isLoopback, sdsServer, type ServerReading, type TlsReading } from "./sources.ts";

const MARKS = ["load_assignment", "loadAssignment", "transport_socket", "transportSocket", "hosts"];

export function isCluster(value: unknown): boolean {
  return isRecord(value) && MARKS.some((mark) => Object.hasOwn(value, mark));
}

const SOCKET_ADDRESS = message({
  protocol: v.exactOptional(choice({ TCP: [0, true] })),
  address: host(),
  portValue: port(1),
  resolverName: v.exactOptional(v.literal("", "cannot be honoured: names are the system's")),
  ipv4Compat: v.exactOptional(flag()),
});

/** Any value, without a meaning here. */
const ignored = v.exactOptional(v.unknown());

const PIPE = message({
  path: v.pipe(text(), v.check(isSocketPath, "must be a socket's path, at most 107 bytes long")),
  mode: ignored,
});

const ADDRESS = checked(
  message(
    { socketAddress: v.exactOptional(SOCKET_ADDRESS), pipe: v.exactOptional(PIPE) },
    { oneOf: ["socketAddress", "pipe"] },
  ),
  ({ socketAddress, pipe }): Address | undefined => {
    if (pipe) return { kind: "unix", path: pipe.path };
    return socketAddress &&
      { kind: "tcp", host: socketAddress.address, port: socketAddress.portValue };
  },
);

const ENDPOINT = message({
  endpoint: message({ address: ADDRESS, hostname: ignored, healthCheckConfig: ignored }),
  healthStatus: ignored,
  metadata: ignored,
  loadBalancingWeight: ignored,
});

const LOAD_ASSIGNMENT = message({
  clusterName: ignored,
  endpoints: list(
    message({
      lbEndpoints: list(ENDPOINT, 100),
      locality: ignored,
      loadBalancingWeight: ignored,
      priority: v.optional(number(0, 128), 0),
    }),
    100,
  ),
  policy: ignored,
});

export function sdsCluster(reading: ServerReading): SchemaOf<SdsServer> {
  const fields = message({
    "@type": v.exactOptional(
      v.literal("type.googleapis.com/envoy.config.cluster.v3.Cluster", "must be a v3 Cluster"),
    ),
    name: text(),
    type: v.exactOptional(
      choice({ STATIC: [0, true], STRICT_DNS: [1, true], LOGICAL_DNS: [2, true] }),
    ),
    loadAssignment: LOAD_ASSIGNMENT,
    transportSocket: v.exactOptional(transportSocket(reading)),
    typedExtensionProtocolOptions: v.exactOptional(PROTOCOL_OPTIONS),
    connectTimeout: v.exactOptional(duration(1)),
    altStatName: ignored,
    lbPolicy: ignored,
    loadBalancingPolicy: ignored,
    http2ProtocolOptions: ignored,
    upstreamConnectionOptions: ignored,
    perConnectionBufferLimitBytes: ignored,
    circuitBreakers: ignored,
    dnsLookupFamily: ignored,
    dnsRefreshRate: ignored,
    respectDnsTtl: ignored,
    healthChecks: ignored,
    outlierDetection: ignored,
    commonLbConfig: ignored,
    waitForWarmOnInit: ignored,
    metadata: ignored,
  }, {
    refused: {
      hosts: "is of Envoy's API v1; use load_assignment",
      tlsContext: "is of Envoy's API v2; use transport_socket",
      edsClusterConfig: "cannot be honoured: an SDS server's addresses are its own configuration's",
      clusterType: "cannot be honoured: no extension is loaded here",
      transportSocketMatches: "cannot be honoured: one transport_socket holds for all endpoints",
      upstreamBindConfig: "cannot be honoured",
    },
  });
  return checked(fields, (found, report): SdsServer | undefined => {
    const endpoints = found.loadAssignment.endpoints.toSorted((a, b) => a.priority - b.priority);
    const addresses = endpoints.flatMap(({ lbEndpoints }) =>
      lbEndpoints.map(({ endpoint }) => endpoint.address)
    );
    if (addresses.length === 0) return report(["load_assignment", "endpoints"], "has no address");
    const tls = found.transportSocket ?? null;
    if (!tls && !addresses.every(isLoopback)) {
      report(["transport_socket"], "is missing: secrets would cross the network in clear");
    }
    const serverName = tls ? tls.serverName || hostOf(addresses) : "";
    if (serverName === undefined) {
      return report(
        ["transport_socket", "typed_config", "sni"],
        "is missing: nothing else says the server's name",
      );
    }
    return sdsServer({
      name: found.name,
      addresses,
      tls: tls && { ...tls, serverName },
      ...found.typedExtensionProtocolOptions,
    }, reading.node);
  });
}

/** An upstream's transport socket without references: credentials for SDS cannot come from SDS. */
function transportSocket(reading: ServerReading): SchemaOf<NonNullable<SdsServer["tls"]>> {
  const inner: TlsReading = {
    ...reading,
    kind: "upstream",
    path: [],
    sdsServers: {},
    noServers: "cannot be used: the credentials for SDS cannot come from SDS",
    env: {},
  };
  return checked(envoyForm(inner), ({ plan, sni }, report) => {
    const [own] = plan.certificates;
    const common = ["typed_config", "common_tls_context"];
    const certificate = own && specOf(own);
    const validation = plan.validation && specOf(plan.validation.secret);
    if (own && certificate?.type !== "certificate") {
      report(common, "has a certificate from elsewhere: give files or the text itself");
    }
    if (validation?.type !== "validation" || plan.validation?.defaults) {
      return report(common, "has a validation context from elsewhere: give files or the text");
    }
    if (plan.tls) reading.warn("tls_params of an SDS server have no effect");
    return {
      serverName: sni ?? "",
      validation,
      ...(certificate?.type === "certificate" && { certificate }),
    };
  });
}

function specOf({ source }: SecretRef) {
  return source.kind === "spec" ? source.spec : undefined;
}

const KEEP_ALIVE = message({
  interval: v.exactOptional(duration(1_000)),
  timeout: v.exactOptional(duration(100)),
  intervalJitter: ignored,
  connectionIdleInterval: ignored,
});

/** Envoy's protocol options: only the keep-alive of HTTP/2 has a meaning here. */
const PROTOCOL_OPTIONS = checked(
  within(
    "envoy.extensions.upstreams.http.v3.HttpProtocolOptions",
    within(
      "explicitHttpConfig",
      within("http2ProtocolOptions", within("connectionKeepalive", KEEP_ALIVE)),
    ),
  ),
  (found) => defined({ keepAliveMs: found?.interval, keepAliveTimeoutMs: found?.timeout }),
);

/** One field of a message whose other fields are ignored. */
function within<T>(field: string, inner: SchemaOf<T>): SchemaOf<T | undefined> {
  const fields = message({ [field]: v.exactOptional(inner) }, { loose: true });
  return checked(fields, (found) => found[field]);
}
