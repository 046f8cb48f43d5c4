import assert from "node:assert/strict";
import test from "node:test";
import { SERVER } from "../../../test/kit/secrets/tls_config.ts";
import { formatPath } from "../../base/schema.ts";
import { ingressTlsPlan } from "./ingress_tls.ts";

const OTHER = { ...SERVER, name: "other" };
const CONTEXT = { path: ["igw"], sdsServers: { sds_cluster: SERVER, other: OTHER } };
const ref = (name: string, server = SERVER) => ({
  type: "certificate",
  name,
  source: { kind: "sds", server, api: "sotw" },
  initialFetchTimeoutMs: 15_000,
});
const plan = (certificates: object[], more: object = {}) => ({
  certificates,
  validation: null,
  requireClientCertificate: false,
  onDemand: null,
  ...more,
});
const sds = (ClusterName: string, CertResource: string, more: object = {}) => ({
  Enabled: true,
  SDS: { ClusterName, CertResource },
  ...more,
});
const service = (fields: object) => ({ Name: "web", Hosts: ["a.example"], ...fields });
const listener = (fields: object) => ({ Port: 8443, Protocol: "http", Services: [], ...fields });

test("ingressTlsPlan() makes no plan for a gateway without TLS", () => {
  // An entry as Consul returns it, with all other fields.
  const entry = {
    Kind: "ingress-gateway",
    Name: "igw",
    TLS: { Enabled: false },
    Listeners: [
      { Port: 8080, Protocol: "http", Services: [{ Name: "api", Hosts: ["a.example"] }] },
      { Port: 8081, Protocol: "tcp", Services: [{ Name: "db", Hosts: null }] },
    ],
    Hash: 8725176287203471409n,
    CreateIndex: 99,
    ModifyIndex: 99,
  };
  const parsed = ingressTlsPlan(entry, CONTEXT);
  assert.deepEqual(parsed, {
    kind: "valid",
    plans: [null, null],
    warnings: [],
  });
});

for (
  const [behaviour, entry, plans] of [
    [
      "uses the gateway's settings for each listener",
      { TLS: sds("sds_cluster", "wild"), Listeners: [listener({}), listener({ Port: 1 })] },
      [plan([ref("wild")]), plan([ref("wild")])],
    ],
    [
      "resolves each field of its own",
      {
        TLS: sds("sds_cluster", "wild", { TLSMinVersion: "TLSv1_2", CipherSuites: null }),
        Listeners: [listener({
          TLS: sds("", "shop", {
            TLSMaxVersion: "TLSv1_2",
            CipherSuites: ["TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"],
          }),
          Services: [
            service({ TLS: sds("other", "a", {}) }),
            service({ Name: "b", Hosts: ["B.example", "*.b.example"], TLS: sds("other", "") }),
            service({ Name: "c", TLS: sds("", "") }),
            service({ Name: "d", Hosts: null, TLS: null }),
            service({ Name: "e", TLS: sds("", "shop") }),
          ],
        })],
      },
      [
        plan([ref("shop"), ref("a", OTHER), ref("shop", OTHER)], {
          tls: {
            minVersion: "TLSv1.2",
            maxVersion: "TLSv1.2",
            cipherSuites: ["ECDHE-RSA-AES128-GCM-SHA256"],
          },
        }),
      ],
    ],
    [
      "reads services whose listener has no TLS",
      { Listeners: [listener({ Services: [service({ TLS: sds("other", "a") })] })] },
      [plan([ref("a", OTHER)])],
    ],
  ] as const
) {
  test(`ingressTlsPlan() ${behaviour}`, () => {
    assert.deepEqual(ingressTlsPlan(entry, CONTEXT), { kind: "valid", plans, warnings: [] });
  });
}

for (
  const [behaviour, entry, wanted] of [
    ["an entry that is no object", "entry", ["igw must be an object, not a text"]],
    ["a listener without a resource", { TLS: sds("other", ""), Listeners: [listener({})] }, [
      "igw.Listeners[0].TLS.SDS.CertResource is missing, here and above",
    ]],
    ["a listener without a cluster", { Listeners: [listener({ TLS: sds("", "a") })] }, [
      "igw.Listeners[0].TLS.SDS.ClusterName is missing, here and above",
    ]],
    ["an unknown cluster", { Listeners: [listener({ TLS: sds("constructor", "a") })] }, [
      'igw.Listeners[0].TLS.SDS.ClusterName names "constructor", which is no SDS server',
    ]],
    ["a service without hosts", {
      Listeners: [listener({ Services: [service({ Hosts: [], TLS: sds("other", "a") })] })],
    }, ["igw.Listeners[0].Services[0].Hosts is empty; a certificate of its own is chosen by host"]],
    ["unknown versions and suites", {
      TLS: sds("other", "a", { TLSMinVersion: "TLSv9", CipherSuites: ["RC4"] }),
      Listeners: [listener({}), listener({ TLS: { TLSMaxVersion: "TLSv1_1" } })],
    }, [
      'igw.Listeners[0].TLS.TLSMinVersion is "TLSv9", which is not known',
      'igw.Listeners[0].TLS.CipherSuites[0] is "RC4", which is not known',
      'igw.Listeners[1].TLS.TLSMinVersion is "TLSv9", which is not known',
      "igw.Listeners[1].TLS.TLSMaxVersion is below TLS 1.2, which is the least that is spoken",
    ]],
    ["other types", { TLS: 1, Listeners: [{ Port: "1" }] }, [
      "igw.TLS must be an object, not 1",
      "igw.Listeners[0].Port must be a number, not a text",
    ]],
  ] as const
) {
  test(`ingressTlsPlan() refuses ${behaviour}`, () => {
    const parsed = ingressTlsPlan(entry, CONTEXT);
    assert.ok(parsed.kind === "invalid", "it was accepted");
    const shown = parsed.problems.map(({ path, message }) => `${formatPath(path)} ${message}`);
    assert.deepEqual(shown, wanted);
  });
}

test("ingressTlsPlan() warns that it raised a version", () => {
  const parsed = ingressTlsPlan({
    TLS: sds("other", "a", { TLSMinVersion: "TLSv1_0" }),
    Listeners: [listener({})],
  }, CONTEXT);
  assert.ok(parsed.kind === "valid");
  assert.deepEqual(parsed.warnings, ["TLSMinVersion TLSv1_0 was raised to TLS 1.2"]);
  assert.equal(parsed.plans[0]?.tls?.minVersion, "TLSv1.2");
});
