/**
 * What a write in the catalog concerns, and a read of it watches: by the service, the node, its checks.
 *
 * @module
 */

import { meshServiceOf, type ServiceRecord } from "./records.ts";

/** Topics that a change of this instance concerns. */
export function topicsOf(
  service: Pick<ServiceRecord, "node" | "name" | "kind" | "native" | "proxy" | "id">,
): readonly string[] {
  const { datacenter } = service.node;
  const topics = [
    `catalog:${datacenter}`,
    `service:${datacenter}:${service.name.toLowerCase()}`,
    `instance:${datacenter}:${service.node.name}:${service.id}`,
    nodeTopic(datacenter, service.node.name),
    nodeChecksTopic(datacenter, service.node.name),
  ];
  const mesh = meshServiceOf(service as ServiceRecord);
  if (mesh !== undefined) topics.push(`mesh:${datacenter}:${mesh.toLowerCase()}`);
  return topics;
}

/** What a read of one node's checks watches. */
export function nodeChecksTopic(datacenter: string, name: string): string {
  return `checks:${nodeKey(datacenter, name)}`;
}

/** What a read of one node's services watches. */
export function nodeTopic(datacenter: string, name: string): string {
  return `node:${nodeKey(datacenter, name)}`;
}

/** Names of nodes are compared without letter case. */
export function nodeKey(datacenter: string, name: string): string {
  return `${datacenter}/${name.toLowerCase()}`;
}
