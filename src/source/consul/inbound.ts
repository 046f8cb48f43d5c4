/**
 * The public listener's part, from the registration and the mesh entry.
 *
 * @module
 */

import type { Registration } from "../../consul/mod.ts";
import { type HttpSettings, inboundHttp, protocolOf, unknownProtocol } from "../http_rules.ts";
import { keyInForce, type OwnCredentials } from "../own_credentials.ts";
import { INBOUND_KEY, keepPart } from "../../snapshot/mod.ts";
import type { HttpRules, InboundPart, PluginUse, Refusal, Snapshot } from "../../snapshot/mod.ts";
import type { CredentialPlans } from "./credential_plans.ts";
import type { ConsulState } from "./consul_state.ts";
import { judgeMeshHttp } from "./mesh_http.ts";

export interface InboundContext {
  /** Credentials of its own. */
  readonly wanted: CredentialPlans["inbound"];
  readonly own: OwnCredentials;
  readonly authorize: InboundPart["authorize"];
  /** That the registration names; `undefined`: they cannot be used. One of them may be a guard. */
  readonly plugins: readonly PluginUse[] | undefined;
  /** What verifies tokens; `undefined`: nothing does. */
  readonly tokens: PluginUse | undefined;
  /** It stays as it was, or closed. */
  readonly blocked: boolean;
  readonly previous: Snapshot | undefined;
  readonly version: number;
  /** What was not taken is added. */
  readonly refused: Refusal[];
}

/** By key; empty: there is none, or it has no credentials or plugins yet. */
export function inboundParts(
  known: ConsulState,
  registration: Registration,
  context: InboundContext,
): Snapshot["inbound"] {
  if (registration.bind.port === 0) return {};
  const previous = context.previous?.inbound[INBOUND_KEY];
  const http = inboundRules(known, registration, { previous, refused: context.refused });
  const credentials = keyInForce(context.wanted, previous, context.own);
  const { plugins } = context;
  if (credentials === undefined || !plugins) return {};
  if (context.blocked) {
    // What intentions demand of requests nobody would look at on a listener that carries bytes.
    const isSame = previous && (previous.http === null) === (http === null);
    return isSame ? { [INBOUND_KEY]: previous } : {};
  }
  const { bind, local, localConnectTimeoutMs, handshakeTimeoutMs } = registration;
  const part = keepPart<InboundPart>(previous, {
    bind,
    local,
    http,
    ...(context.tokens && { tokens: context.tokens }),
    plugins,
    localConnectTimeoutMs,
    handshakeTimeoutMs,
    maxConnections: registration.maxInboundConnections,
    authorize: context.authorize,
    credentials,
  }, context.version);
  return { [INBOUND_KEY]: part };
}

/** What the public listener makes of requests, from the registration and the mesh entry. */
function inboundRules(
  { mesh }: ConsulState,
  registration: Registration,
  { previous, refused }: {
    readonly previous: InboundPart | undefined;
    readonly refused: Refusal[];
  },
): HttpRules | null {
  const protocol = protocolOf(registration.protocol);
  if (!protocol) {
    const what = `protocol of ${registration.service}`;
    refused.push({ what, reason: unknownProtocol(registration.protocol) });
  }
  const before = previous?.http ?? undefined;
  let rules: HttpSettings = {
    path: before?.path,
    sanitizeForwardedClientCert: before?.protocol !== "grpc" && before?.sanitizeForwardedClientCert,
  };
  if (mesh !== undefined) {
    const judgement = judgeMeshHttp(mesh?.http);
    if (judgement.kind === "taken") rules = judgement;
    else refused.push({ what: "mesh HTTP", reason: judgement.reason });
  }
  return inboundHttp(protocol ?? "tcp", {
    path: rules.path,
    sanitizeForwardedClientCert: rules.sanitizeForwardedClientCert,
    headBytes: registration.headBytes,
    requestTimeoutMs: registration.localRequestTimeoutMs,
    streamIdleTimeoutMs: registration.localIdleTimeoutMs,
    showDenials: registration.showDenials,
  });
}
