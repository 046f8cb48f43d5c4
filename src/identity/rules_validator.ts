/**
 * Compiles a {@link Validation} to verdicts on peers. Beside the mesh's rules there are those of
 * operators: any certificate of given anchors or pins, or X509-SVIDs of given trust domains (Envoy's
 * default and SPIFFE validators, envoy reference 1.9).
 *
 * The chain is checked first, then pins, then names: an unknown peer costs no more than its chain. Paths
 * longer than 8 certificates are refused whatever `maxDepth` is.
 *
 * @module
 */

import { messageOf } from "../base/mod.ts";
import { altNamesOf, shownNames } from "./certificate_names.ts";
import { type Certificate, fingerprintOf, sameBytes } from "./certificate.ts";
import {
  type ChainVerdict,
  judgeChain,
  moreThanCounts,
  parsePresented,
  type PeerToJudge,
  readLeaf,
  refuseChain,
  refuseLeaf,
  type TrustedPeer,
  type UntrustedPeer,
} from "./chain.ts";
import { parseCrls } from "./crl.ts";
import { compilePins, compileSanMatchers, type LeafTest } from "./leaf_matchers.ts";
import { anyLeafFault, svidFault } from "./leaf_rules.ts";
import { findPath } from "./path.ts";
import { parseRoots } from "./pem_material.ts";
import { type RetiredAnchor, retiredOf } from "./retired_anchors.ts";
import { Revocation } from "./revocation.ts";
import { canonicalUri, parseServiceId, parseSpiffeId, parseTrustDomain } from "./spiffe.ts";
import { type PeerRules, refuseValidation as fail, type Validation } from "./validation.ts";

type RulesValidation = Exclude<Validation, { readonly kind: "mesh" }>;

/** A store of public roots has about 150. */
const ANCHOR_LIMIT = 1000;
const TRUST_DOMAIN_LIMIT = 1000;
const DEPTH_LIMIT = 100;
/** The last moment of a `Date`. */
const FOREVER_MS = 8_640_000_000_000_000;

/** A chain that holds between these times. */
interface HeldChain {
  readonly kind: "held";
  readonly notBeforeMs: number;
  readonly notAfterMs: number;
  readonly rootId: string;
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
  if (validation.kind !== "mesh") return new RulesValidator(validation, options);
  const { strictSpiffeChain } = options;
  const { trustDomains } = validation;
  const roots = [...parseRoots(validation.rootPems), ...retiredOf("", options.retired)];
  return {
    namesPeers: false,
    judge: (peer) => judgeChain({ ...peer, roots, trustDomains, strictSpiffeChain }),
  };
}

class RulesValidator implements PeerValidator {
  readonly namesPeers: boolean;
  readonly #kind: RulesValidation["kind"];
  readonly #rules: PeerRules;
  readonly #options: PeerValidatorOptions;
  /** The anchors of `ca` rules. */
  readonly #roots: readonly Certificate[];
  /** The anchors of `spiffe` rules, by trust domain. */
  readonly #bundles: ReadonlyMap<string, readonly Certificate[]>;
  readonly #revocation: Revocation;
  readonly #isPinned: LeafTest | undefined;
  readonly #isNamed: LeafTest;

  constructor(validation: RulesValidation, options: PeerValidatorOptions) {
    const { kind, rules } = validation;
    this.#kind = kind;
    this.#rules = rules;
    this.#options = options;
    const { retired } = options;
    this.#roots = kind === "ca"
      ? [...parseRoots(validation.rootPems, { limit: ANCHOR_LIMIT }), ...retiredOf("", retired)]
      : [];
    this.#bundles = kind === "spiffe" ? parseBundles(validation.bundles, retired) : new Map();
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
    if (kind === "ca" && this.#roots.length === 0 && !rules.acceptUntrusted) {
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
    const held = this.#kind === "ca" ? this.#judgeAny(leaf, peer) : this.#judgeSvid(leaf, peer);
    if (held.kind === "untrusted" && !this.#rules.acceptUntrusted) return held;
    if (this.#isPinned && !this.#isPinned(leaf)) {
      return refuseChain("its certificate is none of those that are pinned");
    }
    if (!this.#isNamed(leaf)) {
      return refuseLeaf(
        `none of its alternative names is one that is accepted (${shownNames(altNamesOf(leaf))})`,
      );
    }
    return this.#trusted(leaf, held);
  }

  #trusted(leaf: Certificate, held: HeldChain | UntrustedPeer): TrustedPeer {
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
      this.#options.serviceTrustDomains.includes(parsed.id.trustDomain);
    return { id: isService ? parsed.id : undefined, uri };
  }

  #judgeAny(leaf: Certificate, peer: PeerToJudge): HeldChain | UntrustedPeer {
    const roots = this.#roots;
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
    if (second !== undefined) {
      return refuseLeaf("its certificate has two or more URI names");
    }
    const id = parseSpiffeId(uri);
    if (id.kind === "refused") return refuseLeaf(`its SPIFFE id ${id.reason}`);
    const roots = this.#bundles.get(id.trustDomain);
    if (!roots) {
      return refuseLeaf(`its trust domain is ${id.trustDomain}, of which there is no bundle`);
    }
    return this.#findPath(leaf, peer, { roots, trustDomain: id.trustDomain });
  }

  #findPath(
    leaf: Certificate,
    peer: PeerToJudge,
    { roots, trustDomain }: {
      readonly roots: readonly Certificate[];
      readonly trustDomain?: string;
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
      ...trustDomain !== undefined && this.#options.strictSpiffeChain &&
        { spiffeTrustDomains: [trustDomain] },
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

function parseBundles(
  bundles: Readonly<Record<string, readonly string[]>>,
  retired: readonly RetiredAnchor[] | undefined,
): ReadonlyMap<string, readonly Certificate[]> {
  const entries = Object.entries(bundles);
  if (entries.length === 0) fail("there is no trust bundle");
  if (entries.length > TRUST_DOMAIN_LIMIT) {
    fail(`there are bundles of more than ${TRUST_DOMAIN_LIMIT} trust domains`);
  }
  return new Map(entries.map(([trustDomain, pems]) => {
    if (parseTrustDomain(trustDomain) !== trustDomain) {
      fail(`${JSON.stringify(trustDomain)} is not the name of a trust domain`);
    }
    const what = `certificate of the bundle of ${trustDomain}`;
    const roots = parseRoots(pems, { what, limit: ANCHOR_LIMIT });
    return [trustDomain, [...roots, ...retiredOf(trustDomain, retired)]];
  }));
}
