/** The object identifiers of X.509 that this room uses. @module */

export const OID = {
  // Extensions (RFC 5280 4.2).
  subjectKeyId: "2.5.29.14",
  keyUsage: "2.5.29.15",
  subjectAltName: "2.5.29.17",
  basicConstraints: "2.5.29.19",
  certificatePolicies: "2.5.29.32",
  authorityKeyId: "2.5.29.35",
  extendedKeyUsage: "2.5.29.37",
  // Revocation lists and their entries (RFC 5280 5.2, 5.3).
  crlNumber: "2.5.29.20",
  reasonCode: "2.5.29.21",
  invalidityDate: "2.5.29.24",
  deltaCrlIndicator: "2.5.29.27",
  issuingDistributionPoint: "2.5.29.28",
  certificateIssuer: "2.5.29.29",
  // Extended key usages.
  serverAuth: "1.3.6.1.5.5.7.3.1",
  clientAuth: "1.3.6.1.5.5.7.3.2",
  anyExtendedKeyUsage: "2.5.29.37.0",
  // Names.
  commonName: "2.5.4.3",
  // Keys.
  ecPublicKey: "1.2.840.10045.2.1",
  rsaEncryption: "1.2.840.113549.1.1.1",
  ed25519: "1.3.101.112",
  curveP256: "1.2.840.10045.3.1.7",
  curveP384: "1.3.132.0.34",
  curveP521: "1.3.132.0.35",
  // Signatures.
  ecdsaSha256: "1.2.840.10045.4.3.2",
  ecdsaSha384: "1.2.840.10045.4.3.3",
  ecdsaSha512: "1.2.840.10045.4.3.4",
  rsaSha256: "1.2.840.113549.1.1.11",
  rsaSha384: "1.2.840.113549.1.1.12",
  rsaSha512: "1.2.840.113549.1.1.13",
  rsaPss: "1.2.840.113549.1.1.10",
  mgf1: "1.2.840.113549.1.1.8",
  sha256: "2.16.840.1.101.3.4.2.1",
  sha384: "2.16.840.1.101.3.4.2.2",
  sha512: "2.16.840.1.101.3.4.2.3",
} as const;

/** The purpose of a peer's certificate: it connects to us, or answers us. */
export type Usage = "client" | "server";

export const PURPOSE: Readonly<Record<Usage, string>> = {
  client: OID.clientAuth,
  server: OID.serverAuth,
};

export const KEY_USAGE_BIT = {
  digitalSignature: 0,
  nonRepudiation: 1,
  keyEncipherment: 2,
  dataEncipherment: 3,
  keyAgreement: 4,
  keyCertSign: 5,
  cRLSign: 6,
} as const;

export type KeyUsage = keyof typeof KEY_USAGE_BIT;
