/**
 * Envoy's `Secret` from the wire in the shape of proto3's JSON, which is what the readers of secret files
 * take: wrappers are their values, and what is in an `Any` has its fields beside its type.
 *
 * @module
 */

import type { PlainMessage, Protobuf } from "../grpc/protobuf.ts";

const SPIFFE_TYPE_URL =
  "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.SPIFFECertValidatorConfig";

/** Throws for bytes that are no such message. */
export function plainSecret(protobuf: Protobuf, bytes: Uint8Array): PlainMessage {
  const secret = protobuf.decode("Secret", bytes, { bytes: "binary" });
  const { validation_context: context } = secret;
  if (!isMessage(context)) return secret;
  return { ...secret, validation_context: plainContext(protobuf, context) };
}

function plainContext(protobuf: Protobuf, context: PlainMessage): PlainMessage {
  const plain: Record<string, unknown> = { ...context };
  const {
    max_verify_depth: depth,
    require_signed_certificate_timestamp: timestamp,
    custom_validator_config: extension,
  } = context;
  if (isMessage(depth)) plain.max_verify_depth = depth.value ?? 0;
  if (isMessage(timestamp)) {
    plain.require_signed_certificate_timestamp = timestamp.value ?? false;
  }
  if (isMessage(extension)) plain.custom_validator_config = plainExtension(protobuf, extension);
  return plain;
}

function plainExtension(protobuf: Protobuf, extension: PlainMessage): PlainMessage {
  const { typed_config: any } = extension;
  if (!isMessage(any)) return extension;
  const { type_url: type, value } = any;
  const bytes = value instanceof Uint8Array ? value : new Uint8Array();
  const fields = type === SPIFFE_TYPE_URL
    ? protobuf.decode("SPIFFECertValidatorConfig", bytes, { bytes: "binary" })
    : {};
  return { ...extension, typed_config: { ...fields, "@type": type ?? "" } };
}

function isMessage(value: unknown): value is PlainMessage {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
