/**
 * SPIFFE ids in Consul's form for services:
 * `spiffe://<trust domain>[/ap/<partition>]/ns/<namespace>/dc/<datacenter>/svc/<service>`.
 *
 * @module
 */

/** The owner of a verified leaf. The trust domain is lower case. */
export interface ServiceId {
  readonly trustDomain: string;
  readonly partition: string;
  readonly namespace: string;
  readonly datacenter: string;
  readonly service: string;
}

type ParsedServiceId =
  | { readonly kind: "service"; readonly id: ServiceId }
  | { readonly kind: "refused"; readonly reason: string };

const SCHEME = "spiffe://";
/** The SPIFFE standard's limit for an id, in bytes. */
const LENGTH_LIMIT = 2048;

/** `reason` continues "Cannot accept the peer: its SPIFFE id ...". */
export function parseServiceId(uri: string): ParsedServiceId {
  if (uri.length > LENGTH_LIMIT) return refuse(`is longer than ${LENGTH_LIMIT} bytes`);
  if (!uri.startsWith(SCHEME)) return refuse("does not start with spiffe://");
  if (!/^[\x21-\x7e]*$/.test(uri)) return refuse("has a character that is not printable ASCII");
  if (uri.includes("?")) return refuse("has a query");
  if (uri.includes("#")) return refuse("has a fragment");
  const [authority = "", ...escaped] = uri.slice(SCHEME.length).split("/");
  const trustDomain = parseTrustDomain(authority);
  if (trustDomain === undefined) return refuse("has no valid trust domain");
  const path: string[] = [];
  for (const segment of escaped) {
    const name = unescapeSegment(segment);
    if (name === undefined) return refuse("has an empty, dotted or badly escaped segment");
    path.push(name);
  }
  const partition = path[0] === "ap" ? path[1] : "default";
  const rest = path[0] === "ap" ? path.slice(2) : path;
  const [ns, namespace, dc, datacenter, svc, service] = rest;
  const shaped = rest.length === 6 && ns === "ns" && dc === "dc" && svc === "svc";
  if (!shaped || !partition || !namespace || !datacenter || !service) {
    return refuse("is not a service id");
  }
  return { kind: "service", id: { trustDomain, partition, namespace, datacenter, service } };
}

/** The URI exactly as Consul writes it, without the default partition. */
export function formatServiceId(id: ServiceId): string {
  const partition = id.partition === "default" ? "" : `/ap/${escapeSegment(id.partition)}`;
  return SCHEME + id.trustDomain.toLowerCase() + partition +
    `/ns/${escapeSegment(id.namespace)}/dc/${escapeSegment(id.datacenter)}` +
    `/svc/${escapeSegment(id.service)}`;
}

/** The trust domain in lower case, or `undefined`: no port, no user, no escapes. */
export function parseTrustDomain(text: string): string | undefined {
  const lower = text.toLowerCase();
  return /^[a-z0-9_-]+(\.[a-z0-9_-]+)*$/.test(lower) && lower.length <= 255 ? lower : undefined;
}

/** The trust domain of a CA certificate's id, which is `spiffe://<trust domain>`. */
export function parseTrustDomainId(uri: string): string | undefined {
  if (!uri.startsWith(SCHEME)) return undefined;
  return parseTrustDomain(uri.slice(SCHEME.length).replace(/\/$/, ""));
}

type ParsedSpiffeId =
  | { readonly kind: "id"; readonly trustDomain: string; readonly path: string }
  | { readonly kind: "refused"; readonly reason: string };

/** A workload's id by the standard (SPIFFE-ID 2), which is stricter than Consul's own ids need. */
export function parseSpiffeId(uri: string): ParsedSpiffeId {
  if (uri.length > LENGTH_LIMIT) return refuse(`is longer than ${LENGTH_LIMIT} bytes`);
  if (!uri.startsWith(SCHEME)) return refuse("does not start with spiffe://");
  const slash = uri.indexOf("/", SCHEME.length);
  if (slash < 0 || slash === uri.length - 1) return refuse("has no path");
  const trustDomain = uri.slice(SCHEME.length, slash);
  if (!/^[a-z0-9._-]{1,255}$/.test(trustDomain)) return refuse("has no valid trust domain");
  const path = uri.slice(slash);
  for (const segment of path.slice(1).split("/")) {
    if (!/^[a-zA-Z0-9._-]+$/.test(segment)) {
      return refuse("has a path segment that is empty or has a character that is not allowed");
    }
    if (segment === "." || segment === "..") return refuse("has a dotted path segment");
  }
  return { kind: "id", trustDomain, path };
}

/** A URI for comparison: a service id in Consul's spelling, a trust domain in lower case. */
export function canonicalUri(uri: string): string {
  const parsed = parseServiceId(uri);
  if (parsed.kind === "service") return formatServiceId(parsed.id);
  if (!uri.startsWith(SCHEME)) return uri;
  const slash = uri.indexOf("/", SCHEME.length);
  const end = slash < 0 ? uri.length : slash;
  return SCHEME + uri.slice(SCHEME.length, end).toLowerCase() + uri.slice(end);
}

function refuse(reason: string): { readonly kind: "refused"; readonly reason: string } {
  return { kind: "refused", reason };
}

function unescapeSegment(segment: string): string | undefined {
  let name: string;
  try {
    name = decodeURIComponent(segment);
  } catch {
    // A "%" without two hex digits, or bytes that are no UTF-8.
    return undefined;
  }
  if (name === "" || name === "." || name === "..") return undefined;
  // deno-lint-ignore no-control-regex -- an escaped slash or NUL must not pass as part of a name
  return /[\x00-\x1f\x7f/]/.test(name) ? undefined : name;
}

/** Escapes a path like Go's `url.URL.String`, so that the text equals Consul's. */
function escapeSegment(name: string): string {
  return encodeURIComponent(name)
    .replace(/%(24|26|2B|2C|3A|3B|3D|40)/g, (hex) => decodeURIComponent(hex))
    .replace(/[!'()*]/g, (char) => `%${char.charCodeAt(0).toString(16).toUpperCase()}`);
}
