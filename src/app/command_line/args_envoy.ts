/**
 * Flags of `consul connect envoy` that Postern does not have. What configures Envoy alone is taken and
 * named, so that units and job files need no edit; what would change which proxy runs, or what listens
 * where, is refused with what to use instead.
 *
 * @module
 */

import type { FlagGroup, FlagSpec, FlagValues } from "./args_flags.ts";

const NO_ENVOY = "it is about Envoy, and Postern carries the traffic itself; leave it out";
const NO_GRPC =
  "Postern reads from the agent's HTTP API, not from gRPC; leave it out and give the " +
  "agent's address and trust with -http-addr, -ca-file and -ca-path";
const METRICS =
  "metrics for Prometheus are at /stats/prometheus of the admin server; leave it out " +
  "and set -admin-bind";
const REGISTER =
  "Postern runs the sidecar that is registered; put the address into the service's " +
  "registration, or use -service, -listen and -register";

const INSTEAD: Readonly<Record<string, string>> = {
  "address": REGISTER,
  "admin-access-log-path":
    "requests to the admin server are in the log at level debug; leave it out",
  "bind-address":
    "the listener's address comes from the registration; set Address and Port of the " +
    "sidecar there, or use -service with -listen",
  "bootstrap":
    "there is no bootstrap configuration; see /config_dump of the admin server for what " +
    'is in force, or "postern check" for what would be',
  "deregister-after-critical":
    "with -register the entry is removed when the proxy ends; leave it out",
  "enable-config-gen-logging": "use -log-level debug",
  "envoy-binary": NO_ENVOY,
  "envoy-ready-bind-address": "readiness is at /ready of the admin server; set -admin-bind",
  "envoy-ready-bind-port": "readiness is at /ready of the admin server; set -admin-bind",
  "envoy-version": NO_ENVOY,
  "expose-servers": "mesh gateways are not there yet",
  "grpc-addr": NO_GRPC,
  "grpc-ca-file": NO_GRPC,
  "grpc-ca-path": NO_GRPC,
  "ignore-envoy-compatibility": NO_ENVOY,
  "mesh-gateway": "gateways are not there yet; run sidecars with -sidecar-for",
  "no-central-config": "the agent merges service-defaults and proxy-defaults itself; leave it out",
  "node-name": "Postern asks the local agent of the node; set that agent with -http-addr",
  "omit-deprecated-tags": NO_ENVOY,
  "prometheus-backend-port": METRICS,
  "prometheus-ca-file": METRICS,
  "prometheus-ca-path": METRICS,
  "prometheus-cert-file": METRICS,
  "prometheus-key-file": METRICS,
  "prometheus-scrape-path": METRICS,
  "wan-address": "mesh gateways are not there yet",
};

/** Those that are taken by `connect envoy` and do nothing. */
const TAKEN: Readonly<Record<string, FlagSpec["kind"]>> = {
  "admin-access-log-path": "text",
  "deregister-after-critical": "text",
  "enable-config-gen-logging": "switch",
  "envoy-binary": "text",
  "envoy-version": "text",
  "grpc-addr": "text",
  "grpc-ca-file": "text",
  "grpc-ca-path": "text",
  "ignore-envoy-compatibility": "switch",
  "no-central-config": "switch",
  "omit-deprecated-tags": "switch",
  "prometheus-backend-port": "text",
  "prometheus-ca-file": "text",
  "prometheus-ca-path": "text",
  "prometheus-cert-file": "text",
  "prometheus-key-file": "text",
  "prometheus-scrape-path": "text",
};

/** For the parser of `connect envoy`. */
export const TAKEN_ENVOY_FLAGS: FlagGroup = {
  title: "Taken from Envoy's command line",
  flags: Object.entries(TAKEN).map(([name, kind]) => ({ name, kind, help: INSTEAD[name] ?? "" })),
};

/** A sentence for each such flag that was given, and one for the words after `--`. */
export function envoyWarnings(flags: FlagValues, envoyWords: readonly string[]): readonly string[] {
  const named = Object.keys(TAKEN).filter((name) => flags.given(name))
    .map((name) => `-${name} does nothing: ${INSTEAD[name]}`);
  if (envoyWords.length === 0) return named;
  const words = envoyWords.join(" ").slice(0, 200);
  return [
    ...named,
    `what follows -- does nothing: ${words}: it is for Envoy; use the flags of postern proxy, ` +
    "such as -log-level",
  ];
}

/** Names of all flags that get such an answer. */
export const ENVOY_FLAGS: readonly string[] = Object.keys(INSTEAD);

/** What replaces Envoy's flag `name`, or `undefined` where it is not one of Envoy's. */
export function insteadOfEnvoyFlag(name: string): string | undefined {
  return Object.hasOwn(INSTEAD, name) ? INSTEAD[name] : undefined;
}
