/**
 * Server names as Consul forms them for a ClientHello (`consul` reference 3.12). Names keep the case
 * they were registered with.
 *
 * @module
 */

export interface SniOptions {
  readonly service: string;
  /** `""` or absent: none. */
  readonly subset?: string;
  readonly namespace: string;
  readonly partition: string;
  readonly datacenter: string;
  /** The one that the roots reply names. */
  readonly trustDomain: string;
}

/** The name of a service: `[subset.]svc.ns.dc.internal.<td>`, or `...ns.ap.dc.internal-v1.<td>`. */
export function formatServiceSni(options: SniOptions): string {
  const { service, subset, namespace, partition, datacenter, trustDomain } = options;
  return dotted([
    subset,
    service,
    namespace || "default",
    ...isDefault(partition) ? [datacenter, "internal"] : [partition, datacenter, "internal-v1"],
    trustDomain.toLowerCase(),
  ]);
}

/** The name of a prepared query, asked in `datacenter`: `<query>.default.<dc>.query.<td>`. */
export function formatQuerySni(
  options: { readonly query: string; readonly datacenter: string; readonly trustDomain: string },
): string {
  const { query, datacenter, trustDomain } = options;
  return dotted([query, "default", datacenter, "query", trustDomain.toLowerCase()]);
}

/** The name of the mesh gateways of a datacenter or partition. */
export function formatGatewaySni(
  options: Pick<SniOptions, "partition" | "datacenter" | "trustDomain">,
): string {
  const { partition, datacenter, trustDomain } = options;
  return dotted([
    ...isDefault(partition) ? [datacenter, "internal"] : [partition, datacenter, "internal-v1"],
    trustDomain.toLowerCase(),
  ]);
}

function isDefault(partition: string): boolean {
  return partition === "" || partition.toLowerCase() === "default";
}

function dotted(parts: readonly (string | undefined)[]): string {
  return parts.filter((part) => part !== undefined && part !== "").join(".");
}
