/**
 * Whom we accept, from its parts to plain data that the peer check compiles. What would accept more
 * than was meant is refused here.
 *
 * @module
 */

import { prepareRegexes } from "../../base/mod.ts";
import {
  createPeerValidator,
  needsMatchers,
  parseSpiffeBundles,
  parseTrustDomain,
  type PeerRules,
  type Validation,
} from "../../identity/mod.ts";
import type { ValidationSecret } from "../secret.ts";
import type { DataSource, SpiffeBundlesSpec, ValidationSpec } from "../spec.ts";
import { type Bundle, readBundle, readRevocationLists } from "./bundle.ts";
import { asUseFault, refuse } from "./load_certificate.ts";
import {
  CRL_LIMIT_BYTES,
  describeSource,
  fail,
  foundInstead,
  type LoadContext,
  resolveSource,
  type SourceBytes,
  textOf,
} from "./source_bytes.ts";
import { systemRootsPath } from "./system_roots.ts";

export async function loadValidation(
  spec: ValidationSpec,
  context: LoadContext,
): Promise<ValidationSecret> {
  const listed = spec.crl ? await readLists(spec.crl, context) : [];
  const rules = { ...spec.rules, crlPems: [...spec.rules.crlPems, ...listed] };
  const validation = spec.spiffe
    ? await spiffeOf(spec, { spiffe: spec.spiffe, rules, context })
    : await anchorsOf(spec, { rules, context });
  if (needsMatchers(validation)) await prepareRegexes();
  // What it gives is made again where it is used; here it proves that this works.
  const options = { serviceTrustDomains: [], strictSpiffeChain: false };
  asUseFault(describe(spec), () => createPeerValidator(validation, options));
  const fault = faultOf(anchorsIn(validation), context);
  if (fault !== undefined) refuse(`the TLS library does not take ${describe(spec)}: ${fault}`);
  return { type: "validation", validation };
}

function anchorsIn(validation: Validation): readonly string[] {
  return validation.kind === "spiffe"
    ? Object.values(validation.bundles).flat()
    : validation.rootPems;
}

function faultOf(
  rootPems: readonly string[],
  { tlsFault }: LoadContext,
): string | undefined {
  return rootPems.length > 0 ? tlsFault({ certPem: "", keyPem: "", rootPems }) : undefined;
}

async function anchorsOf(
  spec: ValidationSpec,
  { rules, context }: { readonly rules: PeerRules; readonly context: LoadContext },
): Promise<Validation> {
  const parts: Bundle[] = [];
  if (spec.trustedCa) parts.push(await readAnchors(spec.trustedCa, context, "trusted CA"));
  if (spec.systemRoots) parts.push(await readSystemRoots(context));
  const rootPems = [...new Set(parts.flatMap((part) => part.rootPems))];
  const crlPems = [...new Set([...rules.crlPems, ...parts.flatMap((part) => part.crlPems)])];
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
  spec: ValidationSpec,
  options: {
    readonly spiffe: SpiffeBundlesSpec;
    readonly rules: PeerRules;
    readonly context: LoadContext;
  },
): Promise<Validation> {
  const { spiffe, rules, context } = options;
  if (spec.trustedCa || spec.systemRoots) {
    return refuse(
      "the validation has SPIFFE bundles and a trusted CA; only one of them can decide",
    );
  }
  if (spiffe.kind === "map") {
    const read = await resolveSource(spiffe.source, context, {
      role: "SPIFFE bundles",
      limitBytes: CRL_LIMIT_BYTES,
    });
    const text = utf8Of(read);
    const parsed = asUseFault(read.what, () => parseSpiffeBundles(text));
    const crls = Object.values(parsed).flatMap((bundle) => bundle.crlPems ?? []);
    return {
      kind: "spiffe",
      bundles: Object.fromEntries(
        Object.entries(parsed).map(([name, bundle]) => [name, bundle.rootPems]),
      ),
      rules: { ...rules, crlPems: [...new Set([...rules.crlPems, ...crls])] },
    };
  }
  const bundles: Record<string, readonly string[]> = {};
  const crlPems = [...rules.crlPems];
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
  return { kind: "spiffe", bundles, rules: { ...rules, crlPems: [...new Set(crlPems)] } };
}

/** Where the parts are, for messages about the whole. */
function describe({ trustedCa, crl, spiffe }: ValidationSpec): string {
  const parts = [
    ...trustedCa ? [describeSource(trustedCa, "trusted CA")] : [],
    ...spiffe?.kind === "map" ? [describeSource(spiffe.source, "SPIFFE bundles")] : [],
    ...crl ? [describeSource(crl, "revocation list")] : [],
  ];
  return parts.length === 0 ? "the validation" : `the validation (${parts.join(", ")})`;
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
  const limitChars = CRL_LIMIT_BYTES;
  const bundle = await readBundle(textOf(read), { what: read.what, lenient: true, limitChars });
  const rootPems = faultOf(bundle.rootPems, context) === undefined
    ? bundle.rootPems
    : bundle.rootPems.filter((pem) => faultOf([pem], context) === undefined);
  if (rootPems.length === 0) return refuse(`${read.what} has no certificate`);
  return { ...bundle, rootPems };
}

async function readLists(
  source: DataSource,
  context: LoadContext,
): Promise<readonly string[]> {
  const options = { role: "revocation list", limitBytes: CRL_LIMIT_BYTES };
  const read = await resolveSource(source, context, options);
  return await readRevocationLists(read.bytes, { what: read.what, text: textOf(read) });
}
