/**
 * The first message of a TLS client (RFC 8446 4.1.2, RFC 5246 7.4.1.2, RFC 6066 3): what it asks for
 * before anything is decided. Pure and bounded; takes what has arrived so far.
 *
 * @module
 */

export interface ClientHello {
  /** Lower case, without a trailing dot; undefined: the client named no host. */
  readonly serverName: string | undefined;
  /** `SignatureScheme` numbers in the client's order (RFC 8446 4.2.3); empty: it did not say. */
  readonly signatureAlgorithms: readonly number[];
  /** Protocol names offered, in the client's order. */
  readonly alpn: readonly string[];
}

export type ClientHelloReading =
  | { readonly kind: "complete"; readonly hello: ClientHello }
  /** A beginning of one: more bytes are needed. */
  | { readonly kind: "partial" }
  | { readonly kind: "invalid"; readonly reason: string };
