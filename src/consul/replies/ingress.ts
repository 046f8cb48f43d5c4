/**
 * What an ingress gateway listens for: its config entry, whose TCP listeners become upstreams of the
 * gateway that everybody may call. Who may go on to the service is judged there, by its own intentions.
 *
 * @module
 */

import * as v from "valibot";
import type { PollQuestion } from "../watch/blocking_query.ts";
import type { Client } from "../http/client.ts";
import { ProxyConfig } from "./proxy_config.ts";
import { blockingQuery, cursorOf, readQuery } from "../http/query.ts";
import { count, flag, list, object, port, readReply, text } from "./schema.ts";
import type { IngressTlsDeclaration, Registration, UpstreamDeclaration } from "../types.ts";
import { outlierOf } from "./upstream.ts";

const TlsJson = v.nullish(object({ Enabled: flag }));
const LIMITS = {
  MaxConnections: count,
  MaxPendingRequests: count,
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
    })),
  })),
});

type Entry = v.InferOutput<typeof EntryJson>;
type Listener = NonNullable<Entry["Listeners"]>[number];
type Service = NonNullable<Listener["Services"]>[number];

/** An ingress gateway's config entry, as far as TCP listeners go by it. */
export interface IngressEntry {
  readonly listeners: readonly IngressListener[];
  readonly warnings: readonly string[];
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
    "name" | "namespace" | "partition" | "maxConnections" | "maxPending" | "outlier"
  > {}

/** `null` (no such entry) stays `null`. */
export function readIngressEntry(json: unknown, gateway: string): IngressEntry | null {
  if (json === null) return null;
  const entry = readReply(EntryJson, json, entryName(gateway));
  const warnings: string[] = [];
  const listeners = (entry.Listeners ?? []).map((listener, index): IngressListener => ({
    port: listener.Port ?? 0,
    protocol: listener.Protocol?.toLowerCase() || "tcp",
    services: (listener.Services ?? []).map((service) =>
      toService(service, { defaults: entry.Defaults, listener, warnings })
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
  return { listeners, warnings };
}

function entryName(gateway: string): string {
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
  { defaults, listener, warnings }: {
    readonly defaults: Entry["Defaults"];
    readonly listener: Listener;
    readonly warnings: string[];
  },
): IngressService {
  const where = `Service ${JSON.stringify(service.Name)} of ingress port ${listener.Port}`;
  const check = service.PassiveHealthCheck ?? defaults?.PassiveHealthCheck;
  const { enforcingPercent, ...outlier } = outlierOf(new ProxyConfig(check, { where, warnings }));
  const maxConnections = service.MaxConnections || defaults?.MaxConnections || 0;
  const maxPending = service.MaxPendingRequests || defaults?.MaxPendingRequests || 0;
  return {
    name: service.Name,
    namespace: service.Namespace || "default",
    partition: service.Partition || "default",
    ...(maxConnections > 0 && { maxConnections }),
    ...(maxPending > 0 && { maxPending }),
    // Zero is what an unset field of an ingress gateway looks like.
    outlier: { ...outlier, ...(enforcingPercent ? { enforcingPercent } : {}) },
  };
}

/** The gateway's registration with what its config entry adds; what is not served is named in it. */
export function withIngressEntry(
  registration: Registration,
  entry: IngressEntry | null,
): Registration {
  const { ingress, bind } = registration;
  if (!ingress) return registration;
  const refused: { readonly what: string; readonly reason: string }[] = [];
  const upstreams: UpstreamDeclaration[] = [];
  if (!entry) {
    const what = entryName(registration.service);
    refused.push({ what, reason: "there is none, so nothing is listened for" });
  }
  for (const listener of entry?.listeners ?? []) {
    const reason = refusalOf(listener, upstreams);
    const [service] = listener.services;
    if (reason !== undefined || !service) {
      refused.push({ what: `ingress listener ${listener.port}`, reason: reason ?? NO_SERVICE });
      continue;
    }
    upstreams.push({
      ...service,
      id: `ingress:${listener.port}/${service.name}`,
      kind: "service",
      peer: "",
      datacenter: "",
      bind: { kind: "tcp", host: bind.host, port: listener.port },
      meshGatewayMode: ingress.meshGatewayMode,
      protocol: "tcp",
      ingressTls: listener.tls,
    });
  }
  return {
    ...registration,
    upstreams,
    ingress: { ...ingress, refused },
    warnings: [...registration.warnings, ...entry?.warnings ?? []],
  };
}

const NO_SERVICE = "it names no service";

/** Why it cannot be served; `undefined`: it can. */
function refusalOf(
  { port, protocol, services }: IngressListener,
  before: readonly UpstreamDeclaration[],
): string | undefined {
  if (protocol !== "tcp") {
    return `its protocol is ${protocol}: HTTP listeners of an ingress gateway are not supported yet`;
  }
  if (port === 0) return "it has no port";
  const [service, ...more] = services;
  if (!service?.name) return NO_SERVICE;
  if (more.length > 0) return "it names several services, which only HTTP listeners can";
  if (service.name === "*") return "it names every service, which only HTTP listeners can";
  return before.some(({ bind }) => bind.kind === "tcp" && bind.port === port)
    ? "its port is an earlier listener's"
    : undefined;
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
    async poll(request) {
      const reply = await client.call({
        resource: "ingress",
        what: `read the ${entryName(service)}`,
        needs: `service:read on ${JSON.stringify(service)}`,
        path: `/v1/config/ingress-gateway/${encodeURIComponent(service)}`,
        absentIsAnswer: true,
        ...blockingQuery(request, readQuery(client, { stale: true })),
      });
      return { value: readIngressEntry(reply.json, service), ...cursorOf(reply) };
    },
  };
}
