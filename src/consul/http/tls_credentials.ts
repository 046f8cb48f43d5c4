/** TLS towards an agent or servers: credentials, our verdict on the peer, messages. @module */

import { X509Certificate } from "node:crypto";
import { rootCertificates } from "node:tls";
import type { Clock } from "../../base/mod.ts";
import { areRoots, type DialCredentials, type DialTls, serverNameMatcher } from "../../http/mod.ts";
import { createPeerValidator, NO_RULES, type PeerRules } from "../../identity/mod.ts";
import {
  DISTRUSTS_OUR_CA,
  MAY_WANT_CERTIFICATE,
  REFUSES_CERTIFICATE,
  WANTS_CERTIFICATE,
} from "../../net/mod.ts";
import type { AnsweringPeer } from "./carrier.ts";
import type { TlsTexts } from "./files.ts";

export interface ConsulTls extends DialTls {
  /** `reason` of a failed connection, with the flags to change where the peer refuses our certificate. */
  readonly explain: (reason: string) => string;
}

/** A server that our own verdict refuses. */
interface RefusedServer {
  /** `name`: the certificate would do for another name. */
  readonly kind: "name" | "chain" | "leaf";
  readonly reason: string;
  /** DER. */
  readonly leaf: Uint8Array;
}

interface CredentialOptions {
  readonly serverName: string;
  /** PEM, one text for each certificate. */
  readonly anchors: readonly string[];
  readonly clock: Pick<Clock, "now">;
  readonly refusalWords: (refused: RefusedServer) => string;
}

const CERTIFICATES = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g;

/** One text for each certificate. */
export function anchorsOf({ caPems }: TlsTexts): readonly string[] {
  return caPems.flatMap((text) => text.match(CERTIFICATES) ?? []);
}

export function credentialsOf(texts: TlsTexts, options: CredentialOptions): DialCredentials {
  const { certPem, keyPem, verify } = texts;
  const own = { certPem, keyPem };
  if (!verify) return { ...own, rootPems: [], peerCheck: "shown", judge: () => undefined };
  const { serverName, anchors: rootPems, clock, refusalWords } = options;
  const validatorOf = (rules: PeerRules) =>
    createPeerValidator({ kind: "ca", rootPems, rules }, {
      serviceTrustDomains: [],
      strictSpiffeChain: false,
    });
  const whole = validatorOf({ ...NO_RULES, matchers: [serverNameMatcher(serverName)] });
  const chainOnly = validatorOf(NO_RULES);
  return {
    ...own,
    rootPems,
    peerCheck: areRoots(rootPems) ? "checked" : "shown",
    judge([leaf, ...presented]) {
      if (!leaf) return "the server showed no certificate";
      const peer = { leaf, presented, nowMs: clock.now(), usage: "server" } as const;
      const verdict = whole.judge(peer);
      if (verdict.kind === "trusted") return undefined;
      const isName = chainOnly.judge(peer).kind === "trusted";
      const kind = isName ? "name" : verdict.code === "chain_untrusted" ? "chain" : "leaf";
      return refusalWords({ kind, reason: `the server is not trusted: ${verdict.reason}`, leaf });
    },
  };
}

/** TLS to an agent, with messages that name the mismatch between its certificate and our files. */
export function agentCredentials(
  texts: TlsTexts,
  { host, clock }: { readonly host: string; readonly clock: Pick<Clock, "now"> },
): DialCredentials {
  const serverName = texts.serverName || host;
  const anchors = anchorsOf(texts);
  return credentialsOf(texts, {
    serverName,
    // A system without such a file trusts the runtime's own CAs.
    anchors: anchors.length > 0 ? anchors : rootCertificates,
    clock,
    refusalWords: (refused) => agentRefusal(refused, { texts, serverName, nowMs: clock.now() }),
  });
}

/** Longer than any certificate name is readable, shorter than any log line. */
const SHOWN_LIMIT = 200;
const SHOWN_CAS = 3;

function agentRefusal(
  { kind, reason, leaf }: RefusedServer,
  { texts, serverName, nowMs }: {
    readonly texts: TlsTexts;
    readonly serverName: string;
    readonly nowMs: number;
  },
): string {
  const certificate = readable(leaf);
  if (!certificate) return reason;
  const { subject, subjectAltName } = certificate;
  if (kind === "name") {
    const names = subjectAltName ? shown(subjectAltName) : `${shown(subject)}, without other names`;
    return `its certificate is not for ${shown(serverName)} but for ${names}; say one of these ` +
      `with ${texts.names.serverName}`;
  }
  if (isOutOfDate(certificate, nowMs)) {
    const { validFrom, validTo } = certificate;
    return `its certificate (${shown(subject)}) is valid from ${isoDate(validFrom)} to ` +
      `${isoDate(validTo)}, and it is ${new Date(nowMs).toISOString()}; give the agent a new one`;
  }
  return kind === "chain" ? issuerWords(certificate, texts, nowMs) ?? reason : reason;
}

/** `undefined`: the issuer is among our CAs, and its dates are the trouble. */
function issuerWords(
  { subject, issuer }: X509Certificate,
  { caName, caPems, names }: TlsTexts,
  nowMs: number,
): string | undefined {
  // A system's hundreds are one text, and not worth reading.
  const isShort = caPems.join("").split("-----BEGIN").length - 1 <= SHOWN_CAS;
  const cas = isShort ? caPems.map((pem) => new X509Certificate(pem)) : [];
  const sameName = cas.find((ca) => ca.subject === issuer);
  if (sameName && isOutOfDate(sameName, nowMs)) return undefined;
  const issuerText = subject === issuer
    ? `its certificate (${shown(subject)}) is signed by itself`
    : `its certificate (${shown(subject)}) names ${shown(issuer)} as its issuer`;
  const casText = sameName
    ? `and ${caName} has one of this name with another key`
    : cas.length > 0
    ? `but ${caName} has ${cas.map((ca) => shown(ca.subject)).join(", ")}`
    : `which is not in ${caName}`;
  return `${issuerText}, ${casText}; say with ${names.ca} which CA has signed it`;
}

/** Words for the peer's alert about the certificate that we showed, or did not show. */
export function explainAlert(
  reason: string,
  { peer, texts: { certName, names } }: {
    readonly peer: AnsweringPeer;
    readonly texts: Pick<TlsTexts, "certName" | "names">;
  },
): string {
  const refuses = reason.includes(REFUSES_CERTIFICATE);
  // TLS 1.2 has no alert for a missing certificate but that for a bad one.
  if (reason.includes(WANTS_CERTIFICATE) || (refuses && !certName)) {
    return `the ${peer} wants a certificate: give ${names.certAndKey}`;
  }
  if (!certName) {
    return reason.includes(MAY_WANT_CERTIFICATE) ? `${reason}: give ${names.certAndKey}` : reason;
  }
  if (!refuses && !reason.includes(DISTRUSTS_OUR_CA)) return reason;
  const listed = peer === "agent" ? "tls.https.ca_file" : "tls.defaults.ca_file";
  return `the ${peer} does not take ${certName}: use one of a CA that its ${listed} holds`;
}

function readable(der: Uint8Array): X509Certificate | undefined {
  try {
    return new X509Certificate(der);
  } catch {
    // The verdict's own words are all there is.
    return undefined;
  }
}

function isOutOfDate({ validFrom, validTo }: X509Certificate, nowMs: number): boolean {
  return nowMs < Date.parse(validFrom) || nowMs > Date.parse(validTo);
}

/** One quoted line of a name, which may contain any text. */
function shown(name: string): string {
  const line = /^CN=.*$/m.exec(name)?.[0] ?? name.replaceAll("\n", ", ");
  return JSON.stringify(line.length > SHOWN_LIMIT ? `${line.slice(0, SHOWN_LIMIT)}...` : line);
}

function isoDate(text: string): string {
  return new Date(text).toISOString();
}
