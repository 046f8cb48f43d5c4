/**
 * Looks for key material in what a proxy has said: any run of a key's base64, in any line length.
 *
 * @module
 */

/** Characters in a row that no other text has by chance. */
const RUN = 32;
const HEADER = /-----BEGIN [A-Z ]*PRIVATE KEY-----/;

/** Every run of {@link RUN} characters of the keys' base64. */
export function keyPieces(keyPems: readonly string[]): ReadonlySet<string> {
  const pieces = new Set<string>();
  for (const pem of keyPems) {
    const body = pem.replace(/-----[^-]+-----/g, "").replace(/\s+/g, "");
    if (body.length < 2 * RUN) throw new Error("this is no key");
    for (let at = 0; at + RUN <= body.length; at++) pieces.add(body.slice(at, at + RUN));
  }
  return pieces;
}

/** What of the keys is in `text`, line breaks and their escapes left out; empty: nothing. */
export function piecesIn(text: string, pieces: ReadonlySet<string>): readonly string[] {
  const found: string[] = [];
  if (HEADER.test(text)) found.push("the header of a private key");
  const bare = text.replace(/\\r|\\n|\s+/g, "");
  for (let at = 0; at + RUN <= bare.length; at++) {
    const piece = bare.slice(at, at + RUN);
    if (pieces.has(piece)) return [...found, piece];
  }
  return found;
}
