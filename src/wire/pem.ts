/** A bounded reader and a writer of PEM (RFC 7468). Text between blocks is skipped. @module */

import { Buffer } from "node:buffer";
import { ProxyError } from "../base/mod.ts";

export interface PemBlock {
  /** `CERTIFICATE`, `EC PRIVATE KEY`, ... */
  readonly label: string;
  readonly der: Uint8Array;
}

export interface PemOptions {
  /** How errors name the text: `leaf certificate`. */
  readonly what: string;
  /** Characters in all; default 1 MiB. */
  readonly limitChars?: number;
  /** Blocks in all; default 100. */
  readonly limitBlocks?: number;
}

const BEGIN = "-----BEGIN ";
const DASHES = "-----";

/** Every block of `text` in order; throws `credentials_invalid` on a malformed one. */
export function parsePem(text: string, options: PemOptions): PemBlock[] {
  const { what, limitChars = 1 << 20, limitBlocks = 100 } = options;
  if (text.length > limitChars) fail(what, `PEM is longer than ${limitChars} characters`);
  const blocks: PemBlock[] = [];
  let at = 0;
  for (;;) {
    const begin = beginningOfLine(text, at);
    if (begin < 0) return blocks;
    if (blocks.length >= limitBlocks) fail(what, `PEM has more than ${limitBlocks} blocks`);
    const labelAt = begin + BEGIN.length;
    const labelEnd = text.indexOf(DASHES, labelAt);
    const label = labelEnd < 0 ? "" : text.slice(labelAt, Math.min(labelEnd, labelAt + 65));
    if (!/^[A-Z0-9][A-Z0-9 ]{0,63}$/.test(label)) fail(what, "PEM has a broken BEGIN line");
    const bodyAt = labelEnd + DASHES.length;
    const endLine = `-----END ${label}-----`;
    const bodyEnd = text.indexOf(DASHES, bodyAt);
    if (bodyEnd < 0 || !text.startsWith(endLine, bodyEnd)) {
      fail(what, `PEM block "${label}" has no END line`);
    }
    blocks.push({ label, der: decodeBody(text.slice(bodyAt, bodyEnd), { what, label }) });
    at = bodyEnd + endLine.length;
  }
}

/** One block, lines of 64, with a final newline. */
export function formatPem(label: string, der: Uint8Array): string {
  const lines = Buffer.from(der).toString("base64").match(/.{1,64}/g) ?? [];
  return [`-----BEGIN ${label}-----`, ...lines, `-----END ${label}-----`, ""].join("\n");
}

function beginningOfLine(text: string, from: number): number {
  for (let at = text.indexOf(BEGIN, from); at >= 0; at = text.indexOf(BEGIN, at + 1)) {
    if (at === 0 || text[at - 1] === "\n" || text[at - 1] === "\r") return at;
  }
  return -1;
}

function decodeBody(
  body: string,
  options: { readonly what: string; readonly label: string },
): Uint8Array {
  const { what, label } = options;
  // Only encrypted keys have header lines (RFC 1421); this message is clearer than "not base64".
  if (body.includes("ENCRYPTED") || label.startsWith("ENCRYPTED")) {
    fail(what, `PEM block "${label}" is encrypted; give it without a passphrase`);
  }
  const packed = body.replace(/[ \t\r\n]+/g, "");
  const shaped = packed.length % 4 === 0 && /^[A-Za-z0-9+/]*={0,2}$/.test(packed);
  if (!shaped || packed.length === 0) fail(what, `PEM block "${label}" is not base64`);
  return new Uint8Array(Buffer.from(packed, "base64"));
}

function fail(what: string, fact: string): never {
  throw new ProxyError("credentials_invalid", `Cannot read ${what}: ${fact}`);
}
