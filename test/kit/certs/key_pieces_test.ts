import assert from "node:assert/strict";
import { createPrivateKey } from "node:crypto";
import { test } from "node:test";
import { createAuthority } from "./certificates.ts";
import { keyPieces, piecesIn } from "./key_pieces.ts";

const CA = createAuthority();
/** Where in a P-256 key's base64 the first character is of its private number alone. */
const PRIVATE_FROM = { sec1: 10, pkcs8: 48 } as const;
/** Its 32 bytes are so many characters, without those that hold bits of the bytes around it. */
const PRIVATE_LENGTH = 42;

for (const type of ["sec1", "pkcs8"] as const) {
  for (const run of [16, 32]) {
    const leafWith = (serial: Uint8Array) => {
      const { certPem, keyPem } = CA.issueLeaf({ service: "web", overrides: { serial } });
      return { certPem, keyPem: `${createPrivateKey(keyPem).export({ type, format: "pem" })}` };
    };

    // A serial's length moves all that follows it, and base64 depends on the place modulo 3.
    for (const length of [14, 15, 16]) {
      test(`a certificate holds no piece of its key (${type}, runs of ${run}, serial of ${length})`, () => {
        const { certPem, keyPem } = leafWith(new Uint8Array(length).fill(7));
        const pieces = keyPieces([keyPem], run);
        assert.deepEqual(piecesIn(JSON.stringify({ certPem }), pieces), []);
        assert.equal(piecesIn(JSON.stringify({ certPem, keyPem }), pieces).length, 2);
      });
    }

    test(`any run of the private number is a piece (${type}, runs of ${run})`, () => {
      const { keyPem } = leafWith(Uint8Array.of(1));
      const pieces = keyPieces([keyPem], run);
      const body = keyPem.replace(/-----[^-]+-----|\s/g, "");
      const number = body.slice(PRIVATE_FROM[type]).slice(0, PRIVATE_LENGTH);
      for (let at = 0; at + run <= number.length; at++) {
        const piece = number.slice(at, at + run);
        assert.deepEqual(piecesIn(`key=${piece};`, pieces), [piece]);
      }
    });
  }
}
