import assert from "node:assert/strict";
import test from "node:test";
import { createCipheriv, createHmac, pbkdf2Sync } from "node:crypto";
import { derElement, derNumber, derOctets, derOid, derSequence } from "../../wire/der_writer.ts";
import { DerReader } from "../../wire/mod.ts";
import { type Sealed, unseal } from "./private_key.ts";
import { bmpOf, derive, readPkcs12 } from "./pkcs12.ts";

const DATA = derOid("1.2.840.113549.1.7.1");
const ENCRYPTED_DATA = derOid("1.2.840.113549.1.7.6");
const SALT = new Uint8Array(8).fill(7);
const PASSWORD = "secret";
/** SafeContents without bags, which cost nothing. */
const NO_BAGS = derSequence();

function derived(purpose: 1 | 2 | 3, parts: { hash: string; rounds: number; bytes: number }) {
  const { hash, rounds, bytes } = parts;
  return derive({
    purpose,
    rounds,
    bytes,
    salt: SALT,
    password: bmpOf(PASSWORD),
    what: "test",
    hash: { name: hash, blockBytes: 64 },
    effort: { left: Infinity },
  });
}

/** SafeContents in the encryption of OpenSSL 1. */
function older(rounds: number): Uint8Array {
  const key = derived(1, { hash: "sha1", rounds, bytes: 24 });
  const iv = derived(2, { hash: "sha1", rounds, bytes: 8 });
  const cipher = createCipheriv("des-ede3-cbc", key, iv);
  return content(
    derSequence(
      derOid("1.2.840.113549.1.12.1.3"),
      derSequence(derOctets(SALT), derNumber(rounds)),
    ),
    Buffer.concat([cipher.update(NO_BAGS), cipher.final()]),
  );
}

function content(algorithm: Uint8Array, sealed: Uint8Array): Uint8Array {
  return derSequence(
    ENCRYPTED_DATA,
    derElement(
      0xa0,
      derSequence(derNumber(0), derSequence(DATA, algorithm, derElement(0x80, sealed))),
    ),
  );
}

function fileOf(contents: readonly Uint8Array[]): Uint8Array {
  const safe = derSequence(...contents);
  const key = derived(3, { hash: "sha256", rounds: 1, bytes: 32 });
  const mac = createHmac("sha256", key).update(safe).digest();
  const sha256 = derSequence(derOid("2.16.840.1.101.3.4.2.1"));
  return derSequence(
    derNumber(3),
    derSequence(DATA, derElement(0xa0, derOctets(safe))),
    derSequence(derSequence(sha256, derOctets(mac)), derOctets(SALT), derNumber(1)),
  );
}

// The writer of a file may know its password (a server sends both), so a valid MAC is no reason for trust.
for (
  const [name, contents, fault] of [
    ["one content without a key", [older(1)], /it has no private key/],
    ["ten contents", new Array<Uint8Array>(10).fill(older(1)), /it has no private key/],
    [
      "a thousand contents",
      new Array<Uint8Array>(1_000).fill(older(1)),
      /it has more than 10 contents/,
    ],
    [
      "contents that are costly together",
      new Array<Uint8Array>(10).fill(older(50_000)),
      /its parts ask for too many rounds together/,
    ],
  ] as const
) {
  test(`readPkcs12() refuses ${name}`, async () => {
    const password = new TextEncoder().encode(PASSWORD);
    await assert.rejects(readPkcs12(fileOf(contents), { what: "web.p12", password }), fault);
  });
}

function pbes2(iterations: number): Sealed {
  const iv = new Uint8Array(16);
  const key = pbkdf2Sync(PASSWORD, SALT, iterations, 32, "sha1");
  const cipher = createCipheriv("aes-256-cbc", key, iv);
  const algorithm = derSequence(
    derOid("1.2.840.113549.1.5.13"),
    derSequence(
      derSequence(
        derOid("1.2.840.113549.1.5.12"),
        derSequence(derOctets(SALT), derNumber(iterations)),
      ),
      derSequence(derOid("2.16.840.1.101.3.4.1.42"), derOctets(iv)),
    ),
  );
  return {
    algorithm: new DerReader(algorithm).read(0x30, "algorithm"),
    bytes: Buffer.concat([cipher.update(NO_BAGS), cipher.final()]),
  };
}

test("unseal() counts the iterations of all parts of a file", async () => {
  const options = {
    password: new TextEncoder().encode(PASSWORD),
    what: "web.p12",
    effort: { left: 2_500 },
  };
  assert.deepEqual(await unseal(pbes2(1_000), options), NO_BAGS);
  assert.deepEqual(await unseal(pbes2(1_000), options), NO_BAGS);
  await assert.rejects(unseal(pbes2(1_000), options), /too many iterations together/);
});
