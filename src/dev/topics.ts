/**
 * Topics: the parts of the data that a write changes and a read watches. See `store.ts`.
 * @module
 */

/** The topic of every write in the catalog, but for checks. */
export const CATALOG = "catalog";
/** The topic of every write of a config entry. */
export const CONFIG = "config";
export const ROOTS = "ca:roots";

/** The instances of a service: all of them, or (`mesh`) those that take its mesh traffic. */
export function serviceTopic(name: string, mesh: boolean): string {
  return `${mesh ? "mesh" : "service"}:${name.toLowerCase()}`;
}

/** One instance on one node. */
export function instanceTopic(node: string, id: string): string {
  return `instance:${node}/${id}`;
}

/** A node and its services. */
export function nodeTopic(name: string): string {
  return `node:${name.toLowerCase()}`;
}

/** The checks on a node. */
export function checksTopic(name: string): string {
  return `checks:${name.toLowerCase()}`;
}

/** One kind of config entries, or one entry. Intentions are found in any letter case. */
export function configTopic(kind: string, name?: string): string {
  if (name === undefined) return `${CONFIG}:${kind}`;
  return `${CONFIG}:${kind}/${kind === "service-intentions" ? name.toLowerCase() : name}`;
}

export function leafTopic(service: string): string {
  return `ca:leaf:${service}`;
}
