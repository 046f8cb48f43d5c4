import assert from "node:assert/strict";
import test from "node:test";
import { ProxyError } from "../../base/mod.ts";
import { NO_RULES } from "../../identity/mod.ts";
import { parseSecret } from "./envoy_secret.ts";

const bytes = (text: string) => new TextEncoder().encode(text);
const inline = (text: string) => ({ kind: "inline", bytes: bytes(text) });
const file = (path: string) => ({ kind: "file", path });
const HASH = "df6ff72fe9116521268f6f2dd4966f51df479883fe7037b39f75916ac3049d1a";
const PIN = "NvqYIYSbgK2vCJpQhObf77vv+bQWtc5ek5RIOwPiC9A=";
const validation = (rest: object, rules: object = {}) => ({
  type: "validation",
  systemRoots: false,
  ...rest,
  rules: { ...NO_RULES, ...rules },
});
const SPIFFE_TYPE =
  "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.SPIFFECertValidatorConfig";
const spiffe = (config: object, type = SPIFFE_TYPE) => ({
  validation_context: {
    custom_validator_config: {
      name: "envoy.tls.cert_validator.spiffe",
      typed_config: { "@type": type, ...config },
    },
  },
});

const ACCEPTED: readonly [name: string, value: unknown, name: string, spec: unknown][] = [
  [
    "reads a certificate from files",
    {
      name: "server_cert",
      tls_certificate: {
        certificate_chain: { filename: "/certs/sds_cert.pem" },
        private_key: { filename: "/certs/sds_key.pem" },
        watched_directory: { path: "/certs" },
      },
    },
    "server_cert",
    {
      type: "certificate",
      chain: file("/certs/sds_cert.pem"),
      key: file("/certs/sds_key.pem"),
      watchedDirectory: { path: "/certs", watchModify: false },
    },
  ],
  [
    "reads lowerCamelCase, base64, and null as absent",
    {
      tlsCertificate: {
        certificateChain: { inlineBytes: "Y2hhaW4=", inlineString: null },
        privateKey: { inlineString: "key\n" },
        password: { environmentVariable: "KEY_PASSWORD" },
        ocspStaple: { inlineBytes: "-_8" },
        privateKeyProvider: null,
        signedCertificateTimestamp: [],
      },
      validationContext: null,
    },
    "",
    {
      type: "certificate",
      chain: inline("chain"),
      key: inline("key\n"),
      password: { kind: "environment", variable: "KEY_PASSWORD" },
      ocspStaple: { kind: "inline", bytes: new Uint8Array([0xfb, 0xff]) },
    },
  ],
  [
    "reads decoded bytes",
    {
      name: "a",
      tls_certificate: {
        certificate_chain: { inline_bytes: bytes("chain") },
        private_key: { inline_bytes: bytes("key") },
      },
    },
    "a",
    { type: "certificate", chain: inline("chain"), key: inline("key") },
  ],
  [
    "reads PKCS#12",
    { name: "p", tls_certificate: { pkcs12: { filename: "a.p12" }, password: { filename: "pw" } } },
    "p",
    { type: "certificate", pkcs12: file("a.p12"), password: file("pw") },
  ],
  [
    "reads roots",
    { name: "ROOTCA", validation_context: { trusted_ca: { filename: "ca.pem" } } },
    "ROOTCA",
    validation({ trustedCa: file("ca.pem") }),
  ],
  [
    "reads every rule of a validation context",
    {
      validation_context: {
        trusted_ca: { inline_string: "ca" },
        crl: { inline_string: "crl" },
        verify_certificate_hash: [HASH.toUpperCase().replace(/(..)(?!$)/g, "$1:"), HASH],
        verify_certificate_spki: [PIN],
        require_signed_certificate_timestamp: false,
        match_typed_subject_alt_names: [
          { san_type: "URI", matcher: { prefix: "spiffe://mesh/" } },
          { san_type: 2, matcher: { exact: "A.example", ignore_case: true } },
          { san_type: "OTHER_NAME", oid: "1.3.6.1.4.1.311.20.2.3", matcher: { contains: "x" } },
          { san_type: "IP_ADDRESS", matcher: { safe_regex: { google_re2: {}, regex: "10\\..*" } } },
        ],
        match_subject_alt_names: [{ exact: "ignored beside the typed ones" }],
        allow_expired_certificate: true,
        trust_chain_verification: "ACCEPT_UNTRUSTED",
        only_verify_leaf_cert_crl: true,
        max_verify_depth: "3",
      },
    },
    "",
    validation({ trustedCa: inline("ca"), crl: inline("crl") }, {
      certificateHashes: [HASH, HASH],
      spkiPins: [PIN],
      matchers: [
        { type: "uri", matcher: { kind: "prefix", value: "spiffe://mesh/", ignoreCase: false } },
        { type: "dns", matcher: { kind: "exact", value: "A.example", ignoreCase: true } },
        {
          type: "other_name",
          oid: "1.3.6.1.4.1.311.20.2.3",
          matcher: { kind: "contains", value: "x", ignoreCase: false },
        },
        { type: "ip", matcher: { kind: "regex", regex: "10\\..*" } },
      ],
      allowExpired: true,
      acceptUntrusted: true,
      onlyLeafCrl: true,
      maxDepth: 3,
    }),
  ],
  [
    "applies an untyped matcher to four types",
    { validation_context: { matchSubjectAltNames: [{ suffix: ".example" }] } },
    "",
    validation({}, {
      matchers: ["dns", "uri", "email", "ip"].map((type) => ({
        type,
        matcher: { kind: "suffix", value: ".example", ignoreCase: false },
      })),
    }),
  ],
  [
    "does not read an untyped name as an address",
    { validation_context: { match_subject_alt_names: [{ exact: "db.example" }] } },
    "",
    validation({}, {
      matchers: ["dns", "uri", "email"].map((type) => ({
        type,
        matcher: { kind: "exact", value: "db.example", ignoreCase: false },
      })),
    }),
  ],
  [
    "reads the system's roots",
    { validation_context: { system_root_certs: {} } },
    "",
    validation({ systemRoots: true }),
  ],
  [
    "reads SPIFFE's bundles of several domains",
    spiffe({
      trust_domains: [
        { name: "one.example", trust_bundle: { filename: "one.pem" } },
        {
          name: "two.example",
          trust_bundle: { inline_string: "two" },
          workload_trust_domain: "three.example",
        },
      ],
    }),
    "",
    validation({
      spiffe: {
        kind: "domains",
        domains: [
          { name: "one.example", bundle: file("one.pem") },
          { name: "two.example", bundle: inline("two"), workloadTrustDomain: "three.example" },
        ],
      },
    }),
  ],
  [
    "prefers SPIFFE's bundle map to the list",
    spiffe({
      trust_bundles: { filename: "bundles.json" },
      trust_domains: [{ name: "one.example", trust_bundle: { filename: "one.pem" } }],
    }),
    "",
    validation({ spiffe: { kind: "map", source: file("bundles.json") } }),
  ],
];

for (const [behaviour, value, name, spec] of ACCEPTED) {
  test(`parseSecret() ${behaviour}`, () => {
    assert.deepEqual(parseSecret(value, { allowFiles: true }), { name, spec });
  });
}

const PAIR = { certificate_chain: { filename: "a" }, private_key: { filename: "b" } };
const certificate = (fields: object) => ({ tls_certificate: { ...PAIR, ...fields } });
const context = (fields: object) => ({ validation_context: fields });

const REFUSED: readonly [name: string, value: unknown, wanted: RegExp][] = [
  ["a secret that is no object", [], /the secret must be an object/],
  [
    "an empty secret",
    { name: "a" },
    /the secret needs one of tls_certificate, validation_cont/,
  ],
  [
    "a secret of two types",
    { ...certificate({}), ...context({}) },
    /has tls_certificate and validation_context, of which only one/,
  ],
  [
    "session ticket keys",
    { session_ticket_keys: { keys: [] } },
    /session_ticket_keys cannot be used/,
  ],
  ["generic secrets", { genericSecret: {} }, /genericSecret cannot be used: nothing here takes/],
  [
    "a field that is not known",
    certificate({ chain: 1 }),
    /tls_certificate\.chain is not known here/,
  ],
  [
    "constructor as a field",
    { constructor: {}, ...certificate({}) },
    /constructor is not known here/,
  ],
  [
    "a field in both spellings",
    { ...certificate({}), tlsCertificate: PAIR },
    /tlsCertificate is given as "tls_certificate", too/,
  ],
  ["a number for a name", { name: 1, ...certificate({}) }, /name must be a text/],
  [
    "a certificate without a key",
    { tls_certificate: { certificate_chain: { filename: "a" } } },
    /tls_certificate\.private_key is missing/,
  ],
  [
    "PKCS#12 beside a key",
    certificate({ pkcs12: { filename: "p" } }),
    /private_key cannot be beside/,
  ],
  [
    "a key held by an extension",
    certificate({ private_key_provider: { provider_name: "cryptomb" } }),
    /tls_certificate\.private_key_provider cannot be honoured/,
  ],
  [
    "a source in two places",
    certificate({ password: { filename: "a", inline_string: "b" } }),
    /tls_certificate\.password has filename and inline_string/,
  ],
  ["an empty source", certificate({ password: {} }), /password needs one of filename/],
  [
    "bytes that are not base64",
    certificate({ password: { inline_bytes: "a b" } }),
    /tls_certificate\.password\.inline_bytes must be base64/,
  ],
  [
    "a directory inside a source",
    certificate({ ocsp_staple: { filename: "a", watched_directory: { path: "b" } } }),
    /tls_certificate\.ocsp_staple\.watched_directory cannot be honoured here/,
  ],
  [
    "timestamps",
    context({ requireSignedCertificateTimestamp: true }),
    /Timestamp cannot be honoured/,
  ],
  [
    "roots of a certificate provider",
    context({ ca_certificate_provider_instance: { instance_name: "x" } }),
    /validation_context\.ca_certificate_provider_instance cannot be honoured/,
  ],
  [
    "to hide the roots",
    context({ suppress_client_ca_list: true }),
    /suppress_client_ca_list cannot/,
  ],
  ["a short hash", context({ verify_certificate_hash: ["ab"] }), /hash\[0\] must be the SHA-256/],
  [
    "a pin of 43",
    context({ verify_certificate_spki: [PIN.slice(1)] }),
    /spki\[0\] must be the SHA/,
  ],
  [
    "depth 101",
    context({ max_verify_depth: 101 }),
    /max_verify_depth must be a whole number from 0/,
  ],
  ["a list that is not a list", context({ verify_certificate_spki: "a" }), /spki must be a list/],
  [
    "a name's type that is unspecified",
    context({ match_typed_subject_alt_names: [{ san_type: 0, matcher: { exact: "a" } }] }),
    /match_typed_subject_alt_names\[0\]\.san_type must be EMAIL, DNS/,
  ],
  [
    "a name that is empty",
    context({ match_typed_subject_alt_names: [{ san_type: "DNS", matcher: { exact: "" } }] }),
    /match_typed_subject_alt_names\[0\]\.matcher\.exact must not be empty/,
  ],
  [
    "an invalid address",
    context({
      match_typed_subject_alt_names: [{ san_type: "IP_ADDRESS", matcher: { exact: "db" } }],
    }),
    /match_typed_subject_alt_names\[0\]\.matcher\.exact must be an IP address/,
  ],
  [
    "an other_name without its id",
    context({
      match_typed_subject_alt_names: [{ san_type: "OTHER_NAME", matcher: { exact: "a" } }],
    }),
    /match_typed_subject_alt_names\[0\]\.oid is missing/,
  ],
  [
    "a matcher of two kinds",
    context({
      match_typed_subject_alt_names: [{ san_type: "DNS", matcher: { exact: "a", prefix: "b" } }],
    }),
    /\[0\]\.matcher has exact and prefix/,
  ],
  [
    "a matcher of an extension",
    context({ match_subject_alt_names: [{ custom: { name: "x" } }] }),
    /match_subject_alt_names\[0\]\.custom cannot be honoured/,
  ],
  [
    "another validator",
    context({ custom_validator_config: { name: "mine", typed_config: {} } }),
    /custom_validator_config\.name must be envoy\.tls\.cert_validator\.spiffe/,
  ],
  [
    "another validator's type",
    spiffe({}, "type.googleapis.com/google.protobuf.Struct"),
    /typed_config\["@type"\] must be type\.googleapis\.com\/envoy\.extensions/,
  ],
  ["SPIFFE without bundles", spiffe({}), /typed_config\.trust_domains must not be empty/],
  [
    "a trust domain twice",
    spiffe({
      trust_domains: [
        { name: "a", trust_bundle: { filename: "a" } },
        { name: "A", trust_bundle: { filename: "b" } },
      ],
    }),
    /trust_domains\[1\] has "a" a second time/,
  ],
  [
    "roots beside SPIFFE's bundles",
    {
      validation_context: {
        ...spiffe({ trust_bundles: { filename: "b" } }).validation_context,
        trusted_ca: { filename: "a" },
      },
    },
    /validation_context\.trusted_ca cannot be beside custom_validator_config/,
  ],
  [
    "several faults at once",
    { name: 1, ...context({ crl: {}, allow_expired_certificate: "yes" }) },
    /name must be.*validation_context\.crl needs.*allow_expired_certificate must be true or false/,
  ],
];

for (const [behaviour, value, wanted] of REFUSED) {
  test(`parseSecret() refuses ${behaviour}`, () => {
    assert.throws(() => parseSecret(value, { allowFiles: true }), (error) => {
      assert.ok(error instanceof ProxyError && error.code === "credentials_invalid");
      assert.match(error.message, wanted);
      return true;
    });
  });
}

for (
  const [behaviour, value, wanted] of [
    ["files", certificate({}), /certificate_chain must be inline: a server's secret may not name/],
    [
      "variables",
      context({ trusted_ca: { environment_variable: "PATH" } }),
      /validation_context\.trusted_ca must be inline/,
    ],
    [
      "directories",
      context({ watched_directory: { path: "/" } }),
      /validation_context\.watched_directory cannot be honoured: a server's secret/,
    ],
  ] as const
) {
  test(`parseSecret() refuses ${behaviour} named by a server`, () => {
    assert.throws(() => parseSecret(value, { allowFiles: false }), { message: wanted });
  });
}

test("parseSecret() shows no value", () => {
  const value = certificate({ private_key: { inline_bytes: "-----SECRET-----" } });
  assert.throws(() => parseSecret(value, { allowFiles: false }), (error) => {
    return error instanceof Error && !error.message.includes("SECRET");
  });
});
