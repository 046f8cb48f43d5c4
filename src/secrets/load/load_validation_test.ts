import assert from "node:assert/strict";
import test from "node:test";
import { readFileSync } from "node:fs";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { rootCertificates } from "node:tls";
import { createAuthority } from "../../../test/kit/certs/certificates.ts";
import { ProxyError } from "../../base/mod.ts";
import { NO_RULES, type PeerRules, type Validation } from "../../identity/mod.ts";
import type { DataSource, ValidationSpec } from "../model/secret.ts";
import { filesOf, loadSecret } from "./load_secret.ts";
import { mergeValidation, systemRootsPath } from "./load_validation.ts";

const FIXTURES = fileURLToPath(new URL("../../../test/fixtures/secrets/", import.meta.url));
const text = (name: string) => readFileSync(FIXTURES + name, "latin1");
const file = (name: string): DataSource => ({ kind: "file", path: FIXTURES + name });
const inline = (content: string): DataSource => {
  return { kind: "inline", bytes: new TextEncoder().encode(content) };
};
const ROOT = createAuthority().rootPem;
const OTHER = createAuthority().rootPem;

type Parts = Partial<Omit<ValidationSpec, "rules">> & { readonly rules?: Partial<PeerRules> };

function specOf({ rules, ...parts }: Parts): ValidationSpec {
  return { type: "validation", systemRoots: false, ...parts, rules: { ...NO_RULES, ...rules } };
}

async function load(parts: Parts, env: Record<string, string> = {}): Promise<Validation> {
  const read = async (path: string) => new Uint8Array(await readFile(path));
  const options = { nowMs: Date.now(), tlsFault: () => undefined, env };
  const secret = await loadSecret(specOf(parts), read, options);
  assert.ok(secret.type === "validation");
  return secret.validation;
}

const PIN = "A".repeat(43) + "=";

test("loadSecret() reads a bundle: each certificate once, revocation lists separately", async () => {
  const crl = text("crl.pem");
  const validation = await load({ trustedCa: inline(ROOT + OTHER + ROOT + text("ca.pem") + crl) });
  assert.ok(validation.kind === "ca");
  assert.deepEqual(validation.rootPems, [ROOT, OTHER, text("ca.pem")]);
  assert.deepEqual(validation.rules.crlPems, [crl]);
});

for (const name of ["crl.pem", "crl.der"]) {
  test(`loadSecret() accepts revocation list ${name}`, async () => {
    const validation = await load({ trustedCa: file("ca.pem"), crl: file(name) });
    assert.ok(validation.kind === "ca");
    assert.deepEqual(validation.rules.crlPems, [text("crl.pem")]);
  });
}

test("loadSecret() accepts SPIFFE bundles by domain and as a map", async () => {
  const domains = await load({
    spiffe: {
      kind: "domains",
      domains: [
        { name: "One.example", bundle: inline(ROOT) },
        { name: "name", bundle: inline(OTHER), workloadTrustDomain: "two.example" },
      ],
    },
  });
  assert.ok(domains.kind === "spiffe");
  assert.deepEqual(domains.bundles, { "one.example": [ROOT], "two.example": [OTHER] });
  const x5c = [ROOT.replace(/-----[^-]+-----|\n/g, "")];
  const map = { trust_domains: { "one.example": { keys: [{ use: "x509-svid", x5c }] } } };
  const source = inline(JSON.stringify(map));
  const validation = await load({ spiffe: { kind: "map", source } });
  assert.ok(validation.kind === "spiffe");
  assert.deepEqual(validation.bundles, { "one.example": [ROOT] });
});

test("loadSecret() loads the system's roots", async () => {
  const directory = await mkdtemp(join(tmpdir(), "roots-"));
  const path = join(directory, "ca-certificates.crt");
  try {
    // Mozilla's roots, as systems install them; the engine has a copy.
    await writeFile(path, rootCertificates.join("\n"));
    const env = { SSL_CERT_FILE: path };
    const validation = await load({ systemRoots: true }, env);
    assert.ok(validation.kind === "ca" && validation.rootPems.length > 100);
    assert.deepEqual(filesOf(specOf({ systemRoots: true }), env).map((one) => one.path), [path]);
  } finally {
    await rm(directory, { recursive: true });
  }
});

test("systemRootsPath() uses SSL_CERT_FILE, whether it exists or not", async () => {
  assert.equal(systemRootsPath({ SSL_CERT_FILE: "/none" }), "/none");
  assert.equal(
    systemRootsPath({}, (path) => path.startsWith("/etc/pki/tls")),
    "/etc/pki/tls/certs/ca-bundle.crt",
  );
  assert.equal(systemRootsPath({}, () => false), undefined);
  const validation = await load({ systemRoots: true }, { SSL_CERT_FILE: FIXTURES + "ca.pem" });
  assert.ok(validation.kind === "ca");
  assert.deepEqual(validation.rootPems, [text("ca.pem")]);
});

const TWICE = `{"trust_domains": {"a.b": {"keys": []}, "a.b": {"keys": []}}}`;
for (
  const [name, parts, fault] of [
    [
      "a validation without anchors",
      {},
      /neither a trusted CA nor pins, so anybody would be accepted/,
    ],
    [
      "an empty bundle",
      { trustedCa: inline("# none\n") },
      /trusted CA \(inline\) has no CERTIFICATE block$/,
    ],
    [
      "a bundle that was cut off",
      { trustedCa: inline(ROOT + OTHER.slice(0, 200)) },
      /trusted CA \(inline\): PEM block/,
    ],
    [
      "a bundle with a broken certificate",
      {
        trustedCa: inline(ROOT + "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"),
      },
      /Cannot read certificate 2 of trusted CA \(inline\)/,
    ],
    [
      "a key in a bundle",
      { trustedCa: inline(ROOT + text("plain.key")) },
      /private key, which does not belong here/,
    ],
    [
      "an unreadable list",
      { trustedCa: inline(ROOT), crl: inline(ROOT) },
      /revocation list \(inline\): it has a "CERTIFICATE" block/,
    ],
    [
      "a list without a PEM block",
      { trustedCa: inline(ROOT), crl: inline("x") },
      /no X509 CRL block/,
    ],
    [
      "a damaged list",
      {
        trustedCa: file("ca.pem"),
        crl: { kind: "inline", bytes: Uint8Array.from([0x30, 0x82, 1, 2, 3]) },
      },
      /revocation list \(inline\)/,
    ],
    [
      "a short hash",
      { rules: { certificateHashes: ["abcd"] } },
      /the pin "abcd" is not a SHA-256 in lower-case hex/,
    ],
    ["a short pin", { rules: { spkiPins: ["abcd"] } }, /the pin "abcd" is not a SHA-256 in base64/],
    [
      "names without anchors",
      {
        rules: {
          spkiPins: [PIN],
          matchers: [
            { type: "dns", matcher: { kind: "exact", value: "a", ignoreCase: false } },
          ] as const,
        },
      },
      /no trusted CA/,
    ],
    [
      "bundles beside a trusted CA",
      { trustedCa: inline(ROOT), spiffe: { kind: "map", source: inline("{}") } as const },
      /SPIFFE bundles and a trusted CA/,
    ],
    ["no domains", { spiffe: { kind: "domains", domains: [] } as const }, /names no trust domain/],
    [
      "a domain named twice",
      {
        spiffe: {
          kind: "domains",
          domains: [{ name: "a.b", bundle: inline(ROOT) }, { name: "A.b", bundle: inline(OTHER) }],
        } as const,
      },
      /a\.b is named twice/,
    ],
    [
      "a map with a domain twice",
      { spiffe: { kind: "map", source: inline(TWICE) } as const },
      /SPIFFE bundles \(inline\): .*"a\.b" is written twice/,
    ],
  ] as const
) {
  test(`loadSecret() refuses ${name}`, async () => {
    await assert.rejects(load(parts), (error) => {
      assert.ok(error instanceof ProxyError);
      assert.equal(error.code, "credentials_invalid");
      assert.match(error.message, fault);
      return true;
    });
  });
}

test("loadSecret() checks anchors with the TLS library", async () => {
  const asked: unknown[] = [];
  const options = {
    nowMs: Date.now(),
    tlsFault: (material: unknown) => (asked.push(material), "no such name"),
  };
  const read = async (path: string) => new Uint8Array(await readFile(path));
  for (
    const parts of [
      { trustedCa: inline(ROOT) },
      { spiffe: { kind: "domains", domains: [{ name: "a", bundle: inline(ROOT) }] } },
    ] as const
  ) {
    await assert.rejects(
      loadSecret(specOf(parts), read, options),
      /the TLS library does not take the validation.*: no such name$/,
    );
  }
  const wanted = { certPem: "", keyPem: "", rootPems: [ROOT] };
  assert.deepEqual(asked, [wanted, wanted]);
});

test("loadSecret() skips system roots that the TLS library refuses", async () => {
  const directory = await mkdtemp(join(tmpdir(), "roots-"));
  const path = join(directory, "roots.pem");
  try {
    await writeFile(path, ROOT + OTHER);
    const read = async (path: string) => new Uint8Array(await readFile(path));
    const options = {
      nowMs: Date.now(),
      env: { SSL_CERT_FILE: path },
      tlsFault: ({ rootPems }: { readonly rootPems: readonly string[] }) =>
        rootPems.includes(OTHER) ? "no such name" : undefined,
    };
    const secret = await loadSecret(specOf({ systemRoots: true }), read, options);
    assert.ok(secret.type === "validation" && secret.validation.kind === "ca");
    assert.deepEqual(secret.validation.rootPems, [ROOT]);
  } finally {
    await rm(directory, { recursive: true });
  }
});

test("loadSecret() accepts a validation without anchors if it accepts untrusted peers", async () => {
  const validation = await load({ rules: { acceptUntrusted: true } });
  assert.ok(validation.kind === "ca" && validation.rules.acceptUntrusted);
});

test("mergeValidation() merges as Envoy's combined context", () => {
  const merged = mergeValidation(
    specOf({
      trustedCa: inline("a"),
      crl: inline("b"),
      rules: { spkiPins: ["1"], maxDepth: 3, onlyLeafCrl: true },
    }),
    specOf({
      trustedCa: inline("c"),
      systemRoots: true,
      rules: { spkiPins: ["2"], allowExpired: true },
    }),
  );
  assert.deepEqual(
    merged,
    specOf({
      trustedCa: inline("c"),
      crl: inline("b"),
      systemRoots: true,
      rules: { spkiPins: ["1", "2"], maxDepth: 3, onlyLeafCrl: true, allowExpired: true },
    }),
  );
});
