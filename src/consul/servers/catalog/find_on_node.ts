/** Finds the proxies of a node. Consul compares ids there without regard to case. @module */

import * as v from "valibot";
import { ProxyError } from "../../../base/mod.ts";
import { listed, onlyId } from "../../model/texts.ts";
import { readRegistration } from "../../replies/registration.ts";
import { object, readReply, text } from "../../replies/schema.ts";
import {
  absenceOf,
  anyCase,
  listServices,
  type NodeCatalog,
  nodeName,
  type NodeService,
} from "./node_catalog.ts";

const SIDECARS = 'Kind == "connect-proxy"';
const GATEWAYS = 'Kind == "ingress-gateway"';

const Sidecars = v.array(object({ Proxy: v.nullish(object({ DestinationServiceID: text })) }));

/** The one sidecar registered on the node for a service id; its own id. */
export async function findSidecar(catalog: NodeCatalog, serviceId: string): Promise<string> {
  const { services, reply } = await listServices(catalog, {
    what: `look for the sidecar of ${JSON.stringify(serviceId)}`,
    filter: `${SIDECARS} and Proxy.DestinationServiceID matches ${anyCase(serviceId)}`,
  });
  const only = onlyId(idsOf(services), `sidecar proxy registered for ${serviceId}`);
  if (only !== undefined) return only;
  // Asking for the usual id of a sidecar names the right that is missing.
  const absence = await absenceOf(catalog, `${serviceId}-sidecar-proxy`, { reply });
  if (absence.code !== "agent_not_found") throw absence;
  const others = await listServices(catalog, {
    what: `look for the sidecars on ${nodeName(catalog.node)}`,
    filter: SIDECARS,
  });
  const sidecars = readReply(Sidecars, others.services, "the services of the node");
  const served = sidecars.map(({ Proxy }) => Proxy?.DestinationServiceID ?? "");
  const why = served.length === 0
    ? noProxyOn(catalog)
    : ": -sidecar-for takes the service's id, not its name, as the sidecar's " +
      `Proxy.DestinationServiceID has it${listed("ids with a sidecar there", served)}`;
  throw new ProxyError(
    "agent_not_found",
    `No sidecar proxy registered for ${serviceId} on ${nodeName(catalog.node)}${why}`,
  );
}

/** The id as it is registered, where that proxy can be run. */
export async function findProxy(catalog: NodeCatalog, proxyId: string): Promise<string> {
  const { services: [own], reply } = await listServices(catalog, {
    what: `read the registration of ${JSON.stringify(proxyId)}`,
    filter: `ID matches ${anyCase(proxyId)}`,
  });
  if (own) {
    readRegistration(own, own.ID);
    return own.ID;
  }
  const absence = await absenceOf(catalog, proxyId, { reply });
  if (absence.code !== "agent_not_found") throw absence;
  const { services } = await listServices(catalog, {
    what: `look for the proxies on ${nodeName(catalog.node)}`,
    filter: `${SIDECARS} or ${GATEWAYS}`,
  });
  throw new ProxyError(
    "agent_not_found",
    absence.message + (listed("ids of proxies there", idsOf(services)) || noProxyOn(catalog)),
  );
}

/** The one ingress gateway on the node, of that name where one is given. */
export async function findGateway(catalog: NodeCatalog, service: string): Promise<string> {
  const named = service ? ` called ${service}` : "";
  const { services, reply } = await listServices(catalog, {
    what: `look for an ingress gateway${named}`,
    filter: service ? `${GATEWAYS} and Service matches ${anyCase(service)}` : GATEWAYS,
  });
  const only = onlyId(idsOf(services), `ingress gateway${named} is registered`);
  if (only !== undefined) return only;
  const hidden = reply.filteredByAcls || !catalog.client.hasToken
    ? `, or give a token that may see it (service:read, and node:read on ` +
      `${JSON.stringify(catalog.node)})`
    : "";
  throw new ProxyError(
    "agent_not_found",
    `No ingress gateway${named} is registered on ${nodeName(catalog.node)}: register a service ` +
      `of kind ingress-gateway there${hidden}`,
  );
}

/** Follows a node's name: a service may be registered without its sidecar, or on another node. */
function noProxyOn({ client: { names } }: NodeCatalog): string {
  return `: no proxy is; register it, or is ${names.node} that of another?`;
}

function idsOf(services: readonly NodeService[]): readonly string[] {
  return services.map(({ ID }) => ID).sort();
}
