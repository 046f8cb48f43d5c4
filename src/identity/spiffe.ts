/** SPIFFE ids, Consul's `spiffe://<td>[/ap/<ap>]/ns/<ns>/dc/<dc>/svc/<service>`, and trust bundles. @module */

import { Buffer } from "node:buffer";
import { messageOf, ProxyError } from "../base/mod.ts";
import { formatPem, readJson } from "../wire/mod.ts";
import { parseCertificate } from "./certificate.ts";

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

/** By trust domain: PEM, one certificate each. Empty: the domain has none for X.509 now, and no peer of it is trusted. */
type SpiffeBundles = Readonly<Record<string, readonly string[]>>;

const LIMIT_CHARS = 4 << 20;
const TRUST_DOMAIN_LIMIT = 1000;
const KEY_LIMIT = 100;
/** One certificate in base64. */
const X5C_LIMIT_CHARS = 24 * 1024;

/**
 * Bundles in one JSON text, for Envoy's SPIFFE validator:
 * `{"trust_domains": {"td": {"keys": [{"use": "x509-svid", "x5c": ["base64 DER"]}]}}}`.
 *
 * Throws `credentials_invalid` that names the place and the fault. Keys for other uses, or for none, are
 * ignored (SPIFFE bundle 4.2.2); a duplicate key is refused, because readers differ in which one counts.
 */
export function parseSpiffeBundles(text: string): SpiffeBundles {
  if (text.length > LIMIT_CHARS) fail(`it is longer than ${LIMIT_CHARS} characters`);
  const json = readJson(text);
  if (json.kind === "invalid") {
    const { line, column } = json.place;
    return fail(`line ${line}, column ${column}: ${json.reason}`);
  }
  const [twice] = json.duplicates;
  if (twice) {
    const { line, column } = json.placeOf(twice.path);
    const what = JSON.stringify(twice.path[twice.path.length - 1]);
    return fail(`line ${line}, column ${column}: ${what} is written twice`);
  }
  const listed = membersOf(json.value, "the bundle").get("trust_domains");
  const domains = membersOf(listed, "trust_domains");
  if (domains.size === 0) fail("trust_domains is empty");
  if (domains.size > TRUST_DOMAIN_LIMIT) {
    fail(`there are more than ${TRUST_DOMAIN_LIMIT} trust domains`);
  }
  return Object.fromEntries([...domains].map(([name, value]) => [name, bundleOf(name, value)]));
}

function bundleOf(name: string, value: unknown): readonly string[] {
  const where = `trust domain ${JSON.stringify(name.slice(0, 256))}`;
  if (parseTrustDomain(name) !== name) fail(`${where} is not the name of one`);
  const keys = membersOf(value, where).get("keys");
  if (!Array.isArray(keys)) return fail(`${where}: keys is not a list`);
  if (keys.length > KEY_LIMIT) fail(`${where} has more than ${KEY_LIMIT} keys`);
  const rootPems: string[] = [];
  keys.forEach((key: unknown, index) => {
    const fields = membersOf(key, `${where}: keys[${index}]`);
    if (fields.get("use") !== "x509-svid") return;
    rootPems.push(pemOfX5c(fields.get("x5c"), `${where}: keys[${index}].x5c`));
  });
  return rootPems;
}

/** Only one certificate is allowed: further ones would be a chain, not anchors. */
function pemOfX5c(x5c: unknown, where: string): string {
  if (!Array.isArray(x5c) || x5c.length === 0) return fail(`${where} is missing or empty`);
  const [encoded, second]: unknown[] = x5c;
  if (second !== undefined) return fail(`${where} has more than one certificate`);
  if (typeof encoded !== "string" || encoded.length > X5C_LIMIT_CHARS) {
    return fail(`${where} is not a certificate in base64`);
  }
  if (!/^[A-Za-z0-9+/]+={0,2}$/.test(encoded) || encoded.length % 4 !== 0) {
    return fail(`${where} is not base64`);
  }
  const der = new Uint8Array(Buffer.from(encoded, "base64"));
  try {
    parseCertificate(der);
  } catch (error) {
    return fail(`${where}: ${messageOf(error)}`);
  }
  return formatPem("CERTIFICATE", der);
}

/** A map, so that `constructor` is a name like any other. */
function membersOf(value: unknown, where: string): ReadonlyMap<string, unknown> {
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    return fail(`${where} is not an object`);
  }
  return new Map(Object.entries(value));
}

function fail(fact: string): never {
  throw new ProxyError("credentials_invalid", `Cannot read SPIFFE trust bundles: ${fact}`);
}
