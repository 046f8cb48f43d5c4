/**
 * What the opening of a WebSocket has over HTTP/1.1 only: a key, and the proof that it was read by somebody
 * who knows the protocol (RFC 6455 4). Over HTTP/2 there is neither (RFC 8441 5), so that where a request
 * comes by one and goes by the other the codec has to supply them.
 *
 * @module
 */

import { createHash, randomBytes } from "node:crypto";
import { fieldOf, type Fields } from "../head.ts";

const PROOF_OF = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
export const KEY = "sec-websocket-key";
export const PROOF = "sec-websocket-accept";

/** A key for a request that has none; `""`: it has one, or is for another protocol. */
export function missingKey(upgrade: string, fields: Fields): string {
  if (upgrade !== "websocket" || fieldOf(fields, KEY) !== undefined) return "";
  return randomBytes(16).toString("base64");
}

export function proofOf(key: string): string {
  return createHash("sha1").update(key + PROOF_OF).digest("base64");
}
