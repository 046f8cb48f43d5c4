/** Our verdict on a certificate that a server signed. @module */

import { messageOf, ProxyError } from "../../../base/mod.ts";
import { altNamesOf, parseCertificate, validateCredentials } from "../../../identity/mod.ts";
import { parsePem } from "../../../wire/mod.ts";
import type { Leaf, Roots } from "../../model/values.ts";

interface SignedLeafInput {
  /** The reply: the leaf first, then the certificates that link it to a root. */
  readonly certPem: string;
  /** The request's, PKCS#8. */
  readonly keyPem: string;
  /** The request's, in Consul's spelling. */
  readonly uri: string;
  readonly roots: Roots;
  readonly nowMs: number;
}

/** Fails with `agent_reply_invalid` that names the fault. */
export function judgeSigned({ certPem, keyPem, uri, roots, nowMs }: SignedLeafInput): Leaf {
  try {
    const valid = validateCredentials({
      certPem,
      keyPem,
      nowMs,
      rootPems: roots.roots.map(({ pem }) => pem),
      trustDomains: [roots.trustDomain],
    });
    if (valid.uri !== uri) throw new Error(`it is for ${valid.uri}`);
    const [leaf] = parsePem(valid.certPem, { what: "certificate" });
    const others = leaf && altNamesOf(parseCertificate(leaf.der));
    if (!others || others.dns.length + others.ips.length + others.emails.length > 0) {
      throw new Error("it has names that were not asked for");
    }
    return {
      certPem: valid.certPem,
      keyPem: valid.keyPem,
      uri,
      serial: valid.serial,
      notBeforeMs: valid.notBeforeMs,
      notAfterMs: valid.notAfterMs,
    };
  } catch (error) {
    throw new ProxyError(
      "agent_reply_invalid",
      `Cannot use the certificate that the server signed for ${uri}: ${messageOf(error)}` +
        clockHint(certPem, nowMs),
      { cause: error },
    );
  }
}

/** Servers sign for now: a certificate that is not valid now was signed by another clock than ours. */
function clockHint(certPem: string, nowMs: number): string {
  try {
    const isOutside = parsePem(certPem, { what: "certificate" })
      .map(({ der }) => parseCertificate(der))
      .some(({ notBeforeMs, notAfterMs }) => nowMs < notBeforeMs || nowMs > notAfterMs);
    return isOutside ? ` (here it is ${new Date(nowMs).toISOString()}: is this clock right?)` : "";
  } catch {
    // The refusal names that it cannot be read.
    return "";
  }
}
