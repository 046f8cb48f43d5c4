/** A snapshot from a configuration file and the secrets that it names. @module */

import { type Endpoint, type OutlierPolicy, outlierPolicy } from "../../balance/mod.ts";
import { formatServiceId, formatServiceSni, parseServiceId } from "../../identity/mod.ts";
import type { HeldSecrets } from "../../secrets/mod.ts";
import { defined } from "../../base/schema.ts";
import type { FileConfig, FileUpstream } from "./file_config.ts";
import { fileUpstreamId, MESH_PLAN } from "./file_credentials.ts";
import { intentionsOf } from "./file_intentions.ts";
import { fileInboundHttp, fileUpstreamHttp } from "./file_http.ts";
import { judgePems } from "../parts/judge_credentials.ts";
import { isOpen, ownCredentials, warmingShown } from "../parts/own_credentials.ts";
import { telemetryPart, tracingPart } from "../parts/tracing.ts";
import { keepCode, pluginUses } from "../plugins/read_plugins.ts";
import type { MadeSnapshot, MakeContext } from "../shell/facts_reader.ts";
import type { SourceOptions } from "../shell/source_shell.ts";
import {
  type AccessLogPart,
  type ChainPart,
  type Content,
  type CredentialsPart,
  INBOUND_KEY,
  type InboundPart,
  keepPart,
  keepSnapshot,
  oneWay,
  type PolicyPart,
  type Refusal,
  type Snapshot,
  type TargetPart,
  type TlsPart,
  type UpstreamPart,
} from "../../snapshot/mod.ts";

interface FileSnapshotInput
  extends
    Pick<MakeContext, "previous">,
    Pick<SourceOptions, "tracing" | "telemetry">,
    Required<Pick<SourceOptions, "strictSpiffeChain" | "idleTimeoutMs" | "lifetimeMs">> {
  readonly held: HeldSecrets;
  readonly nowMs: number;
}

export function fileSnapshot(config: FileConfig, input: FileSnapshotInput): MadeSnapshot {
  const { previous, held } = input;
  const { plans } = config.credentials;
  const version = (previous?.version ?? 0) + 1;
  const trustDomains = config.trustDomain === undefined ? [] : [config.trustDomain];
  const { [MESH_PLAN]: mesh, ...others } = plans.plans;
  const wanted = Object.keys(others);
  const own = ownCredentials({ held, trustDomains, previous, version, wanted });
  const proxy = mesh ? proxyCredentials(config, { ...input, trustDomains }) : NO_PROXY_CREDENTIALS;
  const opens = (key: string | null) => key === null ? proxy.opens : isOpen(key, own);
  const inboundKey = plans.inbound === "refused" ? null : plans.inbound;

  const upstreams: Record<string, UpstreamPart> = {};
  const chains: Record<string, ChainPart> = {};
  const targets: Record<string, TargetPart> = {};
  for (const upstream of config.upstreams) {
    const id = fileUpstreamId(upstream.name);
    const key = plans.upstreams.get(id) ?? null;
    const listener = plans.listeners.get(id) ?? null;
    if (!opens(key) || listener !== null && !opens(listener)) continue;
    const target = targetContent(`${id}#file`, upstream, config);
    targets[target.key] = keepPart<TargetPart>(previous?.targets[target.key], target, version);
    const handshakeTimeoutMs = upstream.handshakeTimeout;
    const content = upstreamContent(id, upstream, {
      credentials: key,
      listener: listener === null ? null : { credentials: listener, handshakeTimeoutMs },
      ...input,
    });
    upstreams[id] = keepPart<UpstreamPart>(previous?.upstreams[id], content, version);
    const { balancing } = upstream;
    const resolver = { targets: [target.key], balancing, outlier: outlierOf(upstream) };
    const chain = oneWay(resolver, upstream.name);
    chains[id] = keepPart<ChainPart>(previous?.chains[id], chain, version);
  }
  const { service, datacenter, defaultAction, inbound } = config;
  const policy = { intentions: intentionsOf(config), defaultAction };
  const { strictSpiffeChain = input.strictSpiffeChain, ...directions } = config.tls;
  const snapshot: Snapshot = {
    version,
    service,
    proxyId: service,
    datacenter,
    credentials: proxy.content
      ? keepPart<CredentialsPart>(previous?.credentials, proxy.content, version)
      : mesh
      ? previous?.credentials ?? null
      : null,
    certificates: own.certificates,
    validations: own.validations,
    ownCredentials: own.ownCredentials,
    policy: keepPart<PolicyPart>(previous?.policy, policy, version),
    tls: keepPart<TlsPart>(previous?.tls, { ...directions, strictSpiffeChain }, version),
    exposed: {},
    edges: {},
    pluginCode: keepCode(previous, config.pluginCode ?? {}, version),
    accessLog: config.accessLog
      ? keepPart<AccessLogPart>(previous?.accessLog, config.accessLog, version)
      : null,
    tracing: tracingPart(input.tracing, config.tracing, { previous, version, service }),
    telemetry: telemetryPart(
      input.telemetry,
      defined({ metrics: config.metrics, logs: config.logs }),
      { previous, version, service },
    ),
    inbound: inbound && opens(inboundKey)
      ? {
        [INBOUND_KEY]: keepPart<InboundPart>(
          previous?.inbound[INBOUND_KEY],
          inboundContent(inbound, inboundKey),
          version,
        ),
      }
      : {},
    upstreams,
    chains,
    targets,
  };
  return {
    outcome: { kind: "ready", snapshot: keepSnapshot(previous, snapshot) },
    refused: proxy.refused,
    pending: [],
    warming: [...proxy.warming, ...warmingShown(own)],
    warmingUpstreams: config.upstreams.length - Object.keys(upstreams).length,
    dueMs: undefined,
  };
}

interface ProxyCredentials {
  /** May listeners that go by them open? */
  readonly opens: boolean;
  /** Absent: the previous credentials stay, if there are any. */
  readonly content?: Content<CredentialsPart>;
  readonly refused: readonly Refusal[];
  readonly warming: readonly string[];
}

const NO_PROXY_CREDENTIALS: ProxyCredentials = { opens: false, refused: [], warming: [] };

/** Files of a Consul-like mesh: judged whole, as the agent's are. */
function proxyCredentials(
  config: FileConfig,
  input: FileSnapshotInput & { readonly trustDomains: readonly string[] },
): ProxyCredentials {
  const { held, previous, nowMs, strictSpiffeChain, trustDomains } = input;
  const state = held.credentials[MESH_PLAN];
  const opens = previous?.credentials !== null && previous?.credentials !== undefined;
  if (state?.kind !== "open") {
    const names = state?.waitingFor.join(", ") ?? "";
    return { opens, refused: [], warming: opens ? [] : [`credentials (${names})`] };
  }
  const certificate = held.certificates[state.certificates[0] ?? ""]?.value;
  const validation = held.validations[state.validation ?? ""]?.value.validation;
  // After the timeout the listener opens, and refuses every caller until the credentials are there.
  if (!certificate || validation?.kind !== "ca") return { opens: true, refused: [], warming: [] };
  const verdict = judgePems({
    certPem: certificate.certPem,
    keyPem: certificate.keyPem,
    rootPems: validation.rootPems,
    trustDomains,
    service: config.service,
    nowMs,
    strictSpiffeChain: config.tls.strictSpiffeChain ?? strictSpiffeChain,
  });
  if (verdict.kind === "valid") {
    return { opens: true, content: verdict.credentials, refused: [], warming: [] };
  }
  const refused = [{ what: "credentials", reason: verdict.reason }];
  return { opens, refused, warming: opens ? [] : [`credentials (${verdict.reason})`] };
}

function inboundContent(
  inbound: NonNullable<FileConfig["inbound"]>,
  credentials: string | null,
): Content<InboundPart> {
  return {
    bind: inbound.bind,
    local: inbound.local,
    http: fileInboundHttp(inbound),
    plugins: pluginUses(inbound.plugins, "inbound.plugins"),
    localConnectTimeoutMs: inbound.localConnectTimeout,
    handshakeTimeoutMs: inbound.handshakeTimeout,
    maxConnections: inbound.maxConnections,
    authorize: "match",
    credentials,
  };
}

function upstreamContent(
  id: string,
  upstream: FileUpstream,
  from: Pick<UpstreamPart, "credentials" | "listener" | "idleTimeoutMs" | "lifetimeMs">,
): Content<UpstreamPart> {
  const { bind, socketMode } = upstream;
  return {
    id,
    name: upstream.name,
    bind: bind.kind === "unix" && socketMode !== undefined ? { ...bind, mode: socketMode } : bind,
    chain: id,
    http: fileUpstreamHttp(upstream),
    plugins: pluginUses(upstream.plugins, `upstreams[${JSON.stringify(upstream.name)}].plugins`),
    maxConnections: upstream.maxConnections,
    ...(upstream.maxClientConnections !== undefined && {
      maxClientConnections: upstream.maxClientConnections,
    }),
    maxPending: upstream.maxPending,
    maxRequests: upstream.maxRequests ?? 1_024,
    idleTimeoutMs: upstream.idleTimeout ?? from.idleTimeoutMs,
    lifetimeMs: upstream.lifetime ?? from.lifetimeMs,
    credentials: from.credentials,
    listener: from.listener,
  };
}

function outlierOf({ outlier }: FileUpstream): OutlierPolicy {
  const { interval, baseEjection, maxEjection, ...counts } = outlier;
  const spans = { intervalMs: interval, baseEjectionMs: baseEjection, maxEjectionMs: maxEjection };
  return outlierPolicy(defined({ ...counts, ...spans }));
}

function targetContent(
  key: string,
  upstream: FileUpstream,
  config: FileConfig,
): Content<TargetPart> {
  const { trustDomain = "" } = config;
  const { identity } = upstream;
  const own = identity && {
    trustDomain,
    ...identity,
    datacenter: identity.datacenter ?? config.datacenter,
  };
  const spiffeUris = own ? [formatServiceId(own)] : upstream.spiffeIds ?? [];
  const [first = ""] = spiffeUris;
  const parsed = parseServiceId(first);
  const derived = parsed.kind === "service" ? formatServiceSni(parsed.id) : "";
  const sni = upstream.sni ?? config.credentials.serverNames.get(upstream.name) ?? derived;
  return {
    key,
    sni,
    cluster: sni || upstream.name,
    spiffeUris: [...new Set(spiffeUris)].sort(),
    connectTimeoutMs: upstream.connectTimeout,
    endpoints: upstream.addresses.map((address): Endpoint => {
      const { host, port } = address;
      const weight = "weight" in address ? address.weight : 1;
      return { id: `${host}:${port}`, host, port, weight };
    }),
    unhealthy: [],
    lastResort: [],
    lack: "",
  };
}
