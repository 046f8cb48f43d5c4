/** Validations as plain data. One that would accept more peers than was meant is refused. @module */

import { existsSync } from "node:fs";
import { prepareRegexes } from "../../base/mod.ts";
import {
  createPeerValidator,
  needsMatchers,
  NO_RULES,
  parseCertificate,
  parseSpiffeBundles,
  parseTrustDomain,
  type PeerRules,
  sameBytes,
  type Validation,
} from "../../identity/mod.ts";
import type {
  DataSource,
  SpiffeBundlesSpec,
  ValidationSecret,
  ValidationSpec,
} from "../model/secret.ts";
import { formatPem, parsePem } from "../../wire/mod.ts";
import {
  asFault,
  asUseFault,
  CRL_LIMIT_BYTES,
  describeSource,
  type Environment,
  fail,
  foundInstead,
  type LoadContext,
  refuse,
  resolveSource,
  type SourceBytes,
  textOf,
} from "./source_bytes.ts";

export async function loadValidation(
  spec: ValidationSpec,
  context: LoadContext,
): Promise<ValidationSecret> {
  const listed = spec.crl ? await readLists(spec.crl, context) : [];
  const rules = { ...spec.rules, crlPems: [...spec.rules.crlPems, ...listed] };
  if (spec.spiffe && (spec.trustedCa || spec.systemRoots)) {
    refuse("the validation has SPIFFE bundles and a trusted CA; only one of them can decide");
  }
  const validation = spec.spiffe
    ? await spiffeOf(spec.spiffe, rules, context)
    : await anchorsOf(spec, rules, context);
  if (needsMatchers(validation)) await prepareRegexes();
  // The validator is made again where it is used; this proves that it can be made.
  const options = { serviceTrustDomains: [], strictSpiffeChain: false };
  asUseFault(describe(spec), () => createPeerValidator(validation, options));
  const anchors = validation.kind === "spiffe"
    ? Object.values(validation.bundles).flat()
    : validation.rootPems;
  const fault = faultOf(anchors, context);
  if (fault !== undefined) refuse(`the TLS library does not take ${describe(spec)}: ${fault}`);
  return { type: "validation", validation };
}

function faultOf(rootPems: readonly string[], { tlsFault }: LoadContext): string | undefined {
  return rootPems.length > 0 ? tlsFault({ certPem: "", keyPem: "", rootPems }) : undefined;
}

async function anchorsOf(
  spec: ValidationSpec,
  rules: PeerRules,
  context: LoadContext,
): Promise<Validation> {
  const parts: Bundle[] = [];
  if (spec.trustedCa) parts.push(await readAnchors(spec.trustedCa, context, "trusted CA"));
  if (spec.systemRoots) parts.push(await readSystemRoots(context));
  const rootPems = distinct(parts.flatMap((part) => part.rootPems));
  const crlPems = distinct([...rules.crlPems, ...parts.flatMap((part) => part.crlPems)]);
  const pinned = rules.spkiPins.length > 0 || rules.certificateHashes.length > 0;
  if (rootPems.length === 0 && !pinned && !rules.acceptUntrusted) {
    return refuse(
      "the validation has neither a trusted CA nor pins, so anybody would be accepted; " +
        "give one, or say ACCEPT_UNTRUSTED where that is meant",
    );
  }
  return { kind: "ca", rootPems, rules: { ...rules, crlPems } };
}

async function spiffeOf(
  spiffe: SpiffeBundlesSpec,
  rules: PeerRules,
  context: LoadContext,
): Promise<Validation> {
  const bundles: Record<string, readonly string[]> = {};
  const crlPems = [...rules.crlPems];
  if (spiffe.kind === "map") {
    const options = { role: "SPIFFE bundles", limitBytes: CRL_LIMIT_BYTES };
    const read = await resolveSource(spiffe.source, context, options);
    const text = utf8Of(read);
    const parsed = asUseFault(read.what, () => parseSpiffeBundles(text));
    return { kind: "spiffe", bundles: parsed, rules: { ...rules, crlPems: distinct(crlPems) } };
  }
  for (const { name, bundle, workloadTrustDomain } of spiffe.domains) {
    const domain = parseTrustDomain(workloadTrustDomain ?? name);
    if (domain === undefined) {
      return refuse(`"${workloadTrustDomain ?? name}" is not a trust domain`);
    }
    if (Object.hasOwn(bundles, domain)) return refuse(`trust domain ${domain} is named twice`);
    const read = await readAnchors(bundle, context, `bundle of ${domain}`);
    bundles[domain] = read.rootPems;
    crlPems.push(...read.crlPems);
  }
  if (Object.keys(bundles).length === 0) return refuse("the validation names no trust domain");
  return { kind: "spiffe", bundles, rules: { ...rules, crlPems: distinct(crlPems) } };
}

/** The sources of the parts, for messages about the whole. */
function describe({ trustedCa, crl, spiffe }: ValidationSpec): string {
  const parts = [
    trustedCa && describeSource(trustedCa, "trusted CA"),
    spiffe?.kind === "map" && describeSource(spiffe.source, "SPIFFE bundles"),
    crl && describeSource(crl, "revocation list"),
  ].filter((part) => part);
  return parts.length === 0 ? "the validation" : `the validation (${parts.join(", ")})`;
}

function distinct(pems: readonly string[]): readonly string[] {
  return [...new Set(pems)];
}

function utf8Of({ bytes, what }: SourceBytes): string {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    return fail(what, "it is not UTF-8 text");
  }
}

async function readAnchors(
  source: DataSource,
  context: LoadContext,
  role: string,
): Promise<Bundle> {
  const read = await resolveSource(source, context, { role });
  const text = textOf(read);
  const bundle = await readBundle(text, { what: read.what });
  if (bundle.rootPems.length === 0) {
    return refuse(`${read.what} has no CERTIFICATE block${foundInstead(text)}`);
  }
  return bundle;
}

async function readSystemRoots(context: LoadContext): Promise<Bundle> {
  const path = systemRootsPath(context.env);
  if (path === undefined) {
    return refuse("the system's roots were not found; install them, or name a file of CAs");
  }
  const options = { role: "system roots", limitBytes: CRL_LIMIT_BYTES };
  const read = await resolveSource({ kind: "file", path }, context, options);
  const reading = { what: read.what, lenient: true, limitChars: CRL_LIMIT_BYTES };
  const bundle = await readBundle(textOf(read), reading);
  const rootPems = faultOf(bundle.rootPems, context) === undefined
    ? bundle.rootPems
    : bundle.rootPems.filter((pem) => faultOf([pem], context) === undefined);
  if (rootPems.length === 0) return refuse(`${read.what} has no certificate`);
  return { ...bundle, rootPems };
}

interface Bundle {
  /** PEM, one each, no two alike. */
  readonly rootPems: readonly string[];
  readonly crlPems: readonly string[];
}

/** Certificates of one bundle; Mozilla's list has 140. */
const BLOCK_LIMIT = 1000;

/**
 * PEM with CA certificates and revocation lists. An unreadable block makes the whole text unusable: a bundle
 * that lost an authority would refuse its peers, and one that lost a list would accept revoked certificates.
 */
async function readBundle(
  text: string,
  options: {
    /** The name of the text in errors. */
    readonly what: string;
    /** Unreadable roots (version 1, for one) are skipped: for the system's roots. */
    readonly lenient?: boolean;
    readonly limitChars?: number;
  },
): Promise<Bundle> {
  const { what, lenient = false, limitChars = 1 << 20 } = options;
  const blocks = parsePem(text, { what, limitBlocks: BLOCK_LIMIT, limitChars });
  const rootPems = new Set<string>();
  const crlPems: string[] = [];
  for (const { label, der } of blocks) {
    if (label.endsWith("PRIVATE KEY")) {
      fail(what, "it has a private key, which does not belong here");
    }
    if (label === "X509 CRL") {
      crlPems.push(formatPem("X509 CRL", der));
      continue;
    }
    // OpenSSL's label with trust settings after the certificate is refused: those would be lost.
    if (label !== "CERTIFICATE" && label !== "X509 CERTIFICATE") {
      fail(what, `it has a "${label}" block, which does not belong here`);
    }
    try {
      await asFault(`certificate ${rootPems.size + 1} of ${what}`, () => {
        const certificate = parseCertificate(der);
        // The check covers no bytes after the certificate.
        if (!sameBytes(certificate.raw, der)) fail(what, "a certificate has trailing bytes");
      });
    } catch (error) {
      if (lenient) continue;
      throw error;
    }
    rootPems.add(formatPem("CERTIFICATE", der));
  }
  return { rootPems: [...rootPems], crlPems };
}

/** Revocation lists: PEM, several in one text, or one in DER. */
async function readLists(source: DataSource, context: LoadContext): Promise<readonly string[]> {
  const options = { role: "revocation list", limitBytes: CRL_LIMIT_BYTES };
  const read = await resolveSource(source, context, options);
  const { bytes, what } = read;
  // A list in DER is a SEQUENCE with a long length; PEM begins with text.
  if (bytes[0] === 0x30 && (bytes[1] ?? 0) >= 0x80) return [formatPem("X509 CRL", bytes)];
  const blocks = await asFault(what, () => {
    return parsePem(textOf(read), { what, limitBlocks: BLOCK_LIMIT, limitChars: 4 << 20 });
  });
  if (blocks.length === 0) return fail(what, "it has no X509 CRL block");
  return blocks.map(({ label, der }) => {
    if (label !== "X509 CRL") fail(what, `it has a "${label}" block, which does not belong here`);
    return formatPem("X509 CRL", der);
  });
}

/** Bundles of CA certificates by distribution; the first that exists is used. */
const SYSTEM_ROOTS = [
  // Debian, Ubuntu, Alpine, Arch, Gentoo
  "/etc/ssl/certs/ca-certificates.crt",
  // Fedora, RHEL, Amazon Linux
  "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
  "/etc/pki/tls/certs/ca-bundle.crt",
  // SUSE
  "/etc/ssl/ca-bundle.pem",
  "/var/lib/ca-certificates/ca-bundle.pem",
  // Alpine without the package, BSD, macOS
  "/etc/ssl/cert.pem",
] as const;

/** `SSL_CERT_FILE`, as OpenSSL reads it, or the usual path; `undefined`: there is neither. */
export function systemRootsPath(
  env: Environment,
  exists: (path: string) => boolean = existsSync,
): string | undefined {
  const named = env["SSL_CERT_FILE"];
  // A named file that is absent is an error, not a reason to trust other roots.
  if (named !== undefined && named !== "") return named;
  return SYSTEM_ROOTS.find((path) => exists(path));
}

/**
 * Envoy's `combined_validation_context`: a merge of messages, in which single values of `dynamic` win,
 * lists join and booleans are or-ed. `defaults` comes from the configuration, `dynamic` from a source.
 */
export function mergeValidation(defaults: ValidationSpec, dynamic: ValidationSpec): ValidationSpec {
  return {
    ...defaults,
    ...dynamic,
    systemRoots: defaults.systemRoots || dynamic.systemRoots,
    rules: mergeRules(defaults.rules, dynamic.rules),
  };
}

function mergeRules(defaults: PeerRules, dynamic: PeerRules): PeerRules {
  return {
    matchers: [...defaults.matchers, ...dynamic.matchers],
    spkiPins: [...defaults.spkiPins, ...dynamic.spkiPins],
    certificateHashes: [...defaults.certificateHashes, ...dynamic.certificateHashes],
    crlPems: [...defaults.crlPems, ...dynamic.crlPems],
    onlyLeafCrl: defaults.onlyLeafCrl || dynamic.onlyLeafCrl,
    // The default value means absent: a limit of the same value changes nothing.
    maxDepth: dynamic.maxDepth === NO_RULES.maxDepth ? defaults.maxDepth : dynamic.maxDepth,
    allowExpired: defaults.allowExpired || dynamic.allowExpired,
    acceptUntrusted: defaults.acceptUntrusted || dynamic.acceptUntrusted,
  };
}
