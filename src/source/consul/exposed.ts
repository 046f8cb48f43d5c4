/**
 * Parts of the paths that a registration exposes to callers outside the mesh.
 *
 * @module
 */

import type { ExposedPath, Registration } from "../../consul/mod.ts";
import { protocolOf, unjudgedHttp } from "../http_rules.ts";
import { keepPart } from "../../snapshot/mod.ts";
import type { ExposedPart, Refusal, Snapshot } from "../../snapshot/mod.ts";

export interface ExposedContext {
  readonly previous: Snapshot | undefined;
  readonly version: number;
  /** What was not taken is added. */
  readonly refused: Refusal[];
}

export function exposedParts(
  registration: Registration,
  { previous, version, refused }: ExposedContext,
): Snapshot["exposed"] {
  const parts: Record<string, ExposedPart> = {};
  const { bind, local, localConnectTimeoutMs, headBytes } = registration;
  const ports = new Set([bind.port]);
  for (const exposed of registration.exposed ?? []) {
    const { path, listenerPort: port, localPort, onlyFrom } = exposed;
    const protocol = protocolOf(exposed.protocol || "http");
    const http = unjudgedHttp(protocol ?? "tcp", { headBytes });
    const reason = refusalOf(exposed, ports);
    if (reason || !http || protocol === "grpc") {
      const why = reason ?? `its protocol ${JSON.stringify(exposed.protocol)} is not http or http2`;
      refused.push({ what: `exposed path ${JSON.stringify(path)}`, reason: why });
      continue;
    }
    ports.add(port);
    const key = `exposed:${port}`;
    parts[key] = keepPart<ExposedPart>(previous?.exposed[key], {
      bind: { ...bind, port },
      path,
      ...(onlyFrom && { onlyFrom }),
      // A service on a socket has no other port.
      local: local.kind === "unix" ? local : { ...local, port: localPort || local.port },
      localConnectTimeoutMs,
      http,
    }, version);
  }
  return parts;
}

/** Why it cannot be served; `undefined`: it can. */
function refusalOf(
  { path, listenerPort, localPort }: ExposedPath,
  taken: ReadonlySet<number>,
): string | undefined {
  if (!/^\/[^?#\s]*$/.test(path)) {
    return 'it is no path: write "/" and what follows, without a query';
  }
  if (listenerPort < 1 || listenerPort > 65_535) return `its listener port ${listenerPort} is none`;
  if (localPort < 0 || localPort > 65_535) return `its local port ${localPort} is none`;
  return taken.has(listenerPort)
    ? `its listener port ${listenerPort} is taken by an earlier listener`
    : undefined;
}
