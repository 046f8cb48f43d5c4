import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import test from "node:test";
import { createAuthority } from "../../test/kit/certs/certificates.ts";
import { withTrailing } from "../../test/kit/certs/der_trailing.ts";
import { ProxyError } from "../base/mod.ts";
import { contextTag, DerReader, formatPem, TAG } from "../wire/mod.ts";
import {
  derBits,
  derElement,
  derNumber,
  derOctets,
  derSequence,
  derText,
  derTime,
} from "../wire/der_writer.ts";
import { parseCertificate } from "./certificate.ts";
import { CRL_LIMIT_BYTES, parseCrl, parseCrls, revokes } from "./crl.ts";
import { type CrlOptions, mintCrl, mintCrlPem } from "../../test/kit/certs/mint_crl.ts";
import type { ExtraExtension } from "../../test/kit/certs/mint_parts.ts";
import { isSignedBy } from "./signature.ts";

const NOW_MS = Date.UTC(2026, 10, 21, 12);
const CA = createAuthority({ nowMs: NOW_MS, name: "root" });

function list(options: Partial<CrlOptions> = {}): Uint8Array {
  return mintCrl({ signer: CA.key.privateKey, issuer: "root", thisUpdateMs: NOW_MS, ...options });
}

function extension(oid: string, value: Uint8Array, critical = true): ExtraExtension {
  return { oid, critical, value };
}

const idp = (...fields: Uint8Array[]) => extension("2.5.29.28", derSequence(...fields));
const flag = (number: number) => derElement(contextTag(number, "primitive"), Uint8Array.of(0xff));
const ENUMERATED = 0x0a;

test("parseCrl() reads a list", () => {
  const crl = parseCrl(list({
    nextUpdateMs: NOW_MS + 1000,
    revoked: ["0e", "ff:00", {
      serial: "01",
      extensions: [
        extension("2.5.29.21", derElement(ENUMERATED, Uint8Array.of(1)), false),
        extension("2.5.29.24", derText(0x18, "20261121120000Z"), false),
      ],
    }],
    extensions: [
      extension("2.5.29.20", derNumber(7), false),
      extension("2.5.29.35", derSequence(), false),
      extension("1.2.3", Uint8Array.of(5, 0), false),
    ],
  }));
  assert.equal(crl.thisUpdateMs, NOW_MS);
  assert.equal(crl.nextUpdateMs, NOW_MS + 1000);
  assert.equal(crl.scope, "all");
  assert.equal(crl.serials.size, 3);
  for (const serial of ["0e", "ff:00", "01"]) assert.ok(revokes(crl, { serial }), serial);
  for (const serial of ["0f", "00", "ff", "0e:00", "00:0e"]) {
    assert.ok(!revokes(crl, { serial }), serial);
  }
  assert.ok(isSignedBy(crl, parseCertificate(CA.rootDer)));
});

test("parseCrl() reads a list of version 1 without entries", () => {
  const crl = parseCrl(list({ version: 1 }));
  assert.equal(crl.nextUpdateMs, Infinity);
  assert.equal(crl.serials.size, 0);
});

for (const [number, scope] of [[1, "leaves"], [2, "cas"]] as const) {
  test(`parseCrl() reads a list of ${scope}`, () => {
    assert.equal(parseCrl(list({ extensions: [idp(flag(number))] })).scope, scope);
  });
}

test("parseCrl() reads 50,000 entries", () => {
  const revoked = Array.from(
    { length: 50_000 },
    (_, index) => (index + 65536).toString(16).padStart(6, "0"),
  );
  const crl = parseCrl(list({ revoked }));
  assert.equal(crl.serials.size, 50_000);
  assert.ok(revokes(crl, { serial: "01:00:00" }));
});

const entry = (...extensions: ExtraExtension[]) =>
  list({ revoked: [{ serial: "01", extensions }] });
const SOUND = list({ revoked: ["01"] });

/** A list whose last date, that of its entry, has another type. */
function undated(): Uint8Array {
  const der = Uint8Array.from(SOUND);
  const date = derTime(NOW_MS);
  der[Buffer.from(der).lastIndexOf(date)] = TAG.octetString;
  return der;
}

for (
  const [name, der, reason] of [
    ["nothing", new Uint8Array(), /list is missing/],
    ["a certificate", CA.rootDer, /Cannot use revocation list 1: /],
    ["a list cut short", SOUND.subarray(0, SOUND.length - 1), /cut short/],
    ["trailing bytes", Uint8Array.from([...SOUND, 0]), /trailing bytes/],
    ["an entry without a date", undated(), /an entry has no revocation date/],
    ["too many bytes", new Uint8Array(CRL_LIMIT_BYTES + 1), /more than 4194304/],
    [
      "version 1 with extensions",
      list({
        version: 1,
        extensions: [extension("2.5.29.20", derNumber(1), false)],
      }),
      /without being version 2/,
    ],
    ["a delta", list({ extensions: [extension("2.5.29.27", derNumber(1))] }), /is a delta/],
    [
      "an entry that removes another",
      entry(
        extension("2.5.29.21", derElement(ENUMERATED, Uint8Array.of(8)), false),
      ),
      /is a delta/,
    ],
    [
      "a reason with trailing bytes",
      entry(extension("2.5.29.21", Uint8Array.of(ENUMERATED, 1, 1, 5, 0), false)),
      /reason has trailing bytes/,
    ],
    ["an indirect list", list({ extensions: [idp(flag(4))] }), /is indirect/],
    [
      "an entry of another issuer",
      entry(
        extension("2.5.29.29", derSequence()),
      ),
      /is indirect/,
    ],
    [
      "a list for some reasons",
      list({
        extensions: [idp(derElement(contextTag(3, "primitive"), Uint8Array.of(6, 0x40)))],
      }),
      /some reasons/,
    ],
    [
      "a list of attribute certificates",
      list({ extensions: [idp(flag(5))] }),
      /not about certificates/,
    ],
    [
      "a list with two exclusive scopes",
      list({ extensions: [idp(flag(1), flag(2))] }),
      /not about/,
    ],
    [
      "a list of a distribution point",
      list({
        extensions: [idp(derElement(contextTag(0, "constructed"), derSequence()))],
      }),
      /one distribution point/,
    ],
    [
      "an unknown critical extension",
      list({
        extensions: [extension("1.2.3", derOctets(Uint8Array.of()))],
      }),
      /critical extension that is not understood \(1\.2\.3\)/,
    ],
    [
      "an unknown critical extension of an entry",
      entry(
        extension("1.2.3", derOctets(Uint8Array.of())),
      ),
      /an entry has a critical extension/,
    ],
    [
      "an extension twice",
      list({
        extensions: [
          extension("2.5.29.20", derNumber(1), false),
          extension("2.5.29.20", derNumber(1), false),
        ],
      }),
      /appears twice/,
    ],
  ] as const
) {
  test(`parseCrl() refuses ${name}`, () => {
    assert.throws(() => parseCrl(der), (error) => {
      assert.ok(error instanceof ProxyError);
      assert.equal(error.code, "credentials_invalid");
      assert.match(error.message, /^Cannot use revocation list 1: /);
      assert.match(error.message, reason);
      return true;
    });
  });
}

/** A list of the given size; its signature is invalid. */
function sizedList(bytes: number): Uint8Array {
  const outer = new DerReader(SOUND).enter(TAG.sequence, "list");
  const rest = [outer.any("signed part").raw, outer.any("algorithm").raw];
  const sized = (size: number) => derSequence(...rest, derBits(new Uint8Array(size)));
  return sized(2 * bytes - sized(bytes).length);
}

/** PEM without line breaks: breaking the lines of the largest list takes a second. */
function pemOf(der: Uint8Array): string {
  const body = Buffer.from(der).toString("base64");
  return `-----BEGIN X509 CRL-----\n${body}\n-----END X509 CRL-----\n`;
}

test("parseCrl() refuses trailing bytes everywhere except in the name and the signature", () => {
  const whole = list({
    nextUpdateMs: NOW_MS + 1000,
    revoked: [{
      serial: "01",
      extensions: [extension("2.5.29.21", derElement(ENUMERATED, Uint8Array.of(1)), false)],
    }],
    extensions: [idp(flag(1))],
  });
  const taken = withTrailing(whole).filter(({ der }) => {
    try {
      return parseCrl(der).scope === "leaves";
    } catch (error) {
      assert.ok(error instanceof ProxyError && error.code === "credentials_invalid");
      return false;
    }
  });
  assert.deepEqual(taken.map(({ path }) => path), ["0.2", "0.2.0", "0.2.0.0", "2", "2.0"]);
});

test("parseCrls() reads several texts with several lists, and names the broken one", () => {
  const pem = mintCrlPem({ signer: CA.key.privateKey, thisUpdateMs: NOW_MS });
  assert.equal(parseCrls([pem + pem, pem]).length, 3);
  assert.equal(parseCrls([]).length, 0);
  const broken = formatPem("X509 CRL", Uint8Array.of(0x30, 0));
  assert.throws(() => parseCrls([pem + pem, broken]), /Cannot use revocation list 3: /);
  assert.throws(() => parseCrls([CA.rootPem]), /no X509 CRL block/);
  const hundred = Array.from({ length: 100 }, () => pem);
  assert.equal(parseCrls(hundred).length, 100);
  assert.throws(() => parseCrls([...hundred, pem]), /more than 100/);
  const largest = pemOf(sizedList(CRL_LIMIT_BYTES));
  assert.equal(parseCrls([largest, largest, largest, largest]).length, 4);
  assert.throws(
    () => parseCrls([largest, largest, largest, largest, pem]),
    /16777216 bytes together/,
  );
});

test("mintCrl() accepts a serial without its leading zero", () => {
  const crl = parseCrl(list({ revoked: ["e01"] }));
  assert.ok(revokes(crl, { serial: "0e:01" }));
});
