/**
 * Finds a path from a leaf to a root. Certificates come in any order and may lack names (a secondary
 * datacenter), so signatures link them. Every loop is bounded, because the peer chooses what it presents, and
 * a presented key is used only if a root vouches for it, because there are costly keys.
 *
 * @module
 */

import {
  allowsKeyUsage,
  allowsPurpose,
  type Certificate,
  isEmptyName,
  sameBytes,
} from "./certificate.ts";
import type { Usage } from "./oids.ts";
import { isSignedBy, keyFault } from "./signature.ts";
import { parseTrustDomainId } from "./spiffe.ts";

export interface PathOptions {
  readonly leaf: Certificate;
  /** In any order; the leaf, roots and unrelated certificates may be among them. */
  readonly presented: readonly Certificate[];
  readonly roots: readonly Certificate[];
  readonly nowMs: number;
  /** See `PeerToJudge`. */
  readonly presentMs?: number;
  readonly usage: Usage;
  /** Every CA of the path must name one of these trust domains as its own. */
  readonly spiffeTrustDomains?: readonly string[];
  readonly allowExpired?: boolean;
  /** CA certificates of a path, with the root; {@link PATH_LIMIT} applies as well. */
  readonly maxDepth?: number;
  /** The fault of a whole path by further rules, or `undefined`. */
  readonly pathFault?: (path: readonly Certificate[]) => string | undefined;
}

type CertificatePath =
  /** Leaf first, root last. */
  | { readonly kind: "found"; readonly certificates: readonly Certificate[] }
  | { readonly kind: "none"; readonly reason: string };

/** Leaf and root included. Consul needs 4. */
const PATH_LIMIT = 8;
/** Five roots and three presented certificates without hints need 26. */
const SIGNATURE_LIMIT = 32;
/** The part of it for presented certificates: the leaf itself needs some. */
const PRESENTED_SIGNATURE_LIMIT = 24;
const WHOLE_LIMIT = 8;

interface Search {
  readonly options: PathOptions;
  issuers: readonly Certificate[];
  readonly roots: ReadonlySet<Certificate>;
  /** Known results of signature checks, by child, then issuer. */
  readonly signed: Map<Certificate, Map<Certificate, boolean>>;
  signatures: number;
  /** A limit ended the search. */
  gaveUp: boolean;
  wholePaths: number;
  /** The fault of the first likely issuer that was skipped. */
  fault: string | undefined;
}

/** The first valid path. Roots are tried before presented certificates, so it is usually the shortest. */
export function findPath(options: PathOptions): CertificatePath {
  const { leaf, presented, roots } = options;
  const others = presented.filter((certificate) =>
    ![leaf, ...roots].some((known) => sameBytes(known.raw, certificate.raw))
  );
  const search: Search = {
    options,
    issuers: [],
    roots: new Set(roots),
    signed: new Map(),
    signatures: 0,
    gaveUp: false,
    wholePaths: 0,
    fault: undefined,
  };
  search.issuers = [...roots, ...vouchedFor(search, others)];
  const certificates = extend(search, [leaf]);
  if (certificates) return { kind: "found", certificates };
  const none = search.gaveUp
    ? `no path to a root within ${SIGNATURE_LIMIT} signature checks`
    : "no root in force, and nothing presented, has signed it";
  return { kind: "none", reason: search.fault ?? none };
}

/** Whether the names allow that `issuer` issued a certificate or a list; an empty name allows it. */
export function namesFit(
  child: Pick<Certificate, "issuer">,
  issuer: Pick<Certificate, "subject">,
): boolean {
  return isEmptyName(child.issuer) || isEmptyName(issuer.subject) ||
    sameBytes(child.issuer, issuer.subject);
}

/**
 * The certificates of `others` whose signatures lead to a root, directly or through CAs in `others`, valid
 * or expired.
 */
function vouchedFor(search: Search, others: readonly Certificate[]): readonly Certificate[] {
  const vouched: Certificate[] = [];
  for (const isLikely of [isHinted, namesFit]) {
    const issuers = [...search.options.roots, ...vouched];
    for (const issuer of issuers) {
      if (!mayIssue(issuer)) continue;
      for (const child of others) {
        if (vouched.includes(child) || !namesFit(child, issuer) || !isLikely(child, issuer)) {
          continue;
        }
        if (search.signatures >= PRESENTED_SIGNATURE_LIMIT) {
          search.gaveUp = true;
          return vouched;
        }
        if (!hasSigned(search, { child, issuer })) continue;
        vouched.push(child);
        issuers.push(child);
      }
    }
  }
  return vouched;
}

function mayIssue(issuer: Certificate): boolean {
  return issuer.basicConstraints?.ca === true && allowsKeyUsage(issuer, "keyCertSign") !== false;
}

function extend(search: Search, path: readonly Certificate[]): readonly Certificate[] | undefined {
  const current = path[path.length - 1];
  if (!current || path.length >= PATH_LIMIT) {
    search.fault ??= `the chain is longer than ${PATH_LIMIT} certificates`;
    return undefined;
  }
  const { maxDepth = PATH_LIMIT, pathFault } = search.options;
  if (path.length > maxDepth) {
    search.fault ??= `the chain has more than ${maxDepth} CA certificates`;
    return undefined;
  }
  for (const issuer of likelyFirst(search, current)) {
    // The same key twice never helps, and certificates that sign each other would loop.
    if (path.some((below) => sameBytes(below.spki, issuer.spki))) continue;
    const fault = issuerFault(issuer, { ...search.options, certificatesBelow: path.length });
    if (fault !== undefined) {
      if (isHinted(current, issuer)) search.fault ??= fault;
      continue;
    }
    if (!hasSigned(search, { child: current, issuer })) continue;
    const longer = [...path, issuer];
    if (search.roots.has(issuer)) {
      const unfit = search.wholePaths++ < WHOLE_LIMIT ? pathFault?.(longer) : "too many paths";
      if (unfit === undefined) return longer;
      search.fault ??= unfit;
      continue;
    }
    const whole = extend(search, longer);
    if (whole) return whole;
  }
  return undefined;
}

function likelyFirst(search: Search, child: Certificate): readonly Certificate[] {
  const fitting = search.issuers.filter((issuer) => namesFit(child, issuer));
  const hinted = fitting.filter((issuer) => isHinted(child, issuer));
  return [...hinted, ...fitting.filter((issuer) => !isHinted(child, issuer))];
}

function isHinted(child: Certificate, issuer: Certificate): boolean {
  return child.authorityKeyId !== undefined && child.authorityKeyId === issuer.subjectKeyId;
}

function hasSigned(
  search: Search,
  { child, issuer }: { readonly child: Certificate; readonly issuer: Certificate },
): boolean {
  let byIssuer = search.signed.get(child);
  if (!byIssuer) search.signed.set(child, byIssuer = new Map());
  let signed = byIssuer.get(issuer);
  if (signed === undefined) {
    if (search.signatures >= SIGNATURE_LIMIT) {
      search.gaveUp = true;
      return false;
    }
    search.signatures++;
    byIssuer.set(issuer, signed = isSignedBy(child, issuer));
  }
  return signed;
}

/** Why a certificate may not issue others in this path, or `undefined`. */
function issuerFault(
  issuer: Certificate,
  options: PathOptions & { readonly certificatesBelow: number },
): string | undefined {
  const name = `the issuer with serial ${issuer.serial}`;
  if (issuer.basicConstraints?.ca !== true) return `${name} is not a CA`;
  const { pathLength = Infinity } = issuer.basicConstraints;
  // The leaf does not count (RFC 5280 4.2.1.9).
  if (options.certificatesBelow - 1 > pathLength) {
    return `${name} allows only ${pathLength} CA certificates below it`;
  }
  if (allowsKeyUsage(issuer, "keyCertSign") === false) return `${name} may not sign certificates`;
  const time = options.allowExpired
    ? undefined
    : validityFault(issuer, options.nowMs, options.presentMs);
  const fault = time ?? keyFault(issuer);
  if (fault !== undefined) return `${name} ${fault}`;
  const [unknown] = issuer.notUnderstood;
  if (unknown) return `${name} has an extension that is not understood (${unknown})`;
  if (!allowsPurpose(issuer, options.usage)) return `${name} is not for TLS ${options.usage}s`;
  return options.spiffeTrustDomains && spiffeFault(issuer, options.spiffeTrustDomains);
}

/**
 * Why a certificate is not valid at `nowMs`, or `undefined`; both ends belong to the validity. One that
 * was made between `nowMs` and `presentMs` is valid.
 */
export function validityFault(
  { notBeforeMs, notAfterMs }: Pick<Certificate, "notBeforeMs" | "notAfterMs">,
  nowMs: number,
  presentMs = nowMs,
): string | undefined {
  if (presentMs < notBeforeMs) return `is not valid before ${new Date(notBeforeMs).toISOString()}`;
  if (nowMs > notAfterMs) return `expired at ${new Date(notAfterMs).toISOString()}`;
  return undefined;
}

function spiffeFault(issuer: Certificate, trustDomains: readonly string[]): string | undefined {
  const [uri, second] = issuer.sanUris;
  const trustDomain = uri === undefined || second !== undefined
    ? undefined
    : parseTrustDomainId(uri);
  if (trustDomain !== undefined && trustDomains.includes(trustDomain)) return undefined;
  return `the issuer with serial ${issuer.serial} does not name our trust domain ` +
    "(-strict-spiffe-chain)";
}
