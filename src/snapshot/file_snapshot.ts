/**
 * A snapshot from a configuration file and the credential files it names.
 *
 * @module
 */

import { open } from "node:fs/promises";
import { dirname, resolve } from "node:path";
import { type Endpoint, outlierPolicy } from "../balance/mod.ts";
import { type BindAddress, messageOf, ProxyError } from "../base/mod.ts";
import { formatServiceId, formatServiceSni, parseServiceId } from "../identity/mod.ts";
import type { Intention } from "../policy/mod.ts";
import {
  CONFIG_LIMIT_BYTES,
  type FileConfig,
  type FileUpstream,
  formatProblem,
  parseFileConfig,
} from "./file_config.ts";
import { judgePems } from "./judge_credentials.ts";
import { judgeMeshTls } from "./mesh_tls.ts";
import { type Content, keepPart, keepRecord } from "./parts.ts";
import type {
  CredentialsPart,
  InboundPart,
  PolicyPart,
  Snapshot,
  TargetPart,
  TlsDirection,
  TlsPart,
  UpstreamPart,
} from "./snapshot.ts";

export interface FileSnapshotOptions {
  readonly nowMs: number;
  readonly strictSpiffeChain: boolean;
  /** Where an upstream says nothing. */
  readonly idleTimeoutMs: number;
  readonly lifetimeMs: number;
  /** Its parts keep their versions where their content is the same. */
  readonly previous?: Snapshot;
}

/** A PEM file is rarely longer than a few kilobytes. */
const PEM_LIMIT_BYTES = 1024 * 1024;

/** Reads `file` and what it names; throws `config_invalid` with everything that is wrong. */
export async function readFileSnapshot(
  file: string,
  options: FileSnapshotOptions,
): Promise<Snapshot> {
  const parsed = parseFileConfig(await readText(file, file, CONFIG_LIMIT_BYTES));
  if (parsed.kind === "invalid") {
    const problems = parsed.problems.map((problem) => `\n  ${formatProblem(problem)}`).join("");
    throw invalid(file, `${problems.slice(1)}`);
  }
  const { config } = parsed;
  const version = (options.previous?.version ?? 0) + 1;
  const credentials = await readCredentials(config, file, options);
  return snapshotOf(config, { credentials, version, file, options });
}

async function readCredentials(
  config: FileConfig,
  file: string,
  options: FileSnapshotOptions,
): Promise<Content<CredentialsPart>> {
  const { certFile, keyFile, rootsFile } = config.credentials;
  const read = (path: string) => readText(file, resolve(dirname(file), path), PEM_LIMIT_BYTES);
  const verdict = judgePems({
    certPem: await read(certFile),
    keyPem: await read(keyFile),
    rootPems: [await read(rootsFile)],
    trustDomains: [config.trustDomain],
    service: config.service,
    nowMs: options.nowMs,
    strictSpiffeChain: config.tls.strictSpiffeChain ?? options.strictSpiffeChain,
  });
  if (verdict.kind === "invalid") throw invalid(file, `credentials: ${verdict.reason}`);
  return verdict.credentials;
}

interface Making {
  readonly credentials: Content<CredentialsPart>;
  readonly version: number;
  readonly file: string;
  readonly options: FileSnapshotOptions;
}

function snapshotOf(config: FileConfig, making: Making): Snapshot {
  const { credentials, version, options } = making;
  const { previous } = options;
  const upstreams: Record<string, UpstreamPart> = {};
  const targets: Record<string, TargetPart> = {};
  for (const upstream of config.upstreams) {
    const id = `service:default/default/${upstream.name}`;
    const target = targetContent(`${id}#file`, upstream, config);
    targets[target.key] = keepPart<TargetPart>(previous?.targets[target.key], target, version);
    const content = upstreamContent(id, upstream, { targets: [target.key], options });
    upstreams[id] = keepPart<UpstreamPart>(previous?.upstreams[id], content, version);
  }
  const { service, datacenter, defaultAction } = config;
  return {
    version,
    service,
    proxyId: service,
    datacenter,
    credentials: keepPart<CredentialsPart>(previous?.credentials, credentials, version),
    policy: keepPart<PolicyPart>(
      previous?.policy,
      { intentions: intentionsOf(config), defaultAction },
      version,
    ),
    tls: keepPart<TlsPart>(previous?.tls, tlsContent(config, making), version),
    inbound: config.inbound
      ? keepPart<InboundPart>(previous?.inbound, inboundContent(config.inbound), version)
      : null,
    upstreams: keepRecord(previous?.upstreams, upstreams),
    targets: keepRecord(previous?.targets, targets),
    refused: [],
  };
}

function inboundContent(inbound: NonNullable<FileConfig["inbound"]>): Content<InboundPart> {
  return {
    bind: inbound.bind,
    local: inbound.local,
    localConnectTimeoutMs: inbound.localConnectTimeout,
    handshakeTimeoutMs: inbound.handshakeTimeout,
    maxConnections: inbound.maxConnections,
    authorize: "match",
  };
}

function upstreamContent(
  id: string,
  upstream: FileUpstream,
  from: { readonly targets: readonly string[]; readonly options: FileSnapshotOptions },
): Content<UpstreamPart> {
  const { interval, baseEjection, maxEjection, ...counts } = upstream.outlier;
  return {
    id,
    name: upstream.name,
    bind: bindOf(upstream),
    targets: from.targets,
    balancing: upstream.balancing,
    outlier: outlierPolicy({
      ...defined(counts),
      ...(interval !== undefined && { intervalMs: interval }),
      ...(baseEjection !== undefined && { baseEjectionMs: baseEjection }),
      ...(maxEjection !== undefined && { maxEjectionMs: maxEjection }),
    }),
    maxConnections: upstream.maxConnections,
    maxPending: upstream.maxPending,
    idleTimeoutMs: upstream.idleTimeout ?? from.options.idleTimeoutMs,
    lifetimeMs: upstream.lifetime ?? from.options.lifetimeMs,
  };
}

function bindOf({ bind, socketMode }: FileUpstream): BindAddress {
  return bind.kind === "unix" && socketMode !== undefined ? { ...bind, mode: socketMode } : bind;
}

function targetContent(
  key: string,
  upstream: FileUpstream,
  config: FileConfig,
): Content<TargetPart> {
  const { trustDomain } = config;
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
  return {
    key,
    sni: upstream.sni ?? derived,
    spiffeUris: [...new Set(spiffeUris)].sort(),
    connectTimeoutMs: upstream.connectTimeout,
    endpoints: upstream.addresses.map((address): Endpoint => {
      const { host, port } = address;
      const weight = "weight" in address ? address.weight : 1;
      return { id: `${host}:${port}`, host, port, weight };
    }),
    lastResort: [],
  };
}

/** Consul's order: exact sources before `*`, whatever the order in the file. */
function intentionsOf({ intentions, service }: FileConfig): readonly Intention[] {
  return intentions.map(({ source, namespace, partition, action }): Intention => {
    const precedence = source === "*" ? 8 : 9;
    return {
      rule: `${source} => ${service} (configuration file, ${action})`,
      source: { name: source, namespace, partition, peer: "" },
      action,
      precedence,
    };
  }).sort((a, b) => b.precedence - a.precedence);
}

function tlsContent(config: FileConfig, { file, options }: Making): Content<TlsPart> {
  const directionOf = (
    { minVersion, maxVersion, cipherSuites }: FileConfig["tls"]["incoming"],
  ) => ({
    minVersion: `TLSv${minVersion.replace(".", "_")}`,
    maxVersion: `TLSv${maxVersion.replace(".", "_")}`,
    cipherSuites,
  });
  const judged = judgeMeshTls({
    incoming: directionOf(config.tls.incoming),
    outgoing: directionOf(config.tls.outgoing),
  });
  if (judged.kind === "refused") throw invalid(file, `tls: ${judged.reason}`);
  const { incoming, outgoing }: { incoming: TlsDirection; outgoing: TlsDirection } = judged;
  const strictSpiffeChain = config.tls.strictSpiffeChain ?? options.strictSpiffeChain;
  return { incoming, outgoing, strictSpiffeChain };
}

/** The file's text, refused beyond `limitBytes` before it is in memory. */
async function readText(config: string, path: string, limitBytes: number): Promise<string> {
  try {
    await using handle = await open(path, "r");
    const { size } = await handle.stat();
    if (size > limitBytes) throw new Error(`it has more than ${limitBytes} bytes`);
    // A device has no size: read no more than the limit of it.
    const buffer = new Uint8Array(limitBytes + 1);
    let length = 0;
    for (;;) {
      const { bytesRead } = await handle.read(buffer, length, buffer.length - length, null);
      if (bytesRead === 0) break;
      length += bytesRead;
      if (length > limitBytes) throw new Error(`it has more than ${limitBytes} bytes`);
    }
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(
      buffer.subarray(0, length),
    );
  } catch (error) {
    throw invalid(config, `"${path}" cannot be read: ${messageOf(error)}`, error);
  }
}

function defined<T extends object>(values: T): { [K in keyof T]: NonNullable<T[K]> } {
  const entries = Object.entries(values).filter(([, value]) => value !== undefined);
  return Object.fromEntries(entries) as { [K in keyof T]: NonNullable<T[K]> };
}

function invalid(file: string, fact: string, cause?: unknown): ProxyError {
  return new ProxyError("config_invalid", `Cannot use configuration "${file}": ${fact}`, { cause });
}
