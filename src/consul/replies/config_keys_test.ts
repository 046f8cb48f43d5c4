import assert from "node:assert/strict";
import { test } from "node:test";
import { CONFIG_KEYS, type ConfigKey, type KeyPlace } from "./config_keys.ts";
import { readDefaults, readMesh } from "./mesh_and_defaults.ts";
import { readRegistration } from "./registration.ts";
import type { Registration } from "../model/values.ts";

/** A value for each key that does not take a text. */
const VALUES: Readonly<Record<string, unknown>> = {
  bind_port: 21_999,
  protocol: "http",
  local_connect_timeout_ms: 1,
  local_request_timeout_ms: 1,
  local_idle_timeout_ms: 1,
  handshake_timeout_ms: 1,
  max_inbound_connections: 1,
  max_request_headers_kb: 1,
  envoy_stats_tags: ["a=b"],
  envoy_stats_flush_interval: "5s",
  envoy_extra_static_clusters_json: '{"name": "sds"}',
  envoy_tracing_json: "",
  envoy_listener_tracing_json: "",
  postern_plugins: [{ plugin: "mirror" }],
  postern_show_denials: true,
  connect_timeout_ms: 1,
  "limits.max_connections": 1,
  "limits.max_client_connections": 1,
  "limits.max_pending_requests": 1,
  "limits.max_concurrent_requests": 1,
  "passive_health_check.interval": "1s",
  "passive_health_check.max_failures": 1,
  "passive_health_check.enforcing_consecutive_5xx": 1,
  "passive_health_check.max_ejection_percent": 1,
  "passive_health_check.base_ejection_time": "1s",
  prepared_query_interval: "1s",
  idle_timeout_ms: 1,
  max_connection_lifetime_ms: 1,
  Kind: "ingress-gateway",
  Port: 1,
  "Proxy.LocalServicePort": 1,
  "Proxy.Config": { protocol: "http" },
  "Proxy.Upstreams": [{ DestinationName: "db", LocalBindPort: 1 }],
  "Proxy.MeshGateway.Mode": "remote",
  "Proxy.Expose.Checks": true,
  "Proxy.Expose.Paths": [{ ListenerPort: 1, Path: "/metrics" }],
  "Proxy.AccessLogs.Enabled": true,
  "Proxy.AccessLogs.DisableListenerLogs": true,
  "TLS.Incoming.CipherSuites": ["a"],
  "TLS.Outgoing.CipherSuites": ["a"],
  "HTTP.SanitizeXForwardedClientCert": true,
  "HTTP.Incoming.RequestNormalization.InsecureDisablePathNormalization": true,
  "HTTP.Incoming.RequestNormalization.MergeSlashes": true,
  "EnvoyExtensions": [{ Name: "builtin/lua" }],
  "RateLimits.InstanceLevel.RequestsPerSecond": 1,
  "RateLimits.InstanceLevel.RequestsMaxBurst": 1,
  "RateLimits.InstanceLevel.Routes": [{ PathExact: "/" }],
};

/** Followed keys that readRegistration() does not read. */
const READ_ELSEWHERE = new Set([
  // The three keys make one value together: envoy_tracing_test.ts.
  ...["proxy", "gateway"].flatMap((place) =>
    ["envoy_tracing_json", "envoy_listener_tracing_json"].map((key) => `${place} ${key}`)
  ),
  "proxy envoy_extra_static_clusters_json",
  // Names that the request had already.
  "registration ContentHash",
  "registration Proxy.DestinationServiceID",
  // The agent's merge of config entries, which are watched by themselves.
  "registration Proxy.EnvoyExtensions",
]);

function nested(path: string, value: unknown): Readonly<Record<string, unknown>> {
  const [first = "", ...rest] = path.split(".");
  return { [first]: rest.length === 0 ? value : nested(rest.join("."), value) };
}

function read(place: KeyPlace, written: Readonly<Record<string, unknown>>): unknown {
  const proxy = (config: unknown, kind = "connect-proxy", rest = {}) =>
    readRegistration({
      Kind: kind,
      ID: "web-proxy",
      Service: "web-proxy",
      Proxy: { DestinationServiceName: "web", Config: config, ...rest },
    }, "web-proxy");
  switch (place) {
    case "proxy":
      return proxy(written);
    case "gateway":
      return proxy(written, "ingress-gateway");
    case "upstream":
      return proxy({}, "connect-proxy", {
        Upstreams: [{ DestinationName: "db", LocalBindPort: 1, Config: written }],
      });
    case "registration": {
      const { Proxy: inner = {}, ...outer } = written as { Proxy?: Record<string, unknown> };
      const Upstreams = [{ DestinationName: "far", LocalBindPort: 2 }];
      // Settings of access logs apply only if they are enabled.
      const logs = { Enabled: true, ...inner["AccessLogs"] as object };
      const AccessLogs = inner["AccessLogs"] === undefined ? {} : logs;
      return readRegistration({
        Kind: "connect-proxy",
        ID: "web-proxy",
        Service: "web-proxy",
        ...outer,
        Proxy: { DestinationServiceName: "web", Upstreams, ...inner, AccessLogs },
      }, "web-proxy");
    }
    case "proxy-defaults":
    case "service-defaults":
      return readDefaults(written, { kind: place, name: "web" });
    case "mesh":
      return readMesh(written);
  }
}

/** The value that is read from one key, and the warnings about it. */
function readKey({ place, key }: ConfigKey): { read: unknown; warnings: readonly string[] } {
  const blocks = place === "mesh" ? { TLS: {}, HTTP: {} } : {};
  const value = VALUES[key] ?? "text";
  const got = read(place, key === "" ? {} : { ...blocks, ...nested(key, value) }) as object;
  return { read: withoutWarnings(got), warnings: warningsIn(got) };
}

/** All warnings; those of an upstream are in its own list. */
function warningsIn(read: object): readonly string[] {
  const { warnings = [], upstreams = [] } = read as Partial<Registration>;
  return [...warnings, ...upstreams.flatMap(({ warnings = [] }) => warnings)];
}

function withoutWarnings(read: object): object {
  const { warnings: _, upstreams, ...rest } = read as Partial<Registration>;
  if (!upstreams) return rest;
  return { ...rest, upstreams: upstreams.map(({ warnings: _, ...upstream }) => upstream) };
}

for (const row of CONFIG_KEYS) {
  const { place, key, fate } = row;
  test(`CONFIG_KEYS: ${key} of ${place} is ${fate.kind} when it is read`, () => {
    const { read, warnings } = readKey(row);
    const without = readKey({ ...row, key: "" }).read;
    const entry = place === "proxy-defaults" || place === "service-defaults";
    switch (fate.kind) {
      case "followed":
        assert.deepEqual(warnings.filter((line) => /is ignored/.test(line)), []);
        // Consul merges most keys of the two entries into the registration.
        if (entry || READ_ELSEWHERE.has(`${place} ${key}`)) return;
        assert.notDeepEqual(read, without);
        return;
      case "moot":
        assert.deepEqual(warnings, []);
        return;
      case "ignored": {
        assert.deepEqual(read, without, "the key is followed: correct the table");
        assert.equal(warnings.length, 1, warnings.join("\n"));
        assert.ok(warnings[0]?.includes(` ${key}`) && warnings[0].endsWith(fate.reason));
        return;
      }
      case "refused":
        // The value is passed on, and refused later.
        assert.deepEqual(warnings, []);
        assert.notDeepEqual(read, without);
    }
  });
}

test("unknown keys are named, with the most similar known key", () => {
  const warned = (place: KeyPlace, written: Readonly<Record<string, unknown>>) =>
    warningsIn(read(place, written) as object);
  assert.deepEqual(warned("proxy", { max_inbound_connection: 0, MaxInboundConnections: 4 }), [
    "The proxy's config has max_inbound_connection, which is ignored: Postern does not know it; " +
    "did you mean max_inbound_connections?",
  ]);
  assert.match(
    warned("upstream", { limits: { max_conections: 1 } })?.join() ?? "",
    /^Upstream "db" has limits\.max_conections,.*did you mean limits\.max_connections\?$/,
  );
  assert.match(
    warned("mesh", { Brand: { New: true } })?.join() ?? "",
    /entry has Brand, .*ignored/,
  );
  assert.match(
    warned("registration", { Proxy: { Novelty: 1 } })?.join() ?? "",
    /registration has Proxy\.Novelty, /,
  );
  assert.deepEqual(
    warned("mesh", { Brand: { New: false }, Other: null }),
    [],
    "unset keys cause no warning",
  );
});

test("a warning about raw Envoy configuration does not show its value", () => {
  const { warnings } = read("proxy", { envoy_tracing_json: '{"secret": 1}' }) as {
    warnings: readonly string[];
  };
  assert.equal(warnings.length, 1);
  assert.doesNotMatch(warnings.join(), /secret/);
});
