/**
 * Whether the runtime's TLS library would take a certificate and key, found out before they are used.
 *
 * @module
 */

import { createSecureContext } from "node:tls";
import { messageOf } from "../base/mod.ts";
import type { TlsMaterial } from "./port.ts";

/** See `Engine.tlsFault`. */
export function tlsFault(
  { certPem, keyPem, rootPems }: Pick<TlsMaterial, "certPem" | "keyPem" | "rootPems">,
): string | undefined {
  try {
    createSecureContext({ cert: certPem, key: keyPem, ca: [...rootPems] });
    return undefined;
  } catch (error) {
    return messageOf(error);
  }
}
