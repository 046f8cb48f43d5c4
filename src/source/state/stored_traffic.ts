/**
 * Parts of a stored snapshot about traffic: what is listened for, where it goes, and what is written of it.
 *
 * @module
 */

import * as v from "valibot";
import { Amount, Texts, Version } from "./stored_values.ts";

const Port = v.pipe(v.number(), v.integer(), v.minValue(0), v.maxValue(65_535));

const TcpAddress = v.strictObject({ kind: v.literal("tcp"), host: v.string(), port: Port });
const LocalAddress = v.variant("kind", [
  TcpAddress,
  v.strictObject({ kind: v.literal("unix"), path: v.string() }),
]);
const BindAddress = v.variant("kind", [
  TcpAddress,
  v.strictObject({
    kind: v.literal("unix"),
    path: v.string(),
    mode: v.exactOptional(Amount),
  }),
]);

const Endpoint = v.strictObject({
  id: v.string(),
  host: v.string(),
  port: Port,
  weight: v.pipe(v.number(), v.integer(), v.minValue(1), v.maxValue(128)),
});

export const AccessLog = v.strictObject({
  version: Version,
  to: v.variant("kind", [
    v.strictObject({ kind: v.picklist(["stdout", "stderr"]) }),
    v.strictObject({ kind: v.literal("file"), path: v.string() }),
  ]),
  format: v.variant("kind", [
    v.strictObject({ kind: v.literal("default") }),
    v.strictObject({ kind: v.literal("text"), text: v.string() }),
    v.strictObject({ kind: v.literal("json"), json: v.string() }),
  ]),
  listeners: v.boolean(),
});

const Http = v.strictObject({
  protocol: v.picklist(["http", "http2", "grpc"]),
  path: v.strictObject({
    normalize: v.boolean(),
    mergeSlashes: v.boolean(),
    escapedSlashes: v.picklist(["keep", "reject", "unescape", "redirect"]),
    underscores: v.picklist(["allow", "reject", "drop"]),
  }),
  sanitizeForwardedClientCert: v.boolean(),
  headBytes: Amount,
  requestTimeoutMs: Amount,
  streamIdleTimeoutMs: Amount,
  showDenials: v.boolean(),
});

const Plugin = v.strictObject({
  plugin: v.string(),
  file: v.exactOptional(v.strictObject({ code: v.string(), allow: Texts })),
  config: v.unknown(),
  onFailure: v.picklist(["refuse", "skip"]),
  at: v.string(),
});
const Plugins = v.array(Plugin);

export const Inbound = v.strictObject({
  version: Version,
  bind: TcpAddress,
  local: LocalAddress,
  http: v.nullable(Http),
  tokens: v.exactOptional(Plugin),
  plugins: Plugins,
  localConnectTimeoutMs: Amount,
  handshakeTimeoutMs: Amount,
  maxConnections: Amount,
  authorize: v.picklist(["match", "both"]),
  credentials: v.nullable(v.string()),
});

export const Exposed = v.strictObject({
  version: Version,
  bind: TcpAddress,
  path: v.string(),
  onlyFrom: v.exactOptional(v.array(v.string())),
  local: LocalAddress,
  localConnectTimeoutMs: Amount,
  http: Http,
});

const TlsListener = v.nullable(
  v.strictObject({ credentials: v.string(), handshakeTimeoutMs: Amount }),
);

export const Upstream = v.strictObject({
  version: Version,
  id: v.string(),
  name: v.string(),
  bind: v.nullable(BindAddress),
  chain: v.string(),
  http: v.nullable(Http),
  plugins: Plugins,
  maxConnections: Amount,
  maxClientConnections: v.exactOptional(Amount),
  maxPending: Amount,
  maxRequests: Amount,
  idleTimeoutMs: Amount,
  lifetimeMs: Amount,
  credentials: v.nullable(v.string()),
  listener: TlsListener,
});

const HeaderText = v.tuple([v.string(), v.string()]);
const HeaderChanges = v.exactOptional(v.strictObject({
  remove: Texts,
  set: v.array(HeaderText),
  add: v.array(HeaderText),
}));

export const Edge = v.strictObject({
  version: Version,
  id: v.string(),
  bind: TcpAddress,
  http: Http,
  plugins: Plugins,
  listener: TlsListener,
  hosts: v.array(v.strictObject({
    names: Texts,
    upstream: v.string(),
    requestHeaders: HeaderChanges,
    responseHeaders: HeaderChanges,
  })),
});

const Resolver = v.strictObject({
  targets: Texts,
  balancing: v.variant("kind", [
    v.strictObject({ kind: v.picklist(["round_robin", "random", "maglev"]) }),
    v.strictObject({ kind: v.literal("least_request"), choiceCount: Amount }),
    v.strictObject({ kind: v.literal("ring_hash"), minimumSize: Amount, maximumSize: Amount }),
  ]),
  outlier: v.strictObject({
    maxFailures: Amount,
    enforcingPercent: Amount,
    intervalMs: Amount,
    baseEjectionMs: Amount,
    maxEjectionMs: Amount,
    maxEjectionPercent: Amount,
  }),
});

const ValueMatch = v.strictObject({
  name: v.string(),
  kind: v.picklist(["present", "exact", "prefix", "suffix", "contains", "regex"]),
  value: v.string(),
  ignoreCase: v.boolean(),
  invert: v.boolean(),
});

const RouteMatch = v.strictObject({
  path: v.nullable(
    v.strictObject({ kind: v.picklist(["exact", "prefix", "regex"]), value: v.string() }),
  ),
  ignoreCase: v.boolean(),
  methods: Texts,
  headers: v.array(ValueMatch),
  query: v.array(ValueMatch),
});

const terminal = v.boolean();
const HashPolicy = v.variant("kind", [
  v.strictObject({ kind: v.picklist(["header", "query"]), name: v.string(), terminal }),
  v.strictObject({
    kind: v.literal("cookie"),
    name: v.string(),
    made: v.nullable(v.strictObject({ maxAgeSeconds: Amount, path: v.string() })),
    terminal,
  }),
  v.strictObject({ kind: v.literal("source"), terminal }),
]);

const Split = v.strictObject({
  weight: v.pipe(v.number(), v.gtValue(0)),
  resolver: v.string(),
  plugins: v.exactOptional(v.record(v.string(), v.unknown())),
});

export const Chain = v.strictObject({
  version: Version,
  routes: v.pipe(
    v.array(v.strictObject({
      name: v.string(),
      service: v.string(),
      match: v.nullable(RouteMatch),
      splits: v.pipe(v.array(Split), v.minLength(1)),
      hash: v.array(HashPolicy),
      plugins: v.record(v.string(), v.unknown()),
    })),
    v.minLength(1),
  ),
  resolvers: v.record(v.string(), Resolver),
});

export const Target = v.strictObject({
  version: Version,
  key: v.string(),
  sni: v.string(),
  cluster: v.string(),
  spiffeUris: Texts,
  connectTimeoutMs: Amount,
  endpoints: v.array(Endpoint),
  unhealthy: v.array(Endpoint),
  lastResort: v.array(Endpoint),
  lack: v.string(),
});

export const PluginCode = v.strictObject({
  version: Version,
  text: v.string(),
  path: v.string(),
  map: v.string(),
  libraries: Texts,
});
