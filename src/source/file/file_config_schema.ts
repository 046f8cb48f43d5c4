/** The schema of a configuration file. A message follows the path of its key. @module */

import * as v from "valibot";
import { parseTrustDomain } from "../../identity/mod.ts";
import { opensslSuite } from "../../secrets/mod.ts";
import { address, count, duration, host, object, port, text } from "../../base/schema.ts";
import { PLUGINS } from "../plugins/read_plugins.ts";
import { INTENTIONS, name, spiffeId } from "./file_intentions.ts";
import { INBOUND_HTTP, PROTOCOL, UPSTREAM_HTTP } from "./file_http.ts";
import type { AccessLogPart, Content, TlsVersion } from "../../snapshot/mod.ts";
import type { LogFormat } from "../../http/mod.ts";
import { formatFault } from "../parts/access_logs.ts";
import { LOG_SAMPLING } from "../parts/log_sampling.ts";
import { FILE_LOGS, FILE_METRICS, FILE_TRACING } from "./file_tracing.ts";

const Identity = object({
  service: name(),
  datacenter: v.optional(name()),
  namespace: v.optional(name(), "default"),
  partition: v.optional(name(), "default"),
});

const EndpointText = address({ unix: false });
const EndpointFields = object({
  host: host(),
  port: port(1),
  weight: v.optional(count(1, 128), 1),
});
// Not a union: its message would only be that the value is neither.
const Endpoint = v.lazy((input) =>
  typeof input === "object" && input !== null ? EndpointFields : EndpointText
);

const Balancing = v.variant("kind", [
  object({ kind: v.picklist(["round_robin", "random", "maglev"]) }),
  object({ kind: v.literal("least_request"), choiceCount: v.optional(count(2, 100), 2) }),
  object({
    kind: v.literal("ring_hash"),
    minimumSize: v.optional(count(1, 8_388_608), 1_024),
    maximumSize: v.optional(count(1, 8_388_608), 8_388_608),
  }),
], "must be round_robin, random, least_request, ring_hash or maglev");

const Outlier = object({
  maxFailures: v.optional(count(0, 1_000_000)),
  enforcingPercent: v.optional(count(0, 100)),
  interval: v.optional(duration(1)),
  baseEjection: v.optional(duration(0)),
  maxEjection: v.optional(duration(0)),
  maxEjectionPercent: v.optional(count(0, 100)),
});

const OctalMode = v.pipe(
  v.string('must be an octal text such as "0600"'),
  v.regex(/^0?[0-7]{3}$/, 'must be an octal text such as "0600"'),
  v.transform((mode) => Number.parseInt(mode, 8)),
);

const Upstream = object({
  name: name(),
  // Without a host it listens on this machine only.
  bind: address({ unix: true, emptyHost: "127.0.0.1" }),
  socketMode: v.optional(OctalMode),
  addresses: v.pipe(v.array(Endpoint), v.maxLength(10_000, "has more than 10000 entries")),
  /** The identity that the server must prove: a service of this trust domain, or any of these ids. */
  identity: v.optional(Identity),
  spiffeIds: v.optional(v.pipe(v.array(spiffeId()), v.nonEmpty("must not be empty"))),
  sni: v.optional(text()),
  balancing: v.optional(
    v.union([
      v.pipe(
        v.picklist(["round_robin", "random", "maglev", "least_request", "ring_hash"]),
        v.transform((kind) => v.parse(Balancing, { kind })),
      ),
      Balancing,
    ], "must be round_robin, random, least_request, ring_hash or maglev"),
    "round_robin",
  ),
  outlier: v.optional(Outlier, {}),
  connectTimeout: v.optional(duration(1), "5s"),
  idleTimeout: v.optional(duration(0)),
  lifetime: v.optional(duration(0)),
  maxConnections: v.optional(count(0, 4_294_967_295), 1_024),
  /** Client connections with HTTP; default: no limit. */
  maxClientConnections: v.optional(count(0, 4_294_967_295)),
  maxPending: v.optional(count(0, 4_294_967_295), 1_024),
  /** Open at once, of HTTP; default 1024. */
  maxRequests: v.optional(count(0, 4_294_967_295)),
  protocol: PROTOCOL,
  http: UPSTREAM_HTTP,
  plugins: PLUGINS,
  /** Credentials of its own; read by `file_credentials.ts`. */
  tls: v.optional(v.unknown()),
  /** TLS that its callers must speak; absent: they speak plainly. */
  listenerTls: v.optional(v.unknown()),
  handshakeTimeout: v.optional(duration(1), "10s"),
});

const Version = v.pipe(
  v.picklist(["1.2", "1.3"], 'must be "1.2" or "1.3"'),
  v.transform((version): TlsVersion => `TLSv${version}`),
);

/** An IANA name, for TLS 1.2, as what OpenSSL calls the suite. */
const Suite = v.pipe(
  text(),
  v.check((name) => opensslSuite(name) !== undefined, "is no cipher suite that is known here"),
  v.transform((name) => opensslSuite(name) ?? name),
);

const TlsDirection = v.pipe(
  object({
    minVersion: v.optional(Version, "1.2"),
    maxVersion: v.optional(Version, "1.3"),
    cipherSuites: v.optional(v.array(Suite), []),
  }),
  v.check(
    ({ minVersion, maxVersion }) => minVersion <= maxVersion,
    "allows no version: its minVersion is above its maxVersion",
  ),
);

/** Consul's `AccessLogs` with our spelling; a format that cannot be used is an error. */
const FORMAT_LIMIT = 64 * 1024;

const TextFormat = v.pipe(
  v.string("must be a text"),
  v.nonEmpty("must not be empty"),
  v.maxLength(FORMAT_LIMIT, `is longer than ${FORMAT_LIMIT} characters`),
  v.transform((text): LogFormat => ({ kind: "text", text })),
  usable(),
);

const JsonFormat = v.pipe(
  v.custom<object>(
    (value) => typeof value === "object" && value !== null && !Array.isArray(value),
    "must be an object",
  ),
  v.transform((value): LogFormat => ({ kind: "json", json: JSON.stringify(value) })),
  usable(),
);

const FILE_ACCESS_LOG = v.pipe(
  object({
    type: v.optional(
      v.picklist(["stdout", "stderr", "file"], "must be stdout, stderr or file"),
      "stdout",
    ),
    path: v.optional(text()),
    jsonFormat: v.optional(JsonFormat),
    textFormat: v.optional(TextFormat),
    disableListenerLogs: v.optional(v.boolean("must be true or false"), false),
    sampling: v.optional(LOG_SAMPLING),
  }),
  v.check(
    ({ type, path }) => (type === "file") === (path !== undefined),
    'must have a path where its type is "file", and nowhere else',
  ),
  v.check(
    ({ jsonFormat, textFormat }) => !jsonFormat || !textFormat,
    "must not have both jsonFormat and textFormat",
  ),
  v.transform((given): Content<AccessLogPart> => ({
    to: given.type === "file" ? { kind: given.type, path: given.path ?? "" } : { kind: given.type },
    format: given.jsonFormat ?? given.textFormat ?? { kind: "default" },
    listeners: !given.disableListenerLogs,
    ...(given.sampling && { sampling: given.sampling }),
  })),
);

function usable(): v.CheckAction<LogFormat, v.ErrorMessage<v.CheckIssue<LogFormat>>> {
  return v.check(
    (format: LogFormat) => formatFault(format) === undefined,
    ({ input }) => formatFault(input) ?? "",
  );
}

export const FILE_CONFIG = object({
  /** For editors; not read. */
  $schema: v.optional(text()),
  service: name(),
  /** Trust domain of services in intentions and upstreams; needed where any is named. */
  trustDomain: v.optional(v.pipe(
    v.string("must be a text"),
    v.check((domain) => parseTrustDomain(domain) !== undefined, "is not a trust domain"),
    v.transform((domain) => domain.toLowerCase()),
  )),
  datacenter: v.optional(name(), "dc1"),
  /** For every listener and upstream without `tls` of its own; read by `file_credentials.ts`. */
  credentials: v.optional(v.unknown()),
  /** SDS servers by name. */
  sds: v.optional(v.unknown()),
  inbound: v.optional(object({
    bind: address({ unix: false, emptyHost: "0.0.0.0" }),
    local: address({ unix: true }),
    localConnectTimeout: v.optional(duration(1), "5s"),
    handshakeTimeout: v.optional(duration(1), "10s"),
    maxConnections: v.optional(count(0, 4_294_967_295), 0),
    protocol: PROTOCOL,
    http: INBOUND_HTTP,
    plugins: PLUGINS,
    tls: v.optional(v.unknown()),
  })),
  upstreams: v.optional(
    v.pipe(v.array(Upstream), v.maxLength(10_000, "has more than 10000 entries")),
    [],
  ),
  intentions: INTENTIONS,
  defaultAction: v.optional(v.picklist(["allow", "deny"], 'must be "allow" or "deny"'), "deny"),
  accessLog: v.optional(FILE_ACCESS_LOG),
  tracing: v.optional(FILE_TRACING),
  metrics: v.optional(FILE_METRICS),
  logs: v.optional(FILE_LOGS),
  tls: v.optional(
    object({
      incoming: v.optional(TlsDirection, {}),
      outgoing: v.optional(TlsDirection, {}),
      strictSpiffeChain: v.optional(v.boolean("must be true or false")),
    }),
    {},
  ),
});

/** As the schema gives it, credentials still to be read. */
export type FileConfigOutput = v.InferOutput<typeof FILE_CONFIG>;
