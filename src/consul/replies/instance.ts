/**
 * One dialable instance as health and prepared queries list it.
 *
 * @module
 */

import * as v from "valibot";
import { count, flag, list, map, object, port, text } from "./schema.ts";
import type { Instance } from "../types.ts";

const TaggedAddress = object({ Address: text, Port: port });

const InstanceJson = object({
  Node: object({
    Node: text,
    Address: text,
    Datacenter: text,
    TaggedAddresses: map(v.string()),
  }),
  Service: object({
    Kind: text,
    ID: text,
    Service: text,
    Address: text,
    Port: port,
    Namespace: text,
    Partition: text,
    TaggedAddresses: map(TaggedAddress),
    Weights: v.nullish(object({ Passing: count, Warning: count })),
    Proxy: v.nullish(object({ DestinationServiceName: text })),
    Connect: v.nullish(object({ Native: flag })),
  }),
  Checks: list(object({ CheckID: text, Status: text })),
});

type InstanceRow = v.InferOutput<typeof InstanceJson>;
type CheckRow = NonNullable<InstanceRow["Checks"]>[number];

export const InstanceList = list(InstanceJson);

/** Those that can be dialled and say whose identity they have, in a stable order; `asked`: of which service. */
export function toInstances(
  rows: v.InferOutput<typeof InstanceList>,
  asked: string,
): readonly Instance[] {
  return (rows ?? [])
    .map((row) => toInstance(row, asked))
    .filter((instance) => instance.service !== "" && instance.host !== "" && instance.port !== 0)
    .sort((a, b) => compare(a.node, b.node) || compare(a.serviceId, b.serviceId));
}

function toInstance(row: InstanceRow, asked: string): Instance {
  const { Node: node, Service: service } = row;
  const host = service.Address || node.Address;
  // Consul's own order: the service's addresses, tagged or not, come before the node's.
  const wan = service.TaggedAddresses?.["wan"];
  const checks = row.Checks ?? [];
  const health = worst(checks.map((check) => check.Status));
  const nodeWan = service.Address ? "" : node.TaggedAddresses?.["wan"] ?? "";
  return {
    node: node.Node,
    serviceId: service.ID,
    service: identityOf(service, asked),
    ...(service.Kind === "terminating-gateway" && { gateway: true }),
    namespace: service.Namespace || "default",
    partition: service.Partition || "default",
    datacenter: node.Datacenter,
    host,
    port: service.Port,
    wanHost: wan?.Address || nodeWan || host,
    wanPort: wan?.Address && wan.Port ? wan.Port : service.Port,
    health,
    ...(checks.some(isMaintenance) ? { inMaintenance: true } : {}),
    weights: {
      passing: service.Weights?.Passing ?? 1,
      warning: service.Weights?.Warning ?? 1,
    },
  };
}

/**
 * Whose certificate it shows. A terminating gateway stands for every service that its config entry names
 * and shows the certificate of the one that the SNI asks for.
 */
function identityOf(service: InstanceRow["Service"], asked: string): string {
  if (service.Kind === "terminating-gateway") return asked;
  return service.Connect?.Native ? service.Service : service.Proxy?.DestinationServiceName ?? "";
}

function worst(statuses: readonly string[]): Instance["health"] {
  if (statuses.every((status) => status === "passing")) return "passing";
  // An unknown status is no health that anybody vouches for.
  return statuses.every((status) => status === "passing" || status === "warning")
    ? "warning"
    : "critical";
}

/** An operator said that it should get no traffic: that is no failure. */
function isMaintenance({ CheckID, Status }: CheckRow): boolean {
  return Status === "critical" && /^_(service|node)_maintenance/.test(CheckID);
}

function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
