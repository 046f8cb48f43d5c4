/** Compiles a {@link Validation} to verdicts: the chain is checked first, then pins, then names. @module */

import { messageOf } from "../base/mod.ts";
import { altNamesOf, shownNames } from "./certificate_names.ts";
import { type Certificate, fingerprintOf, sameBytes } from "./certificate.ts";
import {
  type ChainVerdict,
  identityOf,
  moreThanCounts,
  parsePresented,
  type PeerToJudge,
  readLeaf,
  refuseChain,
  refuseLeaf,
  type TrustedPeer,
  type UntrustedPeer,
} from "./chain.ts";
import { parseCrls, Revocation } from "./crl.ts";
import {
  anyLeafFault,
  compilePins,
  compileSanMatchers,
  leafFault,
  type LeafTest,
  svidFault,
} from "./leaf_rules.ts";
import { findPath } from "./path.ts";
import { parseRoots, readCertificates } from "./credentials.ts";
import { canonicalUri, parseServiceId, parseSpiffeId, parseTrustDomain } from "./spiffe.ts";
import {
  NO_RULES,
  type PeerRules,
  refuseValidation as fail,
  type Validation,
} from "./validation.ts";

/** A store of public roots has about 150. */
const ANCHOR_LIMIT = 1000;
const TRUST_DOMAIN_LIMIT = 1000;
const DEPTH_LIMIT = 100;
/** The last moment of a `Date`. */
const FOREVER_MS = 8_640_000_000_000_000;

interface HeldChain extends Pick<TrustedPeer, "notBeforeMs" | "notAfterMs" | "rootId"> {
  readonly kind: "held";
}

export interface PeerValidator {
  /** The rules restrict peers by names or pins, beyond the vouching of their CAs. */
  readonly namesPeers: boolean;
  /** Pure and bounded; never throws, whatever the peer sent. */
  judge(peer: PeerToJudge): ChainVerdict;
}

export interface PeerValidatorOptions {
  /** Lower case. Under `ca` and `spiffe` rules, ids of these domains count as Consul service ids. */
  readonly serviceTrustDomains: readonly string[];
  /** CA certificates must name the trust domain, too; not under `ca` rules, which have none. */
  readonly strictSpiffeChain: boolean;
  /** Further anchors, for open connections only: see {@link RetiredAnchor}. */
  readonly retired?: readonly RetiredAnchor[];
}

/**
 * Throws `credentials_invalid` that names the unusable part. If `needsMatchers(validation)`,
 * `prepareRegexes()` must have been awaited in this thread.
 */
export function createPeerValidator(
  validation: Validation,
  options: PeerValidatorOptions,
): PeerValidator {
  return new RulesValidator(validation, options);
}

class RulesValidator implements PeerValidator {
  readonly namesPeers: boolean;
  readonly #kind: Validation["kind"];
  readonly #rules: PeerRules;
  readonly #strictSpiffeChain: boolean;
  readonly #serviceTrustDomains: readonly string[];
  readonly #anchors: Anchors;
  readonly #revocation: Revocation;
  readonly #isPinned: LeafTest | undefined;
  readonly #isNamed: LeafTest;

  constructor(validation: Validation, options: PeerValidatorOptions) {
    const { kind } = validation;
    const rules = kind === "mesh" ? NO_RULES : validation.rules;
    this.#kind = kind;
    this.#rules = rules;
    this.#strictSpiffeChain = options.strictSpiffeChain;
    this.#serviceTrustDomains = kind === "mesh"
      ? validation.trustDomains
      : options.serviceTrustDomains;
    this.#anchors = parseAnchors(validation, options.retired);
    // Only a URI is a SPIFFE id: rules for other names belong to another validator.
    const matchers = rules.matchers.filter(({ type }) => kind === "ca" || type === "uri");
    this.#isNamed = compileSanMatchers(matchers);
    this.#isPinned = compilePins(rules);
    this.namesPeers = matchers.length > 0 || this.#isPinned !== undefined;
    this.#revocation = new Revocation(parseCrls(rules.crlPems), {
      onlyLeaf: rules.onlyLeafCrl,
      allowExpired: rules.allowExpired,
    });
    const { maxDepth } = rules;
    if (!Number.isInteger(maxDepth) || maxDepth < 0 || maxDepth > DEPTH_LIMIT) {
      fail(`the depth is ${maxDepth}, not 0 to ${DEPTH_LIMIT}`);
    }
    if (kind === "ca" && !this.#anchors.get("")?.length && !rules.acceptUntrusted) {
      if (matchers.length > 0) {
        fail("names are matched, but there is no trusted CA: anybody could have made them up");
      }
      if (rules.crlPems.length > 0) fail("revocation lists need a trusted CA, and there is none");
      if (!this.#isPinned) {
        fail("there is neither a trusted CA nor a pin: nobody could be told apart");
      }
    }
  }

  judge(peer: PeerToJudge): ChainVerdict {
    try {
      return this.#judge(peer);
    } catch (error) {
      // A defect here must neither accept a peer nor end the process.
      return refuseLeaf(`its certificate cannot be judged: ${messageOf(error)}`);
    }
  }

  #judge(peer: PeerToJudge): ChainVerdict {
    const leaf = readLeaf(peer);
    if ("kind" in leaf) return leaf;
    const held = this.#judgeChain(leaf, peer);
    if (held.kind === "untrusted" && !this.#rules.acceptUntrusted) return held;
    if (this.#isPinned && !this.#isPinned(leaf)) {
      return refuseChain("its certificate is none of those that are pinned");
    }
    if (!this.#isNamed(leaf)) {
      return refuseLeaf(
        `none of its alternative names is one that is accepted (${shownNames(altNamesOf(leaf))})`,
      );
    }
    const verified = held.kind === "held";
    const claims = leaf.sanUris.map((uri) => this.#claimOf(uri, verified));
    const { id, uri } = claims.length === 1 && claims[0] || { id: undefined, uri: "" };
    return {
      kind: "trusted",
      id,
      uri,
      ...(claims.length > 1 && { claims }),
      name: uri || (altNamesOf(leaf).dns[0] ?? `certificate ${leaf.serial}`),
      verified,
      serial: leaf.serial,
      notBeforeMs: verified ? held.notBeforeMs : 0,
      notAfterMs: verified ? held.notAfterMs : FOREVER_MS,
      rootId: verified ? held.rootId : "",
    };
  }

  #claimOf(spelled: string, verified: boolean): Pick<TrustedPeer, "id" | "uri"> {
    const uri = canonicalUri(spelled);
    const parsed = parseServiceId(uri);
    const isService = verified && parsed.kind === "service" &&
      this.#serviceTrustDomains.includes(parsed.id.trustDomain);
    return { id: isService ? parsed.id : undefined, uri };
  }

  #judgeChain(leaf: Certificate, peer: PeerToJudge): HeldChain | UntrustedPeer {
    switch (this.#kind) {
      case "mesh":
        return this.#judgeMesh(leaf, peer);
      case "ca":
        return this.#judgeAny(leaf, peer);
      case "spiffe":
        return this.#judgeSvid(leaf, peer);
    }
  }

  #judgeMesh(leaf: Certificate, peer: PeerToJudge): HeldChain | UntrustedPeer {
    const fault = leafFault(leaf, peer);
    if (fault !== undefined) return refuseLeaf(fault);
    const trustDomains = this.#serviceTrustDomains;
    const identity = identityOf(leaf, trustDomains);
    if (identity.kind === "refused") return refuseLeaf(identity.reason);
    return this.#findPath(leaf, peer, { roots: this.#anchors.get(""), trustDomains });
  }

  #judgeAny(leaf: Certificate, peer: PeerToJudge): HeldChain | UntrustedPeer {
    const roots = this.#anchors.get("") ?? [];
    const { allowExpired } = this.#rules;
    // Without a CA the pins vouch.
    const isAnchor = roots.length === 0
      ? this.#isPinned?.(leaf) === true
      : roots.some((root) => sameBytes(root.raw, leaf.raw));
    const fault = anyLeafFault(leaf, { ...peer, allowExpired, isAnchor });
    if (fault !== undefined) return refuseLeaf(fault);
    if (isAnchor) return this.#held([leaf]);
    if (roots.length === 0) return refuseChain("there is no trusted CA, and no pin fits");
    return this.#findPath(leaf, peer, { roots });
  }

  #judgeSvid(leaf: Certificate, peer: PeerToJudge): HeldChain | UntrustedPeer {
    const fault = svidFault(leaf, { ...peer, allowExpired: this.#rules.allowExpired });
    if (fault !== undefined) return refuseLeaf(fault);
    const [uri, second] = leaf.sanUris;
    if (uri === undefined) return refuseLeaf("its certificate has no URI name");
    if (second !== undefined) return refuseLeaf("its certificate has two or more URI names");
    const id = parseSpiffeId(uri);
    if (id.kind === "refused") return refuseLeaf(`its SPIFFE id ${id.reason}`);
    const roots = this.#anchors.get(id.trustDomain);
    if (!roots) {
      return refuseLeaf(`its trust domain is ${id.trustDomain}, of which there is no bundle`);
    }
    return this.#findPath(leaf, peer, { roots, trustDomains: [id.trustDomain] });
  }

  /** `trustDomains`: with `strictSpiffeChain`, CA certificates must name one of them. */
  #findPath(
    leaf: Certificate,
    peer: PeerToJudge,
    { roots = [], trustDomains }: {
      readonly roots: readonly Certificate[] | undefined;
      readonly trustDomains?: readonly string[];
    },
  ): HeldChain | UntrustedPeer {
    const { nowMs, presentMs = nowMs, usage, presented } = peer;
    const { allowExpired, maxDepth } = this.#rules;
    // The search ends with the found path, so this is its span.
    let known: Span = EVER;
    const path = findPath({
      leaf,
      presented: parsePresented(presented),
      roots,
      nowMs,
      presentMs,
      usage,
      allowExpired,
      maxDepth,
      ...trustDomains && this.#strictSpiffeChain && { spiffeTrustDomains: trustDomains },
      pathFault: (certificates) => {
        const revocation = this.#revocation.judge(certificates, nowMs, presentMs);
        if (revocation.kind === "refused") return revocation.reason;
        known = revocation;
        return undefined;
      },
    });
    if (path.kind === "none") return refuseChain(path.reason + moreThanCounts(presented));
    return this.#held(path.certificates, known);
  }

  #held(path: readonly Certificate[], known: Span = EVER): HeldChain {
    const root = path[path.length - 1];
    const rootId = root ? fingerprintOf(root) : "";
    if (this.#rules.allowExpired) {
      return { kind: "held", notBeforeMs: 0, notAfterMs: FOREVER_MS, rootId };
    }
    const notBeforeMs = Math.max(known.fromMs, ...path.map(({ notBeforeMs }) => notBeforeMs));
    const notAfterMs = Math.min(known.untilMs, ...path.map(({ notAfterMs }) => notAfterMs));
    return { kind: "held", notBeforeMs, notAfterMs, rootId };
  }
}

interface Span {
  readonly fromMs: number;
  readonly untilMs: number;
}

const EVER: Span = { fromMs: -Infinity, untilMs: Infinity };

/** Anchors by trust domain; under rules without trust domains those of "". */
type Anchors = ReadonlyMap<string, readonly Certificate[]>;

function parseAnchors(validation: Validation, retired: readonly RetiredAnchor[] = []): Anchors {
  const { kind } = validation;
  const bundles = Object.entries(bundlesOf(validation));
  if (bundles.length === 0) fail("there is no trust bundle");
  if (bundles.length > TRUST_DOMAIN_LIMIT) {
    fail(`there are bundles of more than ${TRUST_DOMAIN_LIMIT} trust domains`);
  }
  return new Map(bundles.map(([trustDomain, pems]) => {
    const isSpiffe = kind === "spiffe";
    if (isSpiffe && parseTrustDomain(trustDomain) !== trustDomain) {
      fail(`${JSON.stringify(trustDomain)} is not the name of a trust domain`);
    }
    const roots = parseRoots(pems, {
      ...isSpiffe && { what: `certificate of the bundle of ${trustDomain}` },
      ...kind !== "mesh" && { limit: ANCHOR_LIMIT },
    });
    const expired = retired.filter((anchor) => anchor.trustDomain === trustDomain);
    return [trustDomain, [...roots, ...expired.map(({ certificate }) => certificate)]];
  }));
}

/**
 * An anchor that left the rules after it had expired. It was not revoked, so connections that it vouched
 * for while it was valid need not end.
 */
export interface RetiredAnchor {
  readonly certificate: Certificate;
  /** See {@link TrustedPeer}. */
  readonly rootId: string;
  /** The trust domain of its bundle under `spiffe` rules; else "". */
  readonly trustDomain: string;
}

/** Anchors of `before` that are not in `now` and had expired at `nowMs`, the wall clock. */
export function retiredAnchors(
  before: Validation,
  now: Validation,
  nowMs: number,
): readonly RetiredAnchor[] {
  // Rules of another kind are no later version of the old ones.
  if (before.kind !== now.kind) return [];
  const left = bundlesOf(now);
  return Object.entries(bundlesOf(before)).flatMap(([trustDomain, pems]) => {
    const still = new Set(Object.hasOwn(left, trustDomain) ? left[trustDomain] : []);
    return pems.filter((pem) => !still.has(pem))
      .flatMap((pem) => readCertificates(pem, "root certificate"))
      .filter(({ notAfterMs }) => notAfterMs < nowMs)
      .map((certificate) => ({ certificate, rootId: fingerprintOf(certificate), trustDomain }));
  });
}

function bundlesOf(validation: Validation): Readonly<Record<string, readonly string[]>> {
  return validation.kind === "spiffe" ? validation.bundles : { "": validation.rootPems };
}
