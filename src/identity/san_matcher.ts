/**
 * Rules on a leaf's alternative names (Envoy's `match_typed_subject_alt_names`): any one of them that
 * matches any name of its type lets the leaf pass.
 *
 * @module
 */

import { canonicalIpText, lowerAscii, ProxyError } from "../base/mod.ts";
import { type AltNames, altNamesOf } from "./alt_names.ts";
import type { Certificate } from "./certificate.ts";
import { compileStringMatcher, type StringTest } from "./string_matcher.ts";
import type { SanMatcher } from "./validation.ts";

export type SanTest = (leaf: Certificate) => boolean;

const MATCHER_LIMIT = 1000;
const OID_SHAPE = /^[0-2](?:\.(?:0|[1-9]\d{0,15})){1,32}$/;

/** Throws `credentials_invalid` naming the matcher that cannot be used. Without matchers all pass. */
export function compileSanMatchers(matchers: readonly SanMatcher[]): SanTest {
  if (matchers.length > MATCHER_LIMIT) fail(`there are more than ${MATCHER_LIMIT} SAN matchers`);
  const tests = matchers.map(compileOne);
  if (tests.length === 0) return () => true;
  return (leaf) => {
    const names = altNamesOf(leaf);
    return tests.some((test) => test(names));
  };
}

/** Whether a certificate's DNS name covers `name` (RFC 6125 6.4.3): `*` stands for one leftmost label. */
export function dnsNameCovers(pattern: string, name: string): boolean {
  const [lowPattern, lowName] = [lowerAscii(pattern), lowerAscii(name)];
  if (lowPattern === lowName) return true;
  if (!lowPattern.startsWith("*.") || lowPattern.length === 2) return false;
  const dot = lowName.indexOf(".");
  return dot > 0 && lowName.slice(dot) === lowPattern.slice(1);
}

function compileOne({ type, oid, matcher }: SanMatcher): (names: AltNames) => boolean {
  switch (type) {
    case "dns": {
      if (matcher.kind !== "exact") {
        return anyOf((names) => names.dns, compileStringMatcher(matcher));
      }
      compileStringMatcher(matcher);
      return anyOf((names) => names.dns, (pattern) => dnsNameCovers(pattern, matcher.value));
    }
    case "uri":
      return anyOf((names) => names.uris, compileStringMatcher(matcher));
    case "email":
      return anyOf((names) => names.emails, compileStringMatcher(matcher));
    case "ip": {
      if (matcher.kind !== "exact") {
        return anyOf((names) => names.ips, compileStringMatcher(matcher));
      }
      const wanted = canonicalIpText(matcher.value);
      if (wanted === undefined) {
        fail(`an IP matcher's value is no address: ${quote(matcher.value)}`);
      }
      return anyOf((names) => names.ips, (ip) => ip === wanted);
    }
    case "other_name": {
      if (oid === undefined || !OID_SHAPE.test(oid)) {
        fail(`an other_name matcher needs a dotted oid, not ${quote(oid ?? "")}`);
      }
      const test = compileStringMatcher(matcher);
      return (names) => names.others.some((name) => name.oid === oid && test(name.value));
    }
  }
}

function anyOf(
  pick: (names: AltNames) => readonly string[],
  test: StringTest,
): (names: AltNames) => boolean {
  return (names) => pick(names).some(test);
}

function quote(text: string): string {
  return JSON.stringify(text.slice(0, 80));
}

function fail(fact: string): never {
  throw new ProxyError("credentials_invalid", `Cannot use validation: ${fact}`);
}
