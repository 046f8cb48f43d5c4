/**
 * Trust bundles of several trust domains in one JSON text, for Envoy's SPIFFE validator:
 * `{"trust_domains": {"td": {"keys": [{"use": "x509-svid", "x5c": ["base64 DER"]}]}}}`.
 *
 * @module
 */

import { Buffer } from "node:buffer";
import { messageOf, ProxyError } from "../base/mod.ts";
import { formatPem, readJson } from "../wire/mod.ts";
import { parseCertificate } from "./certificate.ts";
import { parseTrustDomain } from "./spiffe.ts";

/** By trust domain: PEM, one certificate each. Empty: the domain has none for X.509 now, and no peer of it is trusted. */
type SpiffeBundles = Readonly<Record<string, readonly string[]>>;

const LIMIT_CHARS = 4 << 20;
const TRUST_DOMAIN_LIMIT = 1000;
const KEY_LIMIT = 100;
/** One certificate in base64. */
const X5C_LIMIT_CHARS = 24 * 1024;

/**
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
  const domains = membersOf(
    membersOf(json.value, "the bundle").get("trust_domains"),
    "trust_domains",
  );
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
