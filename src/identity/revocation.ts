/**
 * What revocation lists say about a path. Where there are lists, every CA of a path must have one in
 * time, as with OpenSSL: a CA whose list was not given could have revoked anything.
 *
 * @module
 */

import { allowsKeyUsage, type Certificate, isEmptyName, sameBytes } from "./certificate.ts";
import { type Crl, revokes } from "./crl.ts";
import { isSignedBy } from "./signature.ts";

export interface RevocationRules {
  /** Only the leaf is looked up. */
  readonly onlyLeaf: boolean;
  /** Lists past their next update count, too. */
  readonly allowExpired: boolean;
}

export type RevocationVerdict =
  /** None is revoked, which is known to hold within these times. */
  | { readonly kind: "good"; readonly fromMs: number; readonly untilMs: number }
  | { readonly kind: "refused"; readonly reason: string };

interface Known {
  readonly crl: Crl;
  /** Public key under which the signature was found right. */
  signer: Uint8Array | undefined;
}

export class Revocation {
  readonly #known: readonly Known[];
  readonly #rules: RevocationRules;

  constructor(crls: readonly Crl[], rules: RevocationRules) {
    this.#known = crls.map((crl) => ({ crl, signer: undefined }));
    this.#rules = rules;
  }

  /**
   * `path` is leaf first, anchor last, and known to hold at `nowMs`. A list that was made since then, up to
   * `presentMs`, counts.
   */
  judge(path: readonly Certificate[], nowMs: number, presentMs = nowMs): RevocationVerdict {
    let [fromMs, untilMs] = [-Infinity, Infinity];
    if (this.#known.length === 0) return { kind: "good", fromMs, untilMs };
    // The anchor is the operator's choice: nobody above it has a say.
    for (let at = 0; at < (this.#rules.onlyLeaf ? 1 : path.length - 1); at++) {
      const [certificate, issuer] = [path[at], path[at + 1]];
      if (!certificate || !issuer) break;
      const found = this.#listFor({ certificate, issuer, isLeaf: at === 0, nowMs, presentMs });
      if (typeof found === "string") return { kind: "refused", reason: found };
      if (revokes(found, certificate)) {
        const what = at === 0 ? "its certificate" : "the issuer";
        return { kind: "refused", reason: `${what} with serial ${certificate.serial} is revoked` };
      }
      fromMs = Math.max(fromMs, found.thisUpdateMs);
      untilMs = Math.min(untilMs, found.nextUpdateMs);
    }
    return this.#rules.allowExpired
      ? { kind: "good", fromMs: -Infinity, untilMs: Infinity }
      : { kind: "good", fromMs, untilMs };
  }

  /** The newest list in time of `issuer` that speaks about such certificates, or why there is none. */
  #listFor(
    { certificate, issuer, isLeaf, nowMs, presentMs }: {
      readonly certificate: Certificate;
      readonly issuer: Certificate;
      readonly isLeaf: boolean;
      readonly nowMs: number;
      readonly presentMs: number;
    },
  ): Crl | string {
    const name = `the CA with serial ${issuer.serial}`;
    let newest: Crl | undefined;
    let fault: string | undefined;
    for (const known of this.#known) {
      const { crl } = known;
      if (crl.scope === (isLeaf ? "cas" : "leaves")) continue;
      if (!fits(crl.issuer, issuer.subject) || !this.#isFrom(known, issuer)) continue;
      if (allowsKeyUsage(issuer, "cRLSign") === false) {
        return `${name} may not sign revocation lists`;
      }
      const late = this.#rules.allowExpired ? undefined : timeFault(crl, nowMs, presentMs);
      if (late !== undefined) fault ??= `the revocation list of ${name} ${late}`;
      else if (!newest || crl.thisUpdateMs > newest.thisUpdateMs) newest = crl;
    }
    const whose = isLeaf ? "its certificate" : `the issuer with serial ${certificate.serial}`;
    return newest ?? fault ?? `there is no revocation list of ${name}, which vouches for ${whose}`;
  }

  #isFrom(known: Known, issuer: Certificate): boolean {
    if (known.signer) return sameBytes(known.signer, issuer.spki);
    if (!isSignedBy(known.crl, issuer)) return false;
    known.signer = issuer.spki;
    return true;
  }
}

/** An empty name says nothing: a CA of a secondary datacenter has none. The signature decides. */
function fits(listed: Uint8Array, subject: Uint8Array): boolean {
  return isEmptyName(subject) || isEmptyName(listed) || sameBytes(listed, subject);
}

function timeFault(
  { thisUpdateMs, nextUpdateMs }: Crl,
  nowMs: number,
  presentMs: number,
): string | undefined {
  if (presentMs < thisUpdateMs) {
    return `is not valid before ${new Date(thisUpdateMs).toISOString()}`;
  }
  if (nowMs > nextUpdateMs) return `expired at ${new Date(nextUpdateMs).toISOString()}`;
  return undefined;
}
