/** Parts of the listeners that a registration declares, but for its upstreams. @module */

import type { ExposedPath, Registration } from "../../consul/mod.ts";
import {
  type HttpSettings,
  inboundHttp,
  protocolOf,
  unjudgedHttp,
  unknownProtocol,
} from "../parts/http_rules.ts";
import {
  isOpen,
  keyInForce,
  type OwnCredentials,
  type PartContext,
} from "../parts/own_credentials.ts";
import {
  type EdgePart,
  type ExposedPart,
  type HttpRules,
  INBOUND_KEY,
  type InboundPart,
  keepPart,
  type PluginUse,
  type Snapshot,
} from "../../snapshot/mod.ts";
import type { CredentialPlans } from "../parts/credential_plans.ts";
import type { ConsulState } from "./consul_state.ts";
import { judgeMeshHttp } from "./mesh_entry.ts";

/** Parts of an ingress gateway's HTTP listeners. */
export function edgeParts(
  registration: Registration,
  { plans, own, previous, version }: Pick<PartContext, "previous" | "version"> & {
    readonly plans: CredentialPlans;
    readonly own: OwnCredentials;
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

export function exposedParts(
  registration: Registration,
  { previous, version, refused }: PartContext,
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

/** Why a path cannot be served; `undefined`: it can. */
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

interface InboundContext extends PartContext {
  /** Credentials of its own. */
  readonly wanted: CredentialPlans["inbound"];
  readonly own: OwnCredentials;
  readonly authorize: InboundPart["authorize"];
  /** Plugins of the registration; `undefined`: they cannot be used. One of them may be a guard. */
  readonly plugins: readonly PluginUse[] | undefined;
  readonly tokens: PluginUse | undefined;
  /** The listener keeps its settings, or stays closed. */
  readonly blocked: boolean;
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
    // A listener that carries bytes would not check what intentions demand of requests.
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

/** HTTP rules of the public listener, from the registration and the mesh entry. */
function inboundRules(
  { mesh }: ConsulState,
  registration: Registration,
  { previous, refused }: {
    readonly previous: InboundPart | undefined;
    readonly refused: PartContext["refused"];
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
    ...rules,
    headBytes: registration.headBytes,
    requestTimeoutMs: registration.localRequestTimeoutMs,
    streamIdleTimeoutMs: registration.localIdleTimeoutMs,
    showDenials: registration.showDenials,
  });
}
