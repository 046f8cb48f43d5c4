/**
 * The verdict of revocation lists on a path. With any list, every CA of a path must have a current one, as
 * with OpenSSL: a CA without a list could have revoked anything.
 *
 * @module
 */

import { allowsKeyUsage, type Certificate, isEmptyName, sameBytes } from "./certificate.ts";
import { type Crl, revokes } from "./crl.ts";
import { validityFault } from "./path.ts";
import { isSignedBy } from "./signature.ts";

interface RevocationRules {
  /** Lists apply to the leaf only. */
  readonly onlyLeaf: boolean;
  /** Lists past their next update are valid, too. */
  readonly allowExpired: boolean;
}

type RevocationVerdict =
  /** No certificate is revoked, as far as the lists of these times say. */
  | { readonly kind: "good"; readonly fromMs: number; readonly untilMs: number }
  | { readonly kind: "refused"; readonly reason: string };

interface KnownCrl {
  readonly crl: Crl;
  /** The public key that verified the signature. */
  signer: Uint8Array | undefined;
}

export class Revocation {
  readonly #known: readonly KnownCrl[];
  readonly #rules: RevocationRules;

  constructor(crls: readonly Crl[], rules: RevocationRules) {
    this.#known = crls.map((crl) => ({ crl, signer: undefined }));
    this.#rules = rules;
  }

  /**
   * `path` is leaf first, anchor last, and valid at `nowMs`. A list that was made between `nowMs` and
   * `presentMs` is valid.
   */
  judge(path: readonly Certificate[], nowMs: number, presentMs = nowMs): RevocationVerdict {
    let [fromMs, untilMs] = [-Infinity, Infinity];
    if (this.#known.length === 0) return { kind: "good", fromMs, untilMs };
    // The anchor is the operator's choice, whatever is above it.
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

  /** The newest valid list of `issuer` for such certificates, or the reason why there is none. */
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
      const { thisUpdateMs: notBeforeMs, nextUpdateMs: notAfterMs } = crl;
      const late = this.#rules.allowExpired
        ? undefined
        : validityFault({ notBeforeMs, notAfterMs }, nowMs, presentMs);
      if (late !== undefined) fault ??= `the revocation list of ${name} ${late}`;
      else if (!newest || crl.thisUpdateMs > newest.thisUpdateMs) newest = crl;
    }
    const whose = isLeaf ? "its certificate" : `the issuer with serial ${certificate.serial}`;
    return newest ?? fault ?? `there is no revocation list of ${name}, which vouches for ${whose}`;
  }

  #isFrom(known: KnownCrl, issuer: Certificate): boolean {
    if (known.signer) return sameBytes(known.signer, issuer.spki);
    if (!isSignedBy(known.crl, issuer)) return false;
    known.signer = issuer.spki;
    return true;
  }
}

/** An empty name fits, because a CA of a secondary datacenter has one. The signature decides. */
function fits(listed: Uint8Array, subject: Uint8Array): boolean {
  return isEmptyName(subject) || isEmptyName(listed) || sameBytes(listed, subject);
}
