/** The rules for a leaf: of the mesh, of any CA, as an X509-SVID; its alternative names and pins. @module */

import { allowsKeyUsage, allowsPurpose, type Certificate } from "./certificate.ts";
import { OID, PURPOSE, type Usage } from "./oids.ts";
import { validityFault } from "./path.ts";
import { keyFault } from "./signature.ts";
import { Buffer } from "node:buffer";
import { createHash } from "node:crypto";
import { canonicalIpText, compileRegex, lowerAscii, textTest } from "../base/mod.ts";
import { type AltNames, altNamesOf } from "./certificate_names.ts";
import {
  type PeerRules,
  refuseValidation as fail,
  type SanMatcher,
  type StringMatcher,
  type Validation,
} from "./validation.ts";

interface LeafOptions {
  readonly nowMs: number;
  readonly usage: Usage;
  readonly allowExpired?: boolean;
}

/**
 * In the mesh the extended key usage is mandatory: Consul always sets it, so a leaf without one is
 * refused, and so is one with "any".
 */
export function leafFault(leaf: Certificate, options: LeafOptions): string | undefined {
  const fault = caFault(leaf) ?? commonFault(leaf, options) ?? caUsageFault(leaf);
  if (fault !== undefined) return fault;
  const { usage } = options;
  return leaf.extendedKeyUsage?.includes(PURPOSE[usage]) ? undefined : lacks(`${usage}Auth`);
}

/**
 * `isAnchor`: the operator listed this very certificate. It may be a CA, as `openssl req -x509` makes it,
 * unless its key usage says that it signs others.
 */
export function anyLeafFault(
  leaf: Certificate,
  options: LeafOptions & { readonly isAnchor: boolean },
): string | undefined {
  const isPlain = options.isAnchor && !allowsKeyUsage(leaf, "keyCertSign");
  const fault = (isPlain ? undefined : caFault(leaf)) ?? commonFault(leaf, options);
  if (fault !== undefined) return fault;
  return allowsPurpose(leaf, options.usage) ? undefined : lacks(`${options.usage}Auth`);
}

/** X509-SVID 4 and 5, without the id. */
export function svidFault(leaf: Certificate, options: LeafOptions): string | undefined {
  if (leaf.basicConstraints?.ca) return caFault(leaf);
  if (leaf.keyUsage === undefined) return "its certificate has no key usage";
  if (leaf.keyUsageCritical !== true) return "its certificate's key usage is not critical";
  const fault = caUsageFault(leaf) ?? commonFault(leaf, options);
  if (fault !== undefined) return fault;
  const { extendedKeyUsage: usages } = leaf;
  const missing = (["serverAuth", "clientAuth"] as const).find((usage) =>
    usages && !usages.includes(OID[usage])
  );
  return missing && lacks(missing);
}

function caFault({ basicConstraints }: Certificate): string | undefined {
  return basicConstraints?.ca ? "its certificate is a CA" : undefined;
}

function caUsageFault(leaf: Certificate): string | undefined {
  return allowsKeyUsage(leaf, "keyCertSign") || allowsKeyUsage(leaf, "cRLSign")
    ? "its certificate's key usage is that of a CA"
    : undefined;
}

function lacks(purpose: string): string {
  return `its certificate's extended key usage lacks ${purpose}`;
}

function commonFault(leaf: Certificate, options: LeafOptions): string | undefined {
  const [unknown] = leaf.notUnderstood;
  if (unknown) return `its certificate has an extension that is not understood (${unknown})`;
  const late = options.allowExpired ? undefined : validityFault(leaf, options.nowMs);
  const fault = late ?? keyFault(leaf);
  if (fault !== undefined) return `its certificate ${fault}`;
  if (allowsKeyUsage(leaf, "digitalSignature") === false) {
    return "its certificate's key usage lacks digitalSignature";
  }
  return undefined;
}

export type LeafTest = (leaf: Certificate) => boolean;
type StringTest = (value: string) => boolean;

const MATCHER_LIMIT = 1000;
const PIN_LIMIT = 1000;
const VALUE_LIMIT_CHARS = 4096;
/** A longer name matches no regex. A SPIFFE id has at most 2,048 characters. */
const TESTED_LIMIT_CHARS = 4096;
const OID_SHAPE = /^[0-2](?:\.(?:0|[1-9]\d{0,15})){1,32}$/;

/** Throws `credentials_invalid` that names the faulty matcher. Without matchers, every leaf passes. */
export function compileSanMatchers(matchers: readonly SanMatcher[]): LeafTest {
  if (matchers.length > MATCHER_LIMIT) fail(`there are more than ${MATCHER_LIMIT} SAN matchers`);
  const tests = matchers.map(compileOne);
  if (tests.length === 0) return () => true;
  return (leaf) => {
    const names = altNamesOf(leaf);
    return tests.some((test) => test(names));
  };
}

/** Whether a certificate's DNS name covers `name` (RFC 6125 6.4.3): `*` is one leftmost label. */
export function dnsNameCovers(pattern: string, name: string): boolean {
  const [lowPattern, lowName] = [lowerAscii(pattern), lowerAscii(name)];
  if (lowPattern === lowName) return true;
  if (!lowPattern.startsWith("*.") || lowPattern.length === 2) return false;
  const dot = lowName.indexOf(".");
  return dot > 0 && lowName.slice(dot) === lowPattern.slice(1);
}

function compileOne({ type, oid, matcher }: SanMatcher): (names: AltNames) => boolean {
  const test = compileStringMatcher(matcher);
  const exact = matcher.kind === "exact" ? matcher.value : undefined;
  switch (type) {
    case "dns": {
      const covers = exact === undefined
        ? test
        : (pattern: string) => dnsNameCovers(pattern, exact);
      return ({ dns }) => dns.some(covers);
    }
    case "uri":
      return ({ uris }) => uris.some(test);
    case "email":
      return ({ emails }) => emails.some(test);
    case "ip": {
      if (exact === undefined) return ({ ips }) => ips.some(test);
      const wanted = canonicalIpText(exact);
      if (wanted === undefined) fail(`an IP matcher's value is no address: ${quote(exact, 80)}`);
      return ({ ips }) => ips.includes(wanted);
    }
    case "other_name":
      if (oid === undefined || !OID_SHAPE.test(oid)) {
        fail(`an other_name matcher needs a dotted oid, not ${quote(oid ?? "", 80)}`);
      }
      return ({ others }) => others.some((name) => name.oid === oid && test(name.value));
  }
}

/** Whether `prepareRegexes()` must have been awaited before a validator is made. */
export function needsMatchers(validation: Validation): boolean {
  return validation.kind !== "mesh" &&
    validation.rules.matchers.some(({ matcher }) => matcher.kind === "regex");
}

/** Throws `credentials_invalid` that names the fault of the matcher. */
export function compileStringMatcher(matcher: StringMatcher): StringTest {
  if (matcher.kind === "regex") {
    const compiled = compileRegex(matcher.regex);
    if (compiled.kind === "refused") return fail(compiled.reason);
    const { regex } = compiled;
    return (value) => value.length <= TESTED_LIMIT_CHARS && regex.test(value);
  }
  const { kind, value, ignoreCase } = matcher;
  if (value.length > VALUE_LIMIT_CHARS) {
    fail(`a matcher's value is longer than ${VALUE_LIMIT_CHARS} characters`);
  }
  // Every kind but "exact" would match every name, and no name is empty.
  if (value === "") fail(`a matcher of kind "${kind}" has an empty value`);
  return textTest(kind, { value, ignoreCase });
}

/** `undefined`: there are no pins. Throws `credentials_invalid` for a pin that is no SHA-256. */
export function compilePins(
  { spkiPins, certificateHashes }: Pick<PeerRules, "spkiPins" | "certificateHashes">,
): LeafTest | undefined {
  const pins = spkiPins.length + certificateHashes.length;
  if (pins === 0) return undefined;
  if (pins > PIN_LIMIT) fail(`there are more than ${PIN_LIMIT} pins`);
  const spkis = new Set(spkiPins.map((pin) => {
    if (!/^[A-Za-z0-9+/]{43}=$/.test(pin)) {
      fail(`the pin ${quote(pin, 100)} is not a SHA-256 in base64`);
    }
    // The last character has two unused bits.
    return Buffer.from(pin, "base64").toString("base64");
  }));
  for (const hash of certificateHashes) {
    if (!/^[0-9a-f]{64}$/.test(hash)) {
      fail(`the pin ${quote(hash, 100)} is not a SHA-256 in lower-case hex`);
    }
  }
  const hashes = new Set(certificateHashes);
  return (leaf) =>
    spkis.has(createHash("sha256").update(leaf.spki).digest("base64")) ||
    hashes.has(createHash("sha256").update(leaf.raw).digest("hex"));
}

function quote(text: string, limit: number): string {
  return JSON.stringify(text.slice(0, limit));
}
