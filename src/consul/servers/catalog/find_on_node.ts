/**
 * Which proxy stands for a service, or is the gateway, on a node: what `-sidecar-for`, `-proxy-id` and
 * `-gateway` mean beside servers. Consul keeps ids on a node apart without regard to case.
 *
 * @module
 */

import * as v from "valibot";
import { ProxyError } from "../../../base/mod.ts";
import { readRegistration } from "../../replies/registration.ts";
import { object, readReply, text } from "../../replies/schema.ts";
import { listed, shown } from "../../shown_ids.ts";
import { absenceOf } from "./absence.ts";
import { anyCase } from "./expression.ts";
import { listServices, type NodeCatalog, nodeName, type NodeService } from "./node_catalog.ts";

const SIDECARS = 'Kind == "connect-proxy"';
const GATEWAYS = 'Kind == "ingress-gateway"';

/** After a node's name. A service may be registered without its sidecar, or on another node. */
const noneThere = ({ client: { names } }: NodeCatalog) =>
  `: no proxy is; register it, or is ${names.node} that of another?`;

const Sidecars = v.array(object({
  Proxy: v.nullish(object({ DestinationServiceID: text })),
}));

/** The one sidecar registered on the node for a service id; its own id. */
export async function findSidecar(catalog: NodeCatalog, serviceId: string): Promise<string> {
  const { services, reply } = await listServices(catalog, {
    what: `look for the sidecar of ${JSON.stringify(serviceId)}`,
    filter: `${SIDECARS} and Proxy.DestinationServiceID matches ${anyCase(serviceId)}`,
  });
  const [only, ...more] = idsOf(services);
  if (only === undefined) {
    // Asking for the id that sidecars usually have names the right that is missing.
    const absence = await absenceOf(catalog, `${serviceId}-sidecar-proxy`, { reply });
    if (absence.code !== "agent_not_found") throw absence;
    const others = await listServices(catalog, {
      what: `look for the sidecars on ${nodeName(catalog.node)}`,
      filter: SIDECARS,
    });
    const served = readReply(Sidecars, others.services, "the services of the node")
      .map(({ Proxy }) => Proxy?.DestinationServiceID ?? "");
    const why = served.length === 0
      ? noneThere(catalog)
      : ": -sidecar-for takes the service's id, not its name, as the sidecar's " +
        `Proxy.DestinationServiceID has it${listed("ids with a sidecar there", served)}`;
    throw new ProxyError(
      "agent_not_found",
      `No sidecar proxy registered for ${serviceId} on ${nodeName(catalog.node)}${why}`,
    );
  }
  if (more.length > 0) {
    throw severalFound(`sidecar proxy registered for ${serviceId}`, [only, ...more]);
  }
  return only;
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
    absence.message + (listed("ids of proxies there", idsOf(services)) || noneThere(catalog)),
  );
}

/** The one ingress gateway on the node, of that name where one is given. */
export async function findGateway(catalog: NodeCatalog, service: string): Promise<string> {
  const named = service ? ` called ${service}` : "";
  const { services, reply } = await listServices(catalog, {
    what: `look for an ingress gateway${named}`,
    filter: service ? `${GATEWAYS} and Service matches ${anyCase(service)}` : GATEWAYS,
  });
  const [only, ...more] = idsOf(services);
  if (only === undefined) {
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
  if (more.length > 0) throw severalFound(`ingress gateway${named} is registered`, [only, ...more]);
  return only;
}

function idsOf(services: readonly NodeService[]): readonly string[] {
  return services.map(({ ID }) => ID).sort();
}

function severalFound(what: string, ids: readonly string[]): ProxyError {
  return new ProxyError(
    "usage",
    `More than one ${what}: start one of ${ids.map(shown).join(", ")} with -proxy-id`,
  );
}
