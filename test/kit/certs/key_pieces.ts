/**
 * Looks for key material in the output of a proxy: any run of a key's base64, in any line length.
 *
 * @module
 */

import { createPublicKey } from "node:crypto";

/** Characters in a row that no other text has by chance. */
const RUN = 32;
const HEADER = /-----BEGIN [A-Z ]*PRIVATE KEY-----/;

/** Every run of `run` characters of the keys' base64 that is not in their certificates, too. */
export function keyPieces(keyPems: readonly string[], run: number = RUN): ReadonlySet<string> {
  const pieces = new Set<string>();
  for (const pem of keyPems) {
    const body = pem.replace(/-----[^-]+-----/g, "").replace(/\s+/g, "");
    if (body.length < 2 * run) throw new Error("this is no key");
    const open = new Set(publicTexts(pem).flatMap((text) => runsOf(text, run)));
    for (const piece of runsOf(body, run)) if (!open.has(piece)) pieces.add(piece);
  }
  return pieces;
}

/**
 * The pieces of the keys that are in `text`, line breaks and their escapes left out; empty: none.
 */
export function piecesIn(text: string, pieces: ReadonlySet<string>): readonly string[] {
  const found: string[] = [];
  if (HEADER.test(text)) found.push("the header of a private key");
  const [{ length: run } = ""] = pieces;
  const bare = text.replace(/\\r|\\n|\s+/g, "");
  const piece = runsOf(bare, run).find((candidate) => pieces.has(candidate));
  return piece === undefined ? found : [...found, piece];
}

/**
 * The public half of a key, which the file of most keys holds and every certificate shows. Its base64
 * there depends on how many bytes are before it, modulo 3: a serial that is a byte shorter moves it.
 */
function publicTexts(keyPem: string): string[] {
  const der = createPublicKey(keyPem).export({ type: "spki", format: "der" });
  return [0, 1, 2].map((before) =>
    Buffer.concat([new Uint8Array(before), der]).toString("base64").slice(before && 4)
  );
}

function runsOf(text: string, run: number): string[] {
  return Array.from(
    { length: Math.max(text.length - run + 1, 0) },
    (_, at) => text.slice(at, at + run),
  );
}
