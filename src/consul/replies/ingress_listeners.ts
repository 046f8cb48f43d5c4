/**
 * An ingress gateway's listeners as part of its registration. A TCP listener is an upstream that any caller
 * may use; an HTTP listener leads to several upstreams, by the request's host. The intentions of each
 * service are judged at the service.
 *
 * @module
 */

import type { EdgeDeclaration, Registration, UpstreamDeclaration } from "../model/values.ts";
import {
  entryName,
  type GatewayServices,
  type IngressEntry,
  type IngressListener,
  type IngressService,
} from "./ingress.ts";

const EVERY = "*";
const NO_SERVICES: GatewayServices = { services: [], someHidden: false };

export function namesEveryService(entry: IngressEntry | null): boolean {
  return entry?.listeners.some(({ protocol, services }) =>
    protocol !== "tcp" && services.some(({ name }) => name === EVERY)
  ) ?? false;
}

/**
 * The gateway's registration with the listeners of its config entry, and those that are not served by name.
 * `every`: the services that `*` includes.
 */
export function withIngressEntry(
  registration: Registration,
  entry: IngressEntry | null,
  every: GatewayServices = NO_SERVICES,
): Registration {
  const { ingress, bind } = registration;
  if (!ingress) return registration;
  const refused: { readonly what: string; readonly reason: string }[] = [];
  const warnings = [...registration.warnings];
  const upstreams: UpstreamDeclaration[] = [];
  const edges: EdgeDeclaration[] = [];
  if (!entry) {
    const what = entryName(registration.service);
    refused.push({ what, reason: "there is none, so nothing is listened for" });
  }
  const ports = new Set<number>();
  for (const listener of entry?.listeners ?? []) {
    const { port, protocol, tls } = listener;
    const reason = refusalOf(listener, ports);
    if (reason !== undefined) {
      refused.push({ what: `ingress listener ${port}`, reason });
      continue;
    }
    ports.add(port);
    const services = withEvery(listener, every, warnings);
    const at = { kind: "tcp", host: bind.host, port } as const;
    const declare = (
      { hosts: _hosts, requestHeaders: _request, responseHeaders: _response, ...service }:
        IngressService,
    ): UpstreamDeclaration => ({
      ...service,
      id: upstreamId(port, service),
      kind: "service",
      peer: "",
      datacenter: "",
      bind: protocol === "tcp" ? at : null,
      meshGatewayMode: ingress.meshGatewayMode,
      protocol,
      ...(protocol === "tcp" && { ingressTls: tls }),
    });
    upstreams.push(...services.map(declare));
    if (protocol === "tcp") continue;
    edges.push({
      id: `ingress:${port}`,
      bind: at,
      protocol,
      hosts: services.map((service) => ({
        names: namesOf(service),
        upstream: upstreamId(port, service),
        ...(service.requestHeaders && { requestHeaders: service.requestHeaders }),
        ...(service.responseHeaders && { responseHeaders: service.responseHeaders }),
      })),
      tls,
    });
  }
  if (every.someHidden) {
    warnings.push(
      `The service "*" of the ${entryName(registration.service)} is not every service: the token ` +
        "may not read all of them (service:read)",
    );
  }
  return { ...registration, upstreams, ingress: { ...ingress, edges, refused }, warnings };
}

/** A listener's services; `*` is replaced by the services that it includes, with its settings. */
function withEvery(
  { port, services }: IngressListener,
  every: GatewayServices,
  warnings: string[],
): readonly IngressService[] {
  const star = services.find(({ name }) => name === EVERY);
  if (!star) return services;
  const named = services.filter((service) => service !== star);
  const names = new Set(named.map(({ name }) => name));
  const hosts = new Set(named.flatMap(namesOf));
  const more: IngressService[] = [];
  for (const service of every.services) {
    if (service.port !== port || names.has(service.name)) continue;
    const { name, namespace, partition } = service;
    const own = { ...star, name, namespace, partition };
    const [host = ""] = namesOf(own);
    if (hosts.has(host)) {
      const what = `The service ${JSON.stringify(name)} is left out of ingress listener ${port}`;
      warnings.push(`${what}: the host ${host} is another service's`);
      continue;
    }
    hosts.add(host);
    more.push(own);
  }
  return [...named, ...more];
}

function upstreamId(port: number, { name }: Pick<IngressService, "name">): string {
  return `ingress:${port}/${name}`;
}

/** Without hosts: the service's name in Consul's DNS, in any domain. */
function namesOf({ name, hosts }: IngressService): readonly string[] {
  return hosts.length > 0 ? hosts : [`${name.toLowerCase()}.ingress.*`];
}

/** Why the listener cannot be served; `undefined`: it can. */
function refusalOf(
  { port, protocol, services }: IngressListener,
  taken: ReadonlySet<number>,
): string | undefined {
  if (!["tcp", "http", "http2", "grpc"].includes(protocol)) {
    return `its protocol ${JSON.stringify(protocol)} is not known; write tcp, http, http2 or grpc`;
  }
  if (port === 0) return "it has no port";
  if (services.length === 0 || services.some(({ name }) => !name)) return "it names no service";
  const isHttp = protocol !== "tcp";
  const isOne = services.length === 1;
  if (!isHttp && !isOne) return "it names several services, which only HTTP listeners can";
  const every = services.find(({ name }) => name === EVERY);
  if (every && !isHttp) return "it names every service, which only HTTP listeners can";
  if (every && every.hosts.length > 0) return "it has Hosts for every service";
  const names = services.map(({ name }) => name);
  if (new Set(names).size < names.length) return "it names a service twice";
  const hosts = services.flatMap(namesOf);
  if (isHttp && new Set(hosts).size < hosts.length) return "it names a host twice";
  return taken.has(port) ? "its port is an earlier listener's" : undefined;
}
