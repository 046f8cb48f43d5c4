/** An ingress gateway's config entry, and the services that Consul lists for a gateway. @module */

import * as v from "valibot";
import { type HeaderChanges, headerFault, type HeaderText } from "../../http/mod.ts";
import type { Client } from "../http/client.ts";
import type { IngressTlsDeclaration, Registration, UpstreamDeclaration } from "../model/values.ts";
import type { PollQuestion } from "../watch/blocking_query.ts";
import { ProxyConfig } from "./proxy_config.ts";
import { callQuestion, cursorOf, isMissing, pollCall } from "./questions.ts";
import {
  count,
  flag,
  list,
  map,
  object,
  port,
  readReply,
  renamed,
  someText,
  tenancy,
  text,
} from "./schema.ts";
import { outlierOf } from "./upstream.ts";

const TlsJson = v.nullish(object({ Enabled: flag }));
const HeaderChangesJson = v.nullish(object({ Add: map(text), Set: map(text), Remove: list(text) }));
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
      Namespace: tenancy,
      Partition: tenancy,
      Hosts: v.nullish(v.unknown()),
      TLS: v.nullish(v.unknown()),
      RequestHeaders: v.nullish(v.unknown()),
      ResponseHeaders: v.nullish(v.unknown()),
    })),
  })),
});

type Entry = v.InferOutput<typeof EntryJson>;
type Listener = Entry["Listeners"][number];
type Service = Listener["Services"][number];

const ServicesJson = list(object({
  Service: renamed({
    name: ["Name", someText],
    namespace: ["Namespace", tenancy],
    partition: ["Partition", tenancy],
  }),
  Port: port,
  FromWildcard: flag,
}));

export interface IngressEntry {
  readonly listeners: readonly IngressListener[];
}

export interface IngressListener {
  readonly port: number;
  /** Lower case; `tcp` where the entry has none. */
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
  /** Lower case; none: the DNS names that Consul gives the service. */
  readonly hosts: readonly string[];
  readonly requestHeaders?: HeaderChanges;
  readonly responseHeaders?: HeaderChanges;
}

/**
 * The services that a gateway's `*` includes: services of the mesh that have the listener's protocol and
 * that the token may read.
 */
export interface GatewayServices {
  /** Sorted, since Consul's order has no meaning. */
  readonly services: readonly GatewayService[];
  /** There are services that the token may not read. */
  readonly someHidden: boolean;
}

interface GatewayService extends Pick<IngressService, "name" | "namespace" | "partition"> {
  readonly port: number;
}

interface Warned {
  /** Begins each warning. */
  readonly where: string;
  readonly warnings: string[];
}

/** `null` (no such entry) stays `null`. */
export function readIngressEntry(json: unknown, gateway: string): IngressEntry | null {
  if (json === null) return null;
  const entry = readReply(EntryJson, json, entryName(gateway));
  const listeners = entry.Listeners.map((listener, index): IngressListener => ({
    port: listener.Port,
    protocol: listener.Protocol.toLowerCase() || "tcp",
    services: listener.Services.map((service) =>
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
          Services: listener.Services.map(({ Name, Hosts, TLS }) => ({ Name, Hosts, TLS })),
        }],
      },
    },
  }));
  return { listeners };
}

export function entryName(gateway: string): string {
  return `ingress-gateway entry ${JSON.stringify(gateway)}`;
}

/** A block that cannot be read counts as TLS: better refused later than open in clear. */
function isEnabled(tls: unknown): boolean {
  const read = v.safeParse(TlsJson, tls);
  return !read.success || read.output?.Enabled === true;
}

/** The service's own limits come before the entry's defaults; zero means none. */
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
  const changesOf = (name: "RequestHeaders" | "ResponseHeaders") =>
    readHeaderChanges(service[name], { where: `${name} of ${where}`, warnings });
  const requestHeaders = changesOf("RequestHeaders");
  const responseHeaders = changesOf("ResponseHeaders");
  const hosts = hostsOf(service.Hosts, { where, warnings });
  return {
    name: service.Name,
    namespace: service.Namespace,
    partition: service.Partition,
    ...(maxConnections > 0 && { maxConnections }),
    ...(maxPending > 0 && { maxPending }),
    ...(maxRequests > 0 && { maxRequests }),
    hosts,
    ...(requestHeaders && { requestHeaders }),
    ...(responseHeaders && { responseHeaders }),
    // An unset field of an ingress gateway looks like zero.
    outlier: { ...outlier, ...(enforcingPercent ? { enforcingPercent } : {}) },
    ...(warnings.length > 0 && { warnings }),
  };
}

/** Lower case; anything but a list of names counts as absent. */
function hostsOf(hosts: unknown, { where, warnings }: Warned): readonly string[] {
  const read = v.safeParse(list(v.pipe(v.string(), v.nonEmpty())), hosts);
  if (read.success) return read.output.map((host) => host.toLowerCase());
  warnings.push(`${where} has Hosts that are no list of names; they are ignored`);
  return [];
}

/**
 * `{"Add": {}, "Set": {}, "Remove": []}`; `undefined`: there is nothing to change. A change that cannot be
 * made is left out and named, and the rest is made.
 */
function readHeaderChanges(json: unknown, { where, warnings }: Warned): HeaderChanges | undefined {
  const read = v.safeParse(HeaderChangesJson, json);
  if (!read.success) {
    warnings.push(`${where} are no header changes; they are ignored`);
    return undefined;
  }
  if (!read.output) return undefined;
  const isAllowed = (verb: string, name: string, value?: string): boolean => {
    const fault = headerFault(name, value);
    if (fault) warnings.push(`${where}: ${verb} ${JSON.stringify(name)} is left out: it ${fault}`);
    return !fault;
  };
  const texts = (verb: string, given: Readonly<Record<string, string>>): HeaderText[] =>
    Object.entries(given).filter(([name, value]) => isAllowed(verb, name, value))
      .map(([name, value]) => [name.toLowerCase(), value]);
  const { Add, Set, Remove } = read.output;
  const changes = {
    remove: Remove.filter((name) => isAllowed("Remove", name)).map((name) => name.toLowerCase()),
    set: texts("Set", Set),
    add: texts("Add", Add),
  };
  return Object.values(changes).some(({ length }) => length > 0) ? changes : undefined;
}

/** The services that belong to the gateway by `*`. */
export function readGatewayServices(json: unknown, gateway: string): readonly GatewayService[] {
  return readReply(ServicesJson, json, servicesOf(gateway))
    .filter(({ FromWildcard }) => FromWildcard)
    .map(({ Service, Port }): GatewayService => ({ port: Port, ...Service }))
    .sort((a, b) => keyOf(a) < keyOf(b) ? -1 : 1);
}

function servicesOf(gateway: string): string {
  return `services of gateway ${JSON.stringify(gateway)}`;
}

function keyOf({ port, partition, namespace, name }: GatewayService): string {
  return `${port} ${partition}/${namespace}/${name}`;
}

/** Ports, and the services behind each. */
function backendsOf(entry: IngressEntry | null): readonly string[] {
  return (entry?.listeners ?? []).flatMap(({ port, services }) => [
    `${port}`,
    ...services.map((service) => keyOf({ port, ...service })),
  ]);
}

export function ingressEntryQuestion(
  client: Client,
  { id, service }: Pick<Registration, "id" | "service">,
): PollQuestion<IngressEntry | null> {
  return callQuestion(client, {
    name: `registration ${id}: ingress entry ${service}`,
    resource: "ingress",
    isCritical: true,
    lacks: (after, before) =>
      before !== null && isMissing(backendsOf(after), backendsOf(before), (name) => name),
    call: {
      what: `read the ${entryName(service)}`,
      needs: `service:read on ${JSON.stringify(service)}`,
      path: `/v1/config/ingress-gateway/${encodeURIComponent(service)}`,
      absentIsAnswer: true,
    },
    read: (json) => readIngressEntry(json, service),
  });
}

export function gatewayServicesQuestion(
  client: Client,
  { id, service }: Pick<Registration, "id" | "service">,
): PollQuestion<GatewayServices> {
  return {
    name: `registration ${id}: ${servicesOf(service)}`,
    resource: "gateway_services",
    isCritical: true,
    lacks: (after, before) => isMissing(after.services, before.services, keyOf),
    async poll(request) {
      const reply = await pollCall(client, request, {
        resource: "gateway_services",
        what: `read the ${servicesOf(service)}`,
        needs: `service:read on ${JSON.stringify(service)}`,
        path: `/v1/catalog/gateway-services/${encodeURIComponent(service)}`,
      });
      const services = readGatewayServices(reply.json, service);
      // The answer has no digest, because the bytes alone do not determine the value.
      return { value: { services, someHidden: reply.filteredByAcls }, ...cursorOf(reply) };
    },
  };
}
