/** Finds the proxies of an agent that `-sidecar-for`, `-proxy-id` and `-gateway` name. @module */

import * as v from "valibot";
import { ProxyError } from "../base/mod.ts";
import type { Client, ConsulReply } from "./http/client.ts";
import { listed, onlyId } from "./model/texts.ts";
import { readRegistration } from "./replies/registration.ts";
import { map, object, readReply, text } from "./replies/schema.ts";

const TIMEOUT_MS = 10_000;
const SIDECARS = 'Kind == "connect-proxy"';
const GATEWAYS = 'Kind == "ingress-gateway"';

const ServicesReply = map(object({
  Kind: text,
  ID: text,
  Service: text,
  Proxy: v.nullish(object({ DestinationServiceID: text, DestinationServiceName: text })),
}));
type ServiceRow = v.InferOutput<typeof ServicesReply>[string];

export async function findSidecar(client: Client, serviceId: string): Promise<string> {
  const what = `look for the sidecar of ${JSON.stringify(serviceId)}`;
  const reply = await listServices(client, what, SIDECARS);
  const ids = readSidecars(reply.json, serviceId);
  const only = onlyId(ids, `sidecar proxy registered for ${serviceId}`);
  if (only !== undefined) return only;
  const mayBeHidden = reply.filteredByAcls || !client.hasToken;
  // A list leaves out entries that the token may not see; reading the usual id of a sidecar then fails.
  if (mayBeHidden) await readService(client, `${serviceId}-sidecar-proxy`);
  const right = ", or give a token that may see it (service:read on its sidecar)";
  const hidden = mayBeHidden ? right : "";
  const sidecars = servicesIn(reply.json).filter(({ Kind }) => Kind === "connect-proxy");
  const served = sidecars.flatMap(({ Proxy }) => Proxy?.DestinationServiceID ?? []);
  throw new ProxyError(
    "agent_not_found",
    `No sidecar proxy registered for ${serviceId}: register the service on this agent with ` +
      `connect { sidecar_service {} }${hidden}; -sidecar-for takes the service's id, not its ` +
      `name${listed("ids with a sidecar here", served)}`,
  );
}

/** Fails where `proxyId` is not registered, or cannot be run. */
export async function findProxy(client: Client, proxyId: string): Promise<string> {
  const reply = await readService(client, proxyId);
  if (reply.status !== 404) {
    readRegistration(reply.json, proxyId);
    return proxyId;
  }
  const what = "look for the proxies of this agent";
  const proxies = await listServices(client, what, `${SIDECARS} or ${GATEWAYS}`);
  const ids = servicesIn(proxies.json).map(({ ID }) => ID);
  throw new ProxyError(
    "agent_not_found",
    `No proxy is registered as ${proxyId}: register it on this agent, or run another` +
      listed("ids of proxies here", ids),
  );
}

export async function findGateway(client: Client, service: string): Promise<string> {
  const named = service ? ` called ${service}` : "";
  const reply = await listServices(client, `look for an ingress gateway${named}`, GATEWAYS);
  const ids = readGateways(reply.json, service);
  const only = onlyId(ids, `ingress gateway${named} is registered`);
  if (only !== undefined) return only;
  const hidden = reply.filteredByAcls || !client.hasToken
    ? ", or give a token that may see it (service:read)"
    : "";
  throw new ProxyError(
    "agent_not_found",
    `No ingress gateway${named} is registered: register a service of kind ingress-gateway on ` +
      `this agent${hidden}`,
  );
}

/** The ids of the sidecars for `serviceId`, whose case does not count. */
export function readSidecars(json: unknown, serviceId: string): readonly string[] {
  const wanted = serviceId.toLowerCase();
  const isWanted = ({ Kind, Proxy }: ServiceRow) =>
    Kind === "connect-proxy" && Proxy?.DestinationServiceID.toLowerCase() === wanted;
  return idsOf(json, isWanted);
}

/** The ids of the ingress gateways called `service`; `""`: of all. */
export function readGateways(json: unknown, service: string): readonly string[] {
  const wanted = service.toLowerCase();
  const isWanted = ({ Kind, Service }: ServiceRow) =>
    Kind === "ingress-gateway" && (wanted === "" || Service.toLowerCase() === wanted);
  return idsOf(json, isWanted);
}

function idsOf(json: unknown, isWanted: (service: ServiceRow) => boolean): readonly string[] {
  return servicesIn(json).filter(isWanted).map(({ ID }) => ID).sort();
}

function servicesIn(json: unknown): readonly ServiceRow[] {
  return Object.values(readReply(ServicesReply, json, "the agent's services"));
}

function listServices(client: Client, what: string, filter: string): Promise<ConsulReply> {
  const path = "/v1/agent/services";
  return client.call({
    resource: "services",
    what,
    path,
    query: { filter },
    timeoutMs: TIMEOUT_MS,
  });
}

/** Fails with the right that is missing, where the token may not see the service. */
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
