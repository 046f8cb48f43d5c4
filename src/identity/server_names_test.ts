import assert from "node:assert/strict";
import test from "node:test";
import { cpuMs } from "../../test/kit/process/cpu_time.ts";
import {
  createCertificateIndex,
  formatQuerySni,
  formatServiceSni,
  judgeName,
  type WantedNames,
} from "./server_names.ts";

type Selectable = Parameters<typeof createCertificateIndex>[0][number];

const cert = (
  keyKind: Selectable["keyKind"],
  ...dnsNames: string[]
): Selectable => ({
  keyKind,
  dnsNames,
});
const RSA_ONLY = [0x0401, 0x0804];
const MODERN = [0x0807, 0x0403, 0x0804];

const MIXED = [
  cert("rsa", "a.example", "*.example"), // 0
  cert("ecdsa", "A.example"), // 1
  cert("ecdsa", "*.example"), // 2
  cert("ed25519", "e.example"), // 3
  cert("ecdsa", "p.example"), // 4
  cert("rsa", "*.p.example", "p.example."), // 5
  cert("ecdsa", "a.example"), // 6
];

for (
  const [name, serverName, algorithms, want] of [
    ["the exact name, ECDSA where it can be verified", "a.example", MODERN, 1],
    ["the exact name, RSA where ECDSA cannot", "a.example", RSA_ONLY, 0],
    ["the first of one name and kind", "a.example", [0x0603], 1],
    ["RSA for a client without signature algorithms", "a.example", [], 0],
    ["a wildcard of one label", "b.example", MODERN, 2],
    ["a wildcard of one label, RSA", "b.example", RSA_ONLY, 0],
    ["Ed25519 alone, verified", "e.example", MODERN, 3],
    ["the exact name before a wildcard that suits better", "e.example", RSA_ONLY, 3],
    ["a name of two certificates, one with a trailing dot", "p.example", RSA_ONLY, 5],
    ["a wildcard below that", "x.p.example", MODERN, 5],
    ["the first for a name two labels below a wildcard", "x.y.example", MODERN, 0],
    ["the first for the domain of a wildcard", "example", MODERN, 0],
    ["the first for an unknown name", "other.test", MODERN, 0],
    ["the first of the best kind without a name", undefined, MODERN, 1],
    ["the first RSA without a name, where ECDSA cannot be verified", undefined, RSA_ONLY, 0],
  ] as const
) {
  test(`createCertificateIndex() finds ${name}`, () => {
    const hello = { serverName, signatureAlgorithms: algorithms };
    assert.equal(createCertificateIndex(MIXED).find(hello), want);
  });
}

test("createCertificateIndex() without certificates finds none", () => {
  const index = createCertificateIndex([]);
  for (const serverName of [undefined, "a.example"]) {
    assert.equal(index.find({ serverName, signatureAlgorithms: MODERN }), -1);
  }
});

test("createCertificateIndex() selects a certificate for a client that can verify none", () => {
  const index = createCertificateIndex([cert("ed25519", "a"), cert("ecdsa", "a")]);
  for (const serverName of [undefined, "a"]) {
    assert.equal(index.find({ serverName, signatureAlgorithms: [0x0401] }), 0);
  }
});

test("createCertificateIndex() finds a name in constant time", () => {
  const many = Array.from({ length: 20_000 }, (_, at) => cert("ecdsa", `s${at}.example`));
  const index = createCertificateIndex(many);
  const startMs = cpuMs();
  for (let at = 0; at < many.length; at++) {
    const hello = { serverName: `s${at}.example`, signatureAlgorithms: MODERN };
    assert.equal(index.find(hello), at);
  }
  // A linear search would take 200 million steps.
  assert.ok(cpuMs() - startMs < 2_000);
});

const LONG = `${"a".repeat(63)}.`.repeat(4);

for (
  const [name, rules, want] of [
    ["www.example.com", {}, true],
    ["WWW.Example.COM", {}, true],
    ["a.b", {}, true],
    ["xn--bcher-kva.example", {}, true],
    ["1.example.com", {}, true],
    ["localhost", {}, false],
    ["localhost", { names: ["localhost"] }, true],
    ["LOCALHOST", { names: ["LocalHost"] }, true],
    ["", {}, false],
    [".", {}, false],
    [".example.com", {}, false],
    ["www.example.com.", {}, false],
    ["www..example.com", {}, false],
    ["-a.example.com", {}, false],
    ["a-.example.com", {}, false],
    ["a_b.example.com", {}, false],
    ["*.example.com", {}, false],
    ["*.example.com", { names: ["*.example.com"] }, false],
    ["a b.example.com", {}, false],
    ["../../etc/passwd", {}, false],
    ["bücher.example", {}, false],
    ["a\u0000.example.com", {}, false],
    ["192.0.2.1", {}, false],
    ["192.0.2.1", { names: ["192.0.2.1"] }, false],
    ["2001:db8::1", {}, false],
    ["[::1]", {}, false],
    [`${"a".repeat(63)}.com`, {}, true],
    [`${"a".repeat(64)}.com`, {}, false],
    [`${LONG}com`.slice(0, 253), {}, true],
    [`${LONG}com`.slice(0, 254), {}, false],
    ["a".repeat(10_000_000), {}, false],
    ["www.example.com", { suffixes: [".example.com"] }, true],
    ["a.www.example.com", { suffixes: [".example.com"] }, true],
    ["example.com", { suffixes: [".example.com"] }, false],
    ["badexample.com", { suffixes: [".example.com"] }, false],
    ["badexample.com", { suffixes: ["example.com"] }, false],
    ["www.example.com", { suffixes: ["Example.com"] }, true],
    ["example.com.evil.org", { suffixes: [".example.com"] }, false],
    ["example.com", { names: ["example.com"], suffixes: [".other.org"] }, true],
    ["www.example.com", { names: ["example.com"] }, false],
    ["a.other.org", { names: ["example.com"], suffixes: [".other.org"] }, true],
  ] as readonly (readonly [string, Partial<WantedNames>, boolean])[]
) {
  const shown = name.length > 60 ? `${name.length} characters` : JSON.stringify(name);
  test(`judgeName() ${want ? "allows" : "refuses"} ${shown} with ${JSON.stringify(rules)}`, () => {
    const fault = judgeName({ names: [], suffixes: [], ...rules }, name);
    assert.equal(fault === undefined, want, fault ?? "allowed");
  });
}

const DB = {
  service: "db",
  namespace: "default",
  partition: "default",
  datacenter: "dc1",
  trustDomain: "abc.consul",
};

for (
  const [name, got, want] of [
    ["a service", formatServiceSni(DB), "db.default.dc1.internal.abc.consul"],
    [
      "a subset",
      formatServiceSni({ ...DB, subset: "v2" }),
      "v2.db.default.dc1.internal.abc.consul",
    ],
    ["no subset", formatServiceSni({ ...DB, subset: "" }), "db.default.dc1.internal.abc.consul"],
    [
      "another partition",
      formatServiceSni({ ...DB, partition: "east" }),
      "db.default.east.dc1.internal-v1.abc.consul",
    ],
    [
      "a subset in another partition",
      formatServiceSni({ ...DB, subset: "v2", partition: "east" }),
      "v2.db.default.east.dc1.internal-v1.abc.consul",
    ],
    [
      "empty namespace and partition",
      formatServiceSni({ ...DB, namespace: "", partition: "" }),
      "db.default.dc1.internal.abc.consul",
    ],
    [
      "an upper-case trust domain",
      formatServiceSni({ ...DB, trustDomain: "ABC.consul" }),
      "db.default.dc1.internal.abc.consul",
    ],
    [
      "a prepared query",
      formatQuerySni({ query: "geo-db", datacenter: "dc1", trustDomain: "abc.consul" }),
      "geo-db.default.dc1.query.abc.consul",
    ],
  ] as const
) {
  test(`the SNI of ${name}`, () => assert.equal(got, want));
}
