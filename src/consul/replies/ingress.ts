/**
 * What an ingress gateway listens for: its config entry.
 *
 * @module
 */

import * as v from "valibot";
import type { PollQuestion } from "../watch/blocking_query.ts";
import type { Client } from "../http/client.ts";
import type { HeaderChanges } from "../../http/mod.ts";
import { readHeaderChanges } from "./header_changes.ts";
import { ProxyConfig } from "./proxy_config.ts";
import { answerOf, blockingQuery, readQuery } from "../http/query.ts";
import { isMissing } from "./missing.ts";
import { count, flag, list, object, port, readReply, text } from "./schema.ts";
import type { IngressTlsDeclaration, Registration, UpstreamDeclaration } from "../types.ts";
import { outlierOf } from "./upstream.ts";

const TlsJson = v.nullish(object({ Enabled: flag }));
const LIMITS = {
  MaxConnections: count,
  MaxPendingRequests: count,
  MaxConcurrentRequests: count,
  PassiveHealthCheck: v.nullish(v.unknown()),
};

const EntryJson = object({
  TLS: v.nullish(v.unknown()),
  Defaults: v.nullish(object(LIMITS)),
  Listeners: list(object({
    Port: port,
    Protocol: text,
    TLS: v.nullish(v.unknown()),
    Services: list(object({
      ...LIMITS,
      Name: text,
      Namespace: text,
      Partition: text,
      Hosts: v.nullish(v.unknown()),
      TLS: v.nullish(v.unknown()),
      RequestHeaders: v.nullish(v.unknown()),
      ResponseHeaders: v.nullish(v.unknown()),
    })),
  })),
});

type Entry = v.InferOutput<typeof EntryJson>;
type Listener = NonNullable<Entry["Listeners"]>[number];
type Service = NonNullable<Listener["Services"]>[number];

/** An ingress gateway's config entry. */
export interface IngressEntry {
  readonly listeners: readonly IngressListener[];
}

export interface IngressListener {
  readonly port: number;
  /** Lower case; `tcp` where the entry says nothing. */
  readonly protocol: string;
  /** TCP has exactly one. */
  readonly services: readonly IngressService[];
  readonly tls: IngressTlsDeclaration;
}

export interface IngressService extends
  Pick<
    UpstreamDeclaration,
    | "name"
    | "namespace"
    | "partition"
    | "maxConnections"
    | "maxPending"
    | "maxRequests"
    | "outlier"
    | "warnings"
  > {
  /** Lower case; none: those that Consul gives its DNS names. */
  readonly hosts: readonly string[];
  readonly requestHeaders?: HeaderChanges;
  readonly responseHeaders?: HeaderChanges;
}

/** `null` (no such entry) stays `null`. */
export function readIngressEntry(json: unknown, gateway: string): IngressEntry | null {
  if (json === null) return null;
  const entry = readReply(EntryJson, json, entryName(gateway));
  const listeners = (entry.Listeners ?? []).map((listener, index): IngressListener => ({
    port: listener.Port ?? 0,
    protocol: listener.Protocol?.toLowerCase() || "tcp",
    services: (listener.Services ?? []).map((service) =>
      toService(service, { defaults: entry.Defaults, listener })
    ),
    tls: {
      enabled: isEnabled(entry.TLS) || isEnabled(listener.TLS),
      index,
      path: ["ingress-gateway", gateway],
      entry: {
        TLS: entry.TLS,
        Listeners: [{
          Port: listener.Port,
          TLS: listener.TLS,
          Services: (listener.Services ?? []).map(({ Name, Hosts, TLS }) => ({ Name, Hosts, TLS })),
        }],
      },
    },
  }));
  return { listeners };
}

export function entryName(gateway: string): string {
  return `ingress-gateway entry ${JSON.stringify(gateway)}`;
}

/** What cannot be read counts as TLS: better refused later than open in clear. */
function isEnabled(tls: unknown): boolean {
  const read = v.safeParse(TlsJson, tls);
  return !read.success || read.output?.Enabled === true;
}

/** The service's own limits before the entry's defaults; zero is none. */
function toService(
  service: Service,
  { defaults, listener }: { readonly defaults: Entry["Defaults"]; readonly listener: Listener },
): IngressService {
  const warnings: string[] = [];
  const where = `Service ${JSON.stringify(service.Name)} of ingress port ${listener.Port}`;
  const check = service.PassiveHealthCheck ?? defaults?.PassiveHealthCheck;
  const { enforcingPercent, ...outlier } = outlierOf(new ProxyConfig(check, { where, warnings }));
  const maxConnections = service.MaxConnections || defaults?.MaxConnections || 0;
  const maxPending = service.MaxPendingRequests || defaults?.MaxPendingRequests || 0;
  const maxRequests = service.MaxConcurrentRequests || defaults?.MaxConcurrentRequests || 0;
  const requestHeaders = readHeaderChanges(service.RequestHeaders, {
    ...{ where: `RequestHeaders of ${where}`, warnings },
  });
  const responseHeaders = readHeaderChanges(service.ResponseHeaders, {
    ...{ where: `ResponseHeaders of ${where}`, warnings },
  });
  const hosts = hostsOf(service.Hosts, { where, warnings });
  return {
    name: service.Name,
    namespace: service.Namespace || "default",
    partition: service.Partition || "default",
    ...(maxConnections > 0 && { maxConnections }),
    ...(maxPending > 0 && { maxPending }),
    ...(maxRequests > 0 && { maxRequests }),
    hosts,
    ...(requestHeaders && { requestHeaders }),
    ...(responseHeaders && { responseHeaders }),
    // Zero is what an unset field of an ingress gateway looks like.
    outlier: { ...outlier, ...(enforcingPercent ? { enforcingPercent } : {}) },
    ...(warnings.length > 0 && { warnings }),
  };
}

/** What is reached by it, and where. */
function backendsOf(entry: IngressEntry | null): readonly string[] {
  return (entry?.listeners ?? []).flatMap(({ port, services }) => [
    `${port}`,
    ...services.map(({ partition, namespace, name }) =>
      `${port} ${partition}/${namespace}/${name}`
    ),
  ]);
}

/** Lower case; what is no list of names is as if it were not there. */
function hostsOf(
  hosts: unknown,
  { where, warnings }: { readonly where: string; readonly warnings: string[] },
): readonly string[] {
  const read = v.safeParse(v.nullish(v.array(v.pipe(v.string(), v.nonEmpty())), []), hosts);
  if (!read.success) {
    warnings.push(`${where} has Hosts that are no list of names; they are ignored`);
  }
  return read.success ? (read.output ?? []).map((host) => host.toLowerCase()) : [];
}

export function ingressEntryQuestion(
  client: Client,
  { id, service }: Pick<Registration, "id" | "service">,
): PollQuestion<IngressEntry | null> {
  return {
    name: `registration ${id}: ingress entry ${service}`,
    resource: "ingress",
    critical: true,
    dropped: false,
    cursor: "index",
    lacks: (after, before) =>
      before !== null && isMissing(backendsOf(after), backendsOf(before), (name) => name),
    async poll(request) {
      const reply = await client.call({
        resource: "ingress",
        what: `read the ${entryName(service)}`,
        needs: `service:read on ${JSON.stringify(service)}`,
        path: `/v1/config/ingress-gateway/${encodeURIComponent(service)}`,
        absentIsAnswer: true,
        ...blockingQuery(request, readQuery(client, { stale: true })),
      });
      return answerOf(reply, request, (json) => readIngressEntry(json, service));
    },
  };
}
