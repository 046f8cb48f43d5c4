import assert from "node:assert/strict";
import test from "node:test";
import { Buffer } from "node:buffer";
import { createPrivateKey, createPublicKey, X509Certificate } from "node:crypto";
import { readFileSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { createAuthority } from "../../../test/kit/certs/certificates.ts";
import { newPair } from "../../../test/kit/secrets/secret_files.ts";
import { ProxyError } from "../../base/mod.ts";
import type { CertificateSecret, CertificateSpec, DataSource } from "../model/secret.ts";
import { type LoadOptions, loadSecret } from "./load_secret.ts";

const FIXTURES = fileURLToPath(new URL("../../../test/fixtures/secrets/", import.meta.url));
const OPTIONS: LoadOptions = { nowMs: Date.now(), tlsFault: () => undefined };
const text = (name: string) => readFileSync(FIXTURES + name, "latin1");

/** Encrypted keys of `web.pem`. */
const ENCRYPTED_KEYS = [
  "pbes2.key",
  "pbes2_sha1.key",
  "pbes2_3des.key",
  "scrypt.key",
  "dek_aes.key",
  "dek_3des.key",
];

const file = (name: string): DataSource => ({ kind: "file", path: FIXTURES + name });
const inline = (content: string): DataSource => {
  return { kind: "inline", bytes: new TextEncoder().encode(content) };
};

async function load(
  spec: Omit<CertificateSpec, "type">,
  options: Partial<LoadOptions> = {},
): Promise<CertificateSecret> {
  const read = async (path: string) => new Uint8Array(await readFile(path));
  const secret = await loadSecret({ type: "certificate", ...spec }, read, {
    ...OPTIONS,
    ...options,
  });
  assert.equal(secret.type, "certificate");
  return secret as CertificateSecret;
}

/** The fault of `spec`; fails where there is none, or where the message shows a secret. */
async function faultOf(
  spec: Omit<CertificateSpec, "type">,
  options: Partial<LoadOptions> = {},
): Promise<string> {
  try {
    await load(spec, options);
  } catch (error) {
    assert.ok(error instanceof ProxyError, String(error));
    assert.equal(error.code, "credentials_invalid");
    assert.doesNotMatch(error.message, /BEGIN|secret\b/);
    return error.message;
  }
  assert.fail("it was accepted");
}

function assertIsPair(secret: CertificateSecret): void {
  const [leafPem = ""] = secret.certPem.split(/(?<=-----END CERTIFICATE-----\n)/);
  const leaf = new X509Certificate(leafPem);
  const own = createPublicKey(createPrivateKey(secret.keyPem));
  assert.deepEqual(
    own.export({ type: "spki", format: "der" }),
    leaf.publicKey.export({ type: "spki", format: "der" }),
  );
  assert.match(secret.keyPem, /^-----BEGIN PRIVATE KEY-----/);
}

for (
  const [chain, key, encrypted] of [
    ["web.pem", "plain.key", false],
    ["web.pem", "sec1.key", false],
    ["rsa.pem", "rsa_pkcs1.key", false],
    ...ENCRYPTED_KEYS.map((key) => ["web.pem", key, true] as const),
  ] as const
) {
  test(`loadSecret() accepts ${chain} with ${key}`, async () => {
    const password = encrypted ? { password: inline("secret\r\n") } : {};
    const secret = await load({ chain: file(chain), key: file(key), ...password });
    assertIsPair(secret);
    assert.equal(secret.keyKind, chain === "web.pem" ? "ecdsa" : "rsa");
    const names = chain === "web.pem"
      ? ["web.example.com", "*.web.example.com"]
      : ["rsa.example.com"];
    assert.deepEqual(secret.dnsNames, names);
  });
}

for (const key of ENCRYPTED_KEYS) {
  test(`loadSecret() refuses ${key} with another password, and with none`, async () => {
    const pair = { chain: file("web.pem"), key: file(key) };
    // One wrong password of 256 decrypts to valid padding and fails later; this one does not.
    assert.match(
      await faultOf({ ...pair, password: inline("Secret") }),
      /^Cannot read private key in .*: the password does not fit$/,
    );
    assert.match(await faultOf(pair), /it is encrypted and there is no password/);
  });
}

for (
  const name of ["aes.p12", "sha1_3des.p12", "mac_sha512.p12", "java.p12", "empty_password.p12"]
) {
  test(`loadSecret() accepts PKCS#12 ${name}`, async () => {
    const password = name.startsWith("empty") ? {} : { password: inline("secret\n") };
    const secret = await load({ pkcs12: file(name), ...password });
    assertIsPair(secret);
    assert.equal(secret.dnsNames[0], "web.example.com");
    assert.equal(secret.certPem, text("web.pem") + text("ca.pem"));
    const wrong = { pkcs12: file(name), password: inline("wrong") };
    assert.match(await faultOf(wrong), /the password does not fit, or the file is damaged/);
  });
}

for (
  const [name, fault] of [
    ["rc2.p12", /rc2\.p12: it is encrypted with RC2.*openssl pkcs12 -legacy/],
    ["no_mac.p12", /no_mac\.p12: it has no MAC.*openssl pkcs12/],
    ["no_key.p12", /no_key\.p12: it has no private key/],
    ["costly.p12", /costly\.p12: it asks for 200000 rounds, more than 100000/],
    ["web.pem", /web\.pem: PKCS#12 file has an unexpected type/],
  ] as const
) {
  test(`loadSecret() refuses PKCS#12 ${name}`, async () => {
    assert.match(await faultOf({ pkcs12: file(name), password: inline("secret") }), fault);
  });
}

test("loadSecret() refuses PKCS#12 with any byte changed", async () => {
  const sound = readFileSync(FIXTURES + "aes.p12");
  const password = inline("secret");
  for (let at = 40; at < sound.length - 120; at += 97) {
    const bytes = new Uint8Array(sound);
    bytes[at] = (bytes[at] ?? 0) ^ 1;
    await faultOf({ pkcs12: { kind: "inline", bytes }, password });
  }
});

test("loadSecret() orders a chain, and reads chain and key from one file", async () => {
  const both = inline(text("ca.pem") + text("pbes2.key") + "Bag Attributes\n" + text("web.pem"));
  const secret = await load({ chain: both, key: both, password: inline("secret") });
  assert.equal(secret.certPem, text("web.pem") + text("ca.pem"));
});

test("loadSecret() reads a byte order mark, and line ends of Windows and old Macs", async () => {
  const { certPem, keyPem } = newPair();
  for (const end of ["\r\n", "\r"]) {
    const written = (pem: string) => inline("\ufeff" + pem.replaceAll("\n", end));
    assertIsPair(await load({ chain: written(certPem), key: written(keyPem) }));
  }
  const utf16 = {
    kind: "inline",
    bytes: new Uint8Array(Buffer.from("\ufeff" + keyPem, "utf16le")),
  };
  assert.match(
    await faultOf({ chain: inline(certPem), key: utf16 as DataSource }),
    /private key \(inline\): it is UTF-16/,
  );
});

test("loadSecret() reads the given environment", async () => {
  const { certPem, keyPem } = newPair();
  const spec = { chain: inline(certPem), key: { kind: "environment", variable: "KEY" } } as const;
  assertIsPair(await load(spec, { env: { KEY: keyPem } }));
  assert.match(await faultOf(spec), /environment variable KEY: there is no such variable/);
});

function derOf(pem: string): DataSource {
  return { kind: "inline", bytes: Buffer.from(pem.replace(/-----[^-]*-----/g, ""), "base64") };
}

const PAIR = newPair();
const AUTHORITY = createAuthority();
const EXPIRED = AUTHORITY.issueLeaf({
  service: "web",
  overrides: { notAfterMs: OPTIONS.nowMs - 1_000 },
});
const WEAK = AUTHORITY.issueLeaf({ service: "web", overrides: { keyUsage: ["keyCertSign"] } });

for (
  const [name, spec, fault] of [
    ["no chain", { key: inline(PAIR.keyPem) }, /there is no certificate chain/],
    ["no key", { chain: inline(PAIR.certPem) }, /there is no private key/],
    [
      "the key of another certificate",
      { chain: inline(PAIR.certPem), key: inline(newPair().keyPem) },
      /Cannot use certificate chain \(inline\) with private key \(inline\): the private key does not/,
    ],
    [
      "chain and key swapped",
      { chain: inline(PAIR.keyPem), key: inline(PAIR.certPem) },
      /private key \(inline\): it has no PRIVATE KEY block in PEM, only CERTIFICATE$/,
    ],
    [
      "a key for a chain",
      { chain: inline(PAIR.keyPem), key: inline(PAIR.keyPem) },
      /certificate chain \(inline\): it has no CERTIFICATE block in PEM, only EC PRIVATE KEY$/,
    ],
    [
      "DER for a chain",
      { chain: derOf(PAIR.certPem), key: inline(PAIR.keyPem) },
      /chain \(inline\): it has no CERTIFICATE block in PEM: it is binary, DER or PKCS#12; make it PEM/,
    ],
    [
      "DER for a key",
      { chain: inline(PAIR.certPem), key: derOf(PAIR.keyPem) },
      /key \(inline\): it has no PRIVATE KEY block in PEM: it is binary/,
    ],
    [
      "text for a chain",
      { chain: inline("0: no certificate"), key: inline(PAIR.keyPem) },
      /certificate chain \(inline\): it has no CERTIFICATE block in PEM$/,
    ],
    [
      "two keys",
      { chain: inline(PAIR.certPem), key: inline(PAIR.keyPem + PAIR.keyPem) },
      /more than one PRIVATE KEY/,
    ],
    [
      "a key that was cut off",
      { chain: inline(PAIR.certPem), key: inline(PAIR.keyPem.slice(0, 120)) },
      /has no END line/,
    ],
    [
      "a chain that was cut off",
      { chain: inline(PAIR.certPem.slice(0, -40)), key: inline(PAIR.keyPem) },
      /certificate chain \(inline\): PEM block/,
    ],
    [
      "an intermediate that was cut off",
      { chain: inline(PAIR.certPem + text("ca.pem").slice(0, 100)), key: inline(PAIR.keyPem) },
      /certificate chain \(inline\): PEM block/,
    ],
    ["an empty file", { chain: inline(""), key: inline(PAIR.keyPem) }, /it is empty/],
    [
      "an expired leaf",
      { chain: inline(EXPIRED.certPem), key: inline(EXPIRED.keyPem) },
      /with private key \(inline\): it expired at/,
    ],
    [
      "a leaf for other uses",
      { chain: inline(WEAK.certPem), key: inline(WEAK.keyPem) },
      /key usage/,
    ],
    [
      "an OpenSSH key",
      {
        chain: inline(PAIR.certPem),
        key: inline(
          "-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n-----END OPENSSH PRIVATE KEY-----\n",
        ),
      },
      /"OPENSSH PRIVATE KEY" is not supported/,
    ],
    [
      "a staple",
      { chain: inline(PAIR.certPem), key: inline(PAIR.keyPem), ocspStaple: inline("x") },
      /OCSP staple was given, and one cannot be served/,
    ],
    [
      "PKCS#12 beside a chain",
      { chain: inline(PAIR.certPem), pkcs12: file("aes.p12") },
      /PKCS#12 was given with a chain or a key/,
    ],
    [
      "costly encryption",
      { chain: file("web.pem"), key: file("costly.key"), password: inline("secret") },
      /costly\.key: it asks for 3000000 iterations/,
    ],
    [
      "more than a mebibyte",
      { chain: inline("x".repeat((1 << 20) + 1)), key: inline(PAIR.keyPem) },
      /more than 1048576 bytes/,
    ],
  ] as const
) {
  test(`loadSecret() refuses ${name}`, async () => {
    assert.match(await faultOf(spec), fault);
  });
}

test("loadSecret() checks with the TLS library last", async () => {
  const spec = { chain: inline(PAIR.certPem), key: inline(PAIR.keyPem) };
  assert.match(await faultOf(spec, { tlsFault: () => "no such curve" }), /no such curve/);
});
