/**
 * Reads from Consul's catalog whether callers would choose this proxy, for `/ready?catalog`.
 *
 * @module
 */

import type { CatalogState } from "../../admin/mod.ts";
import { messageOf } from "../../base/mod.ts";
import type { Consul } from "../../consul/mod.ts";
import type { Snapshot } from "../../snapshot/mod.ts";
import type { SourceStatus } from "../../source/mod.ts";

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
