/** Questions to Consul while the proxy serves: the verdict over a connection, and the catalog. @module */

import type { CatalogState } from "../../admin/mod.ts";
import { messageOf, ProxyError } from "../../base/mod.ts";
import type { Consul } from "../../consul/mod.ts";
import type { Snapshot } from "../../snapshot/mod.ts";
import type { SourceStatus } from "../../source/mod.ts";
import type { RemoteAuthorize } from "../../proxy/mod.ts";

export interface CatalogLookParts {
  /** Absent with `-config`. */
  readonly agent: Pick<Consul, "askFailingChecks"> | undefined;
  readonly source: { status(): Pick<SourceStatus, "isGateway"> };
  readonly proxyId: string;
  readonly snapshot: Pick<Snapshot, "service" | "datacenter"> | undefined;
}

/** `parts`: `undefined` until the proxy's id is known. */
export function createCatalogLook(
  parts: () => CatalogLookParts | undefined,
): () => Promise<CatalogState> {
  /** Concurrent requests share one read of Consul. */
  let running: Promise<CatalogState> | undefined;
  return () => running ??= look(parts()).finally(() => running = undefined);
}

async function look(parts: CatalogLookParts | undefined): Promise<CatalogState> {
  if (!parts?.snapshot) return { kind: "known", failing: ["waiting for the first snapshot"] };
  const { agent, source, proxyId, snapshot: { service, datacenter } } = parts;
  if (!agent) {
    return unsupported("a proxy with -config is in no catalog of Consul; ask for /ready alone");
  }
  if (source.status().isGateway) {
    return unsupported(
      "an ingress gateway is chosen by callers outside the mesh, not by the catalog; ask for " +
        "/ready alone",
    );
  }
  try {
    const failing = await agent.askFailingChecks({ service, proxyId, datacenter });
    return { kind: "known", failing: failing.map((why) => `Consul passes it over: ${why}`) };
  } catch (error) {
    return { kind: "known", failing: [messageOf(error)] };
  }
}

function unsupported(reason: string): CatalogState {
  return { kind: "unsupported", reason };
}

const AUTHORIZE_TIMEOUT_MS = 2_000;
const MAX_AUTHORIZE_CALLS = 256;

/** Beyond the most calls at once, a call fails at once, which denies the connection. */
export function boundedAuthorize(agent: Consul | undefined): RemoteAuthorize {
  let running = 0;
  return async (request) => {
    if (!agent) throw new ProxyError("authorize_failed", "there is no agent");
    if (running >= MAX_AUTHORIZE_CALLS) {
      const fact = `${running} connections wait for the agent's verdict`;
      throw new ProxyError("authorize_failed", fact);
    }
    running++;
    try {
      return await agent.authorize(request, { timeoutMs: AUTHORIZE_TIMEOUT_MS });
    } finally {
      running--;
    }
  };
}
