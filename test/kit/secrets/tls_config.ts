/** The options with which tests read the configuration of credentials. @module */

import assert from "node:assert/strict";
import { parseTlsConfig, type SdsServer, type TlsConfigContext } from "../../../src/secrets/mod.ts";
import { formatPath } from "../../../src/base/schema.ts";

export const NODE = { id: "web-1", cluster: "web", metadata: {} };
export const SERVER: SdsServer = {
  name: "sds_cluster",
  addresses: [{ kind: "unix", path: "/run/sds.sock" }],
  tls: null,
  metadata: {},
  keepAliveMs: 30_000,
  keepAliveTimeoutMs: 5_000,
  backoffBaseMs: 500,
  backoffMaxMs: 30_000,
  node: NODE,
};
export const LISTENER: TlsConfigContext = {
  kind: "listener",
  path: ["inbound", "tls"],
  sdsServers: { sds_cluster: SERVER },
  node: NODE,
  env: { SPIFFE_ENDPOINT_SOCKET: "unix:///run/spire/agent.sock" },
};
export const UPSTREAM: TlsConfigContext = {
  ...LISTENER,
  kind: "upstream",
  path: ["upstreams", 0, "tls"],
};

/** `inbound.tls.source must be ...`, one a problem. */
export function problemsOf(value: unknown, context: TlsConfigContext): readonly string[] {
  const parsed = parseTlsConfig(value, context);
  assert.ok(parsed.kind === "invalid", "it was taken");
  return parsed.problems.map(({ path, message }) => `${formatPath(path)} ${message}`);
}
