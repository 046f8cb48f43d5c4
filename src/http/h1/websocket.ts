/**
 * The parts of a WebSocket opening that exist in HTTP/1.1 only: a key, and the proof that a WebSocket
 * server has read it (RFC 6455 4). HTTP/2 has neither (RFC 8441 5), so that the codec adds them when a
 * request comes by one version and leaves by the other.
 *
 * @module
 */

import { createHash, randomBytes } from "node:crypto";
import { fieldOf, type Fields } from "../head.ts";

const PROOF_OF = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
export const KEY = "sec-websocket-key";
export const PROOF = "sec-websocket-accept";

/** A new key for a request without one; `""`: it has one, or is for another protocol. */
export function missingKey(upgrade: string, fields: Fields): string {
  if (upgrade !== "websocket" || fieldOf(fields, KEY) !== undefined) return "";
  return randomBytes(16).toString("base64");
}

export function proofOf(key: string): string {
  return createHash("sha1").update(key + PROOF_OF).digest("base64");
}
