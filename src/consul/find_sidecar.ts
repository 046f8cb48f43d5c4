/**
 * Which proxy stands for a service, or is the gateway here: what `-sidecar-for`, `-proxy-id` and
 * `-gateway` mean.
 *
 * @module
 */

import * as v from "valibot";
import { ProxyError } from "../base/mod.ts";
import type { Client, ConsulReply } from "./http/client.ts";
import { readRegistration } from "./replies/registration.ts";
import { map, object, readReply, text } from "./replies/schema.ts";
import { listed, shown } from "./shown_ids.ts";

const TIMEOUT_MS = 10_000;

const ServicesReply = map(object({
  Kind: text,
  ID: text,
  Service: text,
  Proxy: v.nullish(object({ DestinationServiceID: text, DestinationServiceName: text })),
}));

/** The ids of the sidecars for `serviceId`, whose case does not count. */
export function readSidecars(json: unknown, serviceId: string): readonly string[] {
  const services = readReply(ServicesReply, json, "the agent's services");
  return Object.values(services ?? {})
    .filter((service) => service.Kind === "connect-proxy")
    .filter((service) =>
      service.Proxy?.DestinationServiceID.toLowerCase() === serviceId.toLowerCase()
    )
    .map((service) => service.ID)
    .sort();
}

export async function findSidecar(client: Client, serviceId: string): Promise<string> {
  const reply = await client.call({
    resource: "services",
    what: `look for the sidecar of ${JSON.stringify(serviceId)}`,
    path: "/v1/agent/services",
    query: { filter: 'Kind == "connect-proxy"' },
    timeoutMs: TIMEOUT_MS,
  });
  const [only, ...more] = readSidecars(reply.json, serviceId);
  if (only === undefined) {
    const mayBeHidden = reply.filteredByAcls || !client.hasToken;
    // A list leaves out what the token may not see; asking by the id that agents give to sidecars fails.
    if (mayBeHidden) await readService(client, `${serviceId}-sidecar-proxy`);
    const hidden = mayBeHidden
      ? ", or give a token that may see it (service:read on its sidecar)"
      : "";
    throw new ProxyError(
      "agent_not_found",
      `No sidecar proxy registered for ${serviceId}: register the service on this agent with ` +
        `connect { sidecar_service {} }${hidden}; -sidecar-for takes the service's id, not its ` +
        `name${listed("ids with a sidecar here", readServed(reply.json))}`,
    );
  }
  if (more.length > 0) {
    throw new ProxyError(
      "usage",
      `More than one sidecar proxy registered for ${serviceId}: start one of ` +
        `${[only, ...more].map(shown).join(", ")} with -proxy-id`,
    );
  }
  return only;
}

/** The ids of the services that have a sidecar. */
function readServed(json: unknown): readonly string[] {
  const services = readReply(ServicesReply, json, "the agent's services");
  return Object.values(services ?? {})
    .flatMap(({ Kind, Proxy }) =>
      Kind === "connect-proxy" ? Proxy?.DestinationServiceID ?? [] : []
    );
}

/** Fails where `proxyId` is not registered, or is nothing that can be run. */
export async function findProxy(client: Client, proxyId: string): Promise<string> {
  const reply = await readService(client, proxyId);
  if (reply.status !== 404) {
    readRegistration(reply.json, proxyId);
    return proxyId;
  }
  const proxies = await client.call({
    resource: "services",
    what: "look for the proxies of this agent",
    path: "/v1/agent/services",
    query: { filter: 'Kind == "connect-proxy" or Kind == "ingress-gateway"' },
    timeoutMs: TIMEOUT_MS,
  });
  const services = readReply(ServicesReply, proxies.json, "the agent's services");
  const ids = Object.values(services ?? {}).map(({ ID }) => ID);
  throw new ProxyError(
    "agent_not_found",
    `No proxy is registered as ${proxyId}: register it on this agent, or run another` +
      listed("ids of proxies here", ids),
  );
}

/** The ids of the ingress gateways called `service`; `""`: of all. */
export function readGateways(json: unknown, service: string): readonly string[] {
  const services = readReply(ServicesReply, json, "the agent's services");
  return Object.values(services ?? {})
    .filter((found) => found.Kind === "ingress-gateway")
    .filter((found) => service === "" || found.Service.toLowerCase() === service.toLowerCase())
    .map((found) => found.ID)
    .sort();
}

export async function findGateway(client: Client, service: string): Promise<string> {
  const named = service ? ` called ${service}` : "";
  const reply = await client.call({
    resource: "services",
    what: `look for an ingress gateway${named}`,
    path: "/v1/agent/services",
    query: { filter: 'Kind == "ingress-gateway"' },
    timeoutMs: TIMEOUT_MS,
  });
  const [only, ...more] = readGateways(reply.json, service);
  if (only === undefined) {
    const hidden = reply.filteredByAcls || !client.hasToken
      ? ", or give a token that may see it (service:read)"
      : "";
    throw new ProxyError(
      "agent_not_found",
      `No ingress gateway${named} is registered: register a service of kind ingress-gateway on ` +
        `this agent${hidden}`,
    );
  }
  if (more.length > 0) {
    throw new ProxyError(
      "usage",
      `More than one ingress gateway${named} is registered: start one of ` +
        `${[only, ...more].map(shown).join(", ")} with -proxy-id`,
    );
  }
  return only;
}

/** Fails with the right that is missing on it, where the token may not see it. */
function readService(client: Client, proxyId: string): Promise<ConsulReply> {
  return client.call({
    resource: "service",
    what: `read the registration of ${JSON.stringify(proxyId)}`,
    path: `/v1/agent/service/${encodeURIComponent(proxyId)}`,
    timeoutMs: TIMEOUT_MS,
    needs: "service:read on the proxy",
    absentIsAnswer: true,
  });
}
