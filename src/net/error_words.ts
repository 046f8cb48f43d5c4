/**
 * Errors of connects, handshakes and connections in our words: they name the side and the fault. BoringSSL
 * (Bun), rustls (Deno) and OpenSSL (Node) have texts of their own; an unknown text stays as it is.
 *
 * @module
 */

import { messageOf } from "../base/mod.ts";

/** The peer ended the handshake because we showed no certificate. */
export const WANTS_CERTIFICATE = "the peer asks for a certificate and was shown none";
/** Some peers have one alert for both. */
export const MAY_WANT_CERTIFICATE =
  "the peer found nothing that both support, or was not shown the certificate that it asks for";
/** The peer trusts no CA above our certificate. */
export const DISTRUSTS_OUR_CA = "the peer does not trust the CA that signed our certificate";
/** TLS 1.2 has no other alert for a certificate that is missing. */
export const REFUSES_CERTIFICATE = "the peer does not accept our certificate";

/** Alerts that the peer sent (RFC 8446 6.2), by their names without separators. */
const ALERTS: Readonly<Record<string, string>> = {
  unknownca: DISTRUSTS_OUR_CA,
  badcertificate: REFUSES_CERTIFICATE,
  certificateunknown: REFUSES_CERTIFICATE,
  certificateexpired:
    "the peer holds our certificate for expired or not valid yet; compare the clocks",
  certificaterevoked: "the peer holds our certificate for revoked",
  unsupportedcertificate: "the peer cannot use our certificate: its kind of key or its purpose",
  certificaterequired: WANTS_CERTIFICATE,
  accessdenied: "the peer denies us access",
  decrypterror: "the peer could not verify our signature or handshake",
  handshakefailure: MAY_WANT_CERTIFICATE,
  protocolversion: "the peer takes no TLS version that we offer",
  insufficientsecurity: "the peer asks for stronger cipher suites than we offer",
  unrecognizedname: "the peer has no certificate for the name that we ask for",
  noapplicationprotocol: "the peer takes no application protocol that we offer",
  unexpectedmessage: "the peer could not read what we sent",
  decodeerror: "the peer could not read what we sent",
  illegalparameter: "the peer could not read what we sent",
  internalerror: "the peer has trouble of its own",
};

/** Names that are spelt in two ways. */
const SPELLINGS: Readonly<Record<string, string>> = { unrecognisedname: "unrecognizedname" };

export const SPEAKS_NO_TLS = "the peer does not speak TLS";

/** Faults that our side found; more precise patterns first. */
const FAULTS: readonly (readonly [RegExp, string])[] = [
  [/HTTPS?_(?:PROXY_)?REQUEST/, "the peer spoke HTTP to a port that takes TLS only"],
  [/WRONG_VERSION_NUMBER|wrong version number|InvalidContentType/, SPEAKS_NO_TLS],
  [
    /UNSUPPORTED_PROTOCOL|unsupported protocol|Tls1[23]\w*Not|SupportedVersions/,
    "no TLS version in common with the peer",
  ],
  [/NO_SHARED_CIPHER|no shared cipher|NoCipherSuites/, "no cipher suite in common with the peer"],
  [/NO_SHARED_GROUP|NoKxGroups/, "no group for the key exchange in common with the peer"],
  [
    /NO_APPLICATION_PROTOCOL|support any known protocol/,
    "no application protocol in common with the peer",
  ],
  [
    /NO_COMMON_SIGNATURE_ALGORITHMS|NoSignatureSchemes/,
    "no signature algorithm in common with the peer",
  ],
  [
    /PEER_DID_NOT_RETURN_A_CERTIFICATE|did not return a certificate|sent no certificates/,
    "the peer showed no certificate",
  ],
  [/CERT_HAS_EXPIRED|certificate has expired/, "the certificate of the peer has expired"],
  [/CERT_NOT_YET_VALID|not yet valid/, "the certificate of the peer is not valid yet"],
  // OpenSSL's clients send the alert of a TLS 1.3 handshake in plain text, which BoringSSL cannot read.
  [/BAD_PACKET_LENGTH/, "the peer broke off the handshake; it may not trust our certificate"],
  [/disconnected before secure TLS/, "the peer left before the handshake was done"],
  // Deno reports certificates that are out of date like this, too.
  [
    /UNABLE_TO_(?:VERIFY|GET)|unable to (?:verify|get)|SELF_SIGNED|self.signed|UnknownIssuer/,
    "the certificate of the peer is signed by no CA that we trust, or out of date",
  ],
];

/** `text` of a TLS library in our words. */
export function tlsWords(text: string): string {
  return alertWords(text) || (FAULTS.find(([pattern]) => pattern.test(text))?.[1] ?? text);
}

/** The meaning of the peer's alert in `text`; `""`: it names none. */
export function alertWords(text: string): string {
  const found = /\balert[: ]+(\w[\w ]*)|_ALERT_(\w+)/i.exec(text);
  const name = (found?.[1] ?? found?.[2])?.toLowerCase().replace(/[_ ]/g, "");
  if (name === undefined) return "";
  return ALERTS[SPELLINGS[name] ?? name] ?? `the peer ended it with the TLS alert ${name}`;
}

/** Errors of connects, by code; the engines' own texts are `Failed to connect` and a number. */
const CONNECT_FAULTS: Readonly<Record<string, string>> = {
  // Bun also reports this for unreachable hosts.
  ECONNREFUSED: "nothing there takes connections",
  ENOENT: "there is no such socket",
  EACCES: "permission denied",
  ENOTFOUND: "the host name cannot be resolved",
  EHOSTUNREACH: "there is no way to that host",
  ENETUNREACH: "there is no way to that network",
  ETIMEDOUT: "it did not answer",
  EMFILE: "no file descriptor is left; raise the limit of open files",
};

export function connectWords(error: unknown): string {
  const code = (error as { code?: unknown } | null)?.code;
  const words = typeof code === "string" ? CONNECT_FAULTS[code] : undefined;
  return words ? `${words} (${code})` : messageOf(error);
}
