/**
 * Envoy's `Secret` from the wire in the shape of proto3's JSON, which is what the readers of secret files
 * take: wrappers are their values, and what is in an `Any` has its fields beside its type.
 *
 * @module
 */

import type { PlainMessage } from "../../wire/mod.ts";
import { SDS_PROTOBUF } from "./sds_types.ts";

const SPIFFE_TYPE_URL =
  "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.SPIFFECertValidatorConfig";

/** Throws for bytes that are no such message. */
export function plainSecret(bytes: Uint8Array): PlainMessage {
  const secret = SDS_PROTOBUF.decode("Secret", bytes);
  const { validation_context: context } = secret;
  if (!isMessage(context)) return secret;
  return { ...secret, validation_context: plainContext(context) };
}

function plainContext(context: PlainMessage): PlainMessage {
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
  if (isMessage(extension)) plain.custom_validator_config = plainExtension(extension);
  return plain;
}

function plainExtension(extension: PlainMessage): PlainMessage {
  const { typed_config: any } = extension;
  if (!isMessage(any)) return extension;
  const { type_url: type, value } = any;
  const bytes = value instanceof Uint8Array ? value : new Uint8Array();
  const fields = type === SPIFFE_TYPE_URL
    ? SDS_PROTOBUF.decode("SPIFFECertValidatorConfig", bytes)
    : {};
  return { ...extension, typed_config: { ...fields, "@type": type ?? "" } };
}

function isMessage(value: unknown): value is PlainMessage {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
