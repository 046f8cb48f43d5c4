/**
 * Server names in Consul's form for a ClientHello (`consul` reference 3.12). Names keep their registered
 * case.
 *
 * @module
 */

interface SniOptions {
  readonly service: string;
  /** "" or absent: none. */
  readonly subset?: string;
  readonly namespace: string;
  readonly partition: string;
  readonly datacenter: string;
  /** The roots reply's. */
  readonly trustDomain: string;
}

/** The name of a service: `[subset.]svc.ns.dc.internal.<td>`, or `...ns.ap.dc.internal-v1.<td>`. */
export function formatServiceSni(options: SniOptions): string {
  const { service, subset, namespace, partition, datacenter, trustDomain } = options;
  const isDefault = partition === "" || partition.toLowerCase() === "default";
  return dotted([
    subset,
    service,
    namespace || "default",
    ...isDefault ? [datacenter, "internal"] : [partition, datacenter, "internal-v1"],
    trustDomain.toLowerCase(),
  ]);
}

/** The name of a prepared query in `datacenter`: `<query>.default.<dc>.query.<td>`. */
export function formatQuerySni(
  options: { readonly query: string; readonly datacenter: string; readonly trustDomain: string },
): string {
  const { query, datacenter, trustDomain } = options;
  return dotted([query, "default", datacenter, "query", trustDomain.toLowerCase()]);
}

function dotted(parts: readonly (string | undefined)[]): string {
  return parts.filter((part) => part !== undefined && part !== "").join(".");
}
