/**
 * Parts of an ingress gateway's HTTP listeners.
 *
 * @module
 */

import type { Registration } from "../../consul/mod.ts";
import { protocolOf, unjudgedHttp } from "../http_rules.ts";
import { isOpen, type OwnCredentials } from "../own_credentials.ts";
import { keepPart } from "../../snapshot/mod.ts";
import type { EdgePart, Snapshot } from "../../snapshot/mod.ts";
import type { CredentialPlans } from "./credential_plans.ts";

export function edgeParts(
  registration: Registration,
  { plans, own, previous, version }: {
    readonly plans: CredentialPlans;
    readonly own: OwnCredentials;
    readonly previous: Snapshot | undefined;
    readonly version: number;
  },
): Snapshot["edges"] {
  const parts: Record<string, EdgePart> = {};
  for (const { id, bind, protocol, hosts } of registration.ingress?.edges ?? []) {
    const credentials = plans.listeners.get(id) ?? null;
    const { headBytes, handshakeTimeoutMs } = registration;
    const http = unjudgedHttp(protocolOf(protocol) ?? "tcp", { headBytes });
    // Callers do not go on in clear where TLS is wanted; the reason is among the plans' refusals.
    if (!http || credentials === "refused" || !isOpen(credentials, own)) continue;
    const listener = credentials === null ? null : { credentials, handshakeTimeoutMs };
    parts[id] = keepPart<EdgePart>(
      previous?.edges[id],
      { id, bind, http, plugins: [], listener, hosts },
      version,
    );
  }
  return parts;
}
