/**
 * What is wrong between the agent's certificate and our files, in words that name both. The engines
 * only say that a handshake failed; a second connection, on which nothing is sent, is taken to look at
 * the certificate that was refused.
 *
 * @module
 */

import { X509Certificate } from "node:crypto";
import tls from "node:tls";
import type { Address, Clock } from "../../base/mod.ts";
import { type DialTls } from "../../http/mod.ts";
import {
  DISTRUSTS_OUR_CA,
  MAY_WANT_CERTIFICATE,
  REFUSES_CERTIFICATE,
  WANTS_CERTIFICATE,
} from "../../net/mod.ts";
import type { TransportTls } from "./files.ts";

const LOOK_TIMEOUT_MS = 3_000;
/** Longer than any certificate is readable, shorter than any log line. */
const SHOWN_LIMIT = 200;
const SHOWN_CAS = 3;

const NAME_CODE = "ERR_TLS_CERT_ALTNAME_INVALID";
const DATE_CODES = ["CERT_HAS_EXPIRED", "CERT_NOT_YET_VALID"];
const ISSUER_CODES = [
  "UNABLE_TO_VERIFY_LEAF_SIGNATURE",
  "UNABLE_TO_GET_ISSUER_CERT",
  "UNABLE_TO_GET_ISSUER_CERT_LOCALLY",
  "DEPTH_ZERO_SELF_SIGNED_CERT",
  "SELF_SIGNED_CERT_IN_CHAIN",
  "CERT_SIGNATURE_FAILURE",
];
const CODES: ReadonlySet<string> = new Set([NAME_CODE, ...DATE_CODES, ...ISSUER_CODES]);

export interface AgentTlsFiles {
  readonly address: Extract<Address, { readonly kind: "tcp" }>;
  readonly tls: TransportTls;
  readonly clock: Clock;
}

/** TLS towards Consul's servers, with the files behind it. */
export interface ServersTls extends DialTls {
  /** `reason` of a failed connection, with the flags to change where a server minds our certificate. */
  readonly explain: (reason: string) => string;
}

/** Did we refuse the agent's certificate? */
export function isRefusedCertificate(code: unknown): code is string {
  return typeof code === "string" && CODES.has(code);
}

/** Why the agent's certificate was refused with `code`; `undefined` where it cannot be looked at. */
export async function explainRefusal(
  code: string,
  place: AgentTlsFiles,
): Promise<string | undefined> {
  const certificate = await presentedCertificate(place);
  if (!certificate) return undefined;
  const { address, tls: { serverName }, clock } = place;
  if (code === NAME_CODE) {
    return `its certificate is not for ${shown(serverName || address.host)} but for ` +
      `${namesOf(certificate)}; say one of these with ${place.tls.names.serverName}`;
  }
  const { subject, validFrom, validTo } = certificate;
  const now = clock.now();
  if (now < Date.parse(validFrom) || now > Date.parse(validTo)) {
    return `its certificate (${shown(subject)}) is valid from ${isoDate(validFrom)} to ` +
      `${isoDate(validTo)}, and it is ${new Date(now).toISOString()}; give the agent a new one`;
  }
  // Its own dates are right, so they are those of a CA above it.
  return DATE_CODES.includes(code) ? undefined : issuerTrouble(certificate, place.tls);
}

/** What a fatal alert of the agent says about the certificate that we showed, or did not. */
export function explainAlert(text: string, { certName, names }: TransportTls): string | undefined {
  // TLS 1.2 has no alert for a missing certificate but that for a bad one.
  const missing = certName ? /certificate_?required/i : /certificate_?required|bad_?certificate/i;
  if (missing.test(text)) return `the agent wants a certificate: give ${names.certAndKey}`;
  return certName && /unknown_?ca|bad_?certificate|certificate_?unknown/i.test(text)
    ? `the agent does not take ${certName}: use one of a CA that its tls.https.ca_file holds`
    : undefined;
}

/** The same for a server: `reason` is in the words of the net layer. */
export function explainServerReason(
  reason: string,
  { certName, names }: Pick<TransportTls, "certName" | "names">,
): string {
  const refused = reason.includes(REFUSES_CERTIFICATE);
  if (reason.includes(WANTS_CERTIFICATE) || (refused && !certName)) {
    return `the server wants a certificate: give ${names.certAndKey}`;
  }
  if (!certName && reason.includes(MAY_WANT_CERTIFICATE)) {
    return `${reason}: give ${names.certAndKey}`;
  }
  return refused || reason.includes(DISTRUSTS_OUR_CA)
    ? `the server does not take ${certName}: use one of a CA that its tls.defaults.ca_file holds`
    : reason;
}

function issuerTrouble(
  certificate: X509Certificate,
  { caName, caPems, names }: TransportTls,
): string {
  const { subject, issuer } = certificate;
  // A system's hundreds are one text, and not worth reading.
  const isShort = caPems.join("").split("-----BEGIN").length - 1 <= SHOWN_CAS;
  const cas = isShort ? caPems.map((pem) => new X509Certificate(pem)) : [];
  const said = subject === issuer
    ? `its certificate (${shown(subject)}) is signed by itself`
    : `its certificate (${shown(subject)}) names ${shown(issuer)} as its issuer`;
  const sameName = cas.some((ca) => ca.subject === issuer);
  const held = sameName
    ? `and ${caName} has one of this name with another key`
    : cas.length > 0
    ? `but ${caName} has ${cas.map((ca) => shown(ca.subject)).join(", ")}`
    : `which is not in ${caName}`;
  return `${said}, ${held}; say with ${names.ca} which CA has signed it`;
}

/** `undefined`: the agent shows none within the time. */
function presentedCertificate(place: AgentTlsFiles): Promise<X509Certificate | undefined> {
  const { address: { host, port }, tls: { serverName }, clock } = place;
  return new Promise((resolve) => {
    const socket = tls.connect({
      ...{ host, port },
      ...(serverName ? { servername: serverName } : {}),
      // To look at it; nothing is sent.
      rejectUnauthorized: false,
    });
    const done = (certificate: X509Certificate | undefined) => {
      timer.cancel();
      socket.destroy();
      resolve(certificate);
    };
    const timer = clock.after(LOOK_TIMEOUT_MS, () => done(undefined));
    socket.on("error", () => done(undefined));
    socket.on("close", () => done(undefined));
    socket.on("secureConnect", () => {
      try {
        done(socket.getPeerX509Certificate());
      } catch {
        done(undefined); // The engine cannot read what it was shown.
      }
    });
  });
}

function namesOf({ subjectAltName, subject }: X509Certificate): string {
  return subjectAltName ? shown(subjectAltName) : `${shown(subject)}, without other names`;
}

/** A name is whatever its owner wrote: one line of it, quoted. */
function shown(name: string): string {
  const line = /^CN=.*$/m.exec(name)?.[0] ?? name.replaceAll("\n", ", ");
  return JSON.stringify(line.length > SHOWN_LIMIT ? `${line.slice(0, SHOWN_LIMIT)}...` : line);
}

function isoDate(text: string): string {
  return new Date(text).toISOString();
}
