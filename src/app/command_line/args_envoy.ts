/** Flags of `consul connect envoy` that Postern lacks: taken with a warning, or refused. @module */

import { type FlagValues, readFlagTable } from "../flags/parse_flags.ts";

const NO_ENVOY = "it is about Envoy, and Postern carries the traffic itself; leave it out";
const NO_GRPC =
  "Postern reads from the agent's HTTP API, not from gRPC; leave it out and give the " +
  "agent's address and trust with -http-addr, -ca-file and -ca-path";
const METRICS =
  "metrics for Prometheus are at /stats/prometheus of the admin server; leave it out " +
  "and set -admin-bind";

export const TAKEN_ENVOY_FLAGS = readFlagTable(`
Taken from Envoy's command line
  -admin-access-log-path FILE
      requests to the admin server are in the log at level debug; leave it out
  -deregister-after-critical DURATION
      with -register the entry is removed when the proxy ends; leave it out
  -enable-config-gen-logging
      use -log-level debug
  -envoy-binary FILE
      ${NO_ENVOY}
  -envoy-version VERSION
      ${NO_ENVOY}
  -grpc-addr ADDRESS
      ${NO_GRPC}
  -grpc-ca-file FILE
      ${NO_GRPC}
  -grpc-ca-path DIR
      ${NO_GRPC}
  -ignore-envoy-compatibility
      ${NO_ENVOY}
  -no-central-config
      the agent merges service-defaults and proxy-defaults itself; leave it out
  -omit-deprecated-tags
      ${NO_ENVOY}
  -prometheus-backend-port PORT
      ${METRICS}
  -prometheus-ca-file FILE
      ${METRICS}
  -prometheus-ca-path DIR
      ${METRICS}
  -prometheus-cert-file FILE
      ${METRICS}
  -prometheus-key-file FILE
      ${METRICS}
  -prometheus-scrape-path PATH
      ${METRICS}
`);

export const REFUSED_ENVOY_FLAGS = readFlagTable(`
Refused
  -address
      Postern runs the sidecar that is registered; put the address into the service's registration,
      or use -service, -listen and -register
  -bind-address
      the listener's address comes from the registration; set Address and Port of the sidecar there,
      or use -service with -listen
  -bootstrap
      there is no bootstrap configuration; see /config_dump of the admin server for what is in
      force, or "postern check" for what would be
  -envoy-ready-bind-address
      readiness is at /ready of the admin server; set -admin-bind
  -envoy-ready-bind-port
      readiness is at /ready of the admin server; set -admin-bind
  -expose-servers
      mesh gateways are not there yet
  -mesh-gateway
      gateways are not there yet; run sidecars with -sidecar-for
  -node-name
      Postern asks the local agent of the node; set that agent with -http-addr
  -wan-address
      mesh gateways are not there yet
`);

const TAKEN = TAKEN_ENVOY_FLAGS.flatMap(({ flags }) => flags);
const ROWS = [...TAKEN, ...REFUSED_ENVOY_FLAGS.flatMap(({ flags }) => flags)];

/** A sentence for each such flag that was given, and one for the words after `--`. */
export function envoyWarnings(flags: FlagValues, envoyWords: readonly string[]): readonly string[] {
  const named = TAKEN.filter(({ name }) => flags.given(name))
    .map(({ name, help }) => `-${name} does nothing: ${help}`);
  if (envoyWords.length === 0) return named;
  const words = envoyWords.join(" ").slice(0, 200);
  return [
    ...named,
    `what follows -- does nothing: ${words}: it is for Envoy; use the flags of postern proxy, ` +
    "such as -log-level",
  ];
}

export const ENVOY_FLAGS: readonly string[] = ROWS.map(({ name }) => name);

/** The replacement of Envoy's flag `name`; `undefined`: the flag is not in the table. */
export function insteadOfEnvoyFlag(name: string): string | undefined {
  return ROWS.find((flag) => flag.name === name)?.help;
}
