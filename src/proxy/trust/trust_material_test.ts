import assert from "node:assert/strict";
import { test } from "node:test";
import { createAuthority } from "../../../test/kit/certs/certificates.ts";
import {
  caValidation,
  certificatePart,
  type OwnOptions,
  withOwn,
} from "../../../test/kit/secrets/own_credentials.ts";
import { snapshotOf } from "../../../test/kit/engine/snapshots.ts";
import { MESH_KEY, type Snapshot } from "../../snapshot/mod.ts";
import { trustMaterial } from "./trust_material.ts";

const CA = createAuthority();
const MESH = snapshotOf({ ca: CA, service: "web" });
const WEB = CA.issueLeaf({ service: "web" });
const FILES = withOwn(MESH, "inbound", {
  certificates: { web: certificatePart(WEB) },
  validation: caValidation([CA]),
  own: { trustDomains: ["a.consul"] },
});
const of = (place: OwnOptions) => {
  const material = trustMaterial(withOwn(MESH, "inbound", place), "inbound");
  assert.ok(material);
  return material;
};

test("trustMaterial() of the proxy itself requires a certificate of the mesh", () => {
  const material = trustMaterial(MESH, null);
  assert.deepEqual(material?.certificates.map(({ name, certPem }) => [name, certPem]), [
    [MESH_KEY, MESH.credentials.certPem],
  ]);
  assert.deepEqual(material?.peers?.validation, {
    kind: "mesh",
    rootPems: MESH.credentials.rootPems,
    trustDomains: MESH.credentials.trustDomains,
  });
  assert.equal(material?.requireClientCertificate, true);
  assert.deepEqual(material?.missing, []);
});

for (
  const [name, snapshot, key] of [
    ["for the proxy itself without credentials", { ...MESH, credentials: null }, null],
    ["for an unknown key", MESH, "inbound"],
  ] as const
) {
  test(`trustMaterial() is undefined ${name}`, () => {
    assert.equal(trustMaterial(snapshot, key), undefined);
  });
}

test("trustMaterial() gathers the credentials of a listener", () => {
  const material = trustMaterial(FILES, "inbound");
  assert.deepEqual(material?.certificates.map(({ certPem }) => certPem), [WEB.certPem]);
  assert.equal(material?.peers?.validation.kind, "ca");
  assert.deepEqual(material?.peers?.serviceTrustDomains, ["a.consul"]);
});

for (
  const [name, place, certificates, validation] of [
    ["the mesh's certificate with roots of its own", { validation: caValidation([CA]) }, 1, "ca"],
    [
      "a certificate of its own with the mesh's roots",
      {
        certificates: { web: certificatePart(WEB) },
      },
      1,
      "mesh",
    ],
    ["both of the mesh", {}, 1, "mesh"],
    [
      "several certificates",
      {
        certificates: { a: certificatePart(WEB), b: certificatePart(WEB) },
      },
      2,
      "mesh",
    ],
    ["no certificate, as an upstream may", { own: { certificates: [] } }, 0, "mesh"],
    ["no validation", { validation: null }, 1, undefined],
  ] as const
) {
  test(`trustMaterial() takes ${name}`, () => {
    const material = of(place);
    assert.deepEqual(material.missing, []);
    assert.equal(material.certificates.length, certificates);
    assert.equal(material.peers?.validation.kind, validation);
  });
}

for (
  const [name, place, without, missing] of [
    ["secrets that the store reports as missing", { own: { missing: ["x"] } }, {}, ["x"]],
    ["unknown certificates", { own: { certificates: ["web"] } }, {}, ["web"]],
    [
      "one unknown certificate of several",
      {
        certificates: { a: certificatePart(WEB) },
        own: { certificates: ["a", "b"] },
      },
      {},
      ["b"],
    ],
    ["unknown rules", { own: { validation: "roots" } }, {}, ["roots"]],
    ["absent credentials of the mesh", {}, { credentials: null }, [MESH_KEY, MESH_KEY]],
  ] as const
) {
  test(`trustMaterial() lists ${name} as missing, without a substitute`, () => {
    const snapshot = { ...withOwn(MESH, "inbound", place), ...without };
    const material = trustMaterial(snapshot, "inbound");
    assert.deepEqual(material?.missing, missing);
  });
}

/** The same parts made again, with other versions where the content differs. */
const versions = {
  certificate: { ...FILES, certificates: { web: certificatePart(WEB) } },
  validation: {
    ...FILES,
    validations: withOwn(MESH, "inbound", { validation: caValidation([CA]) }).validations,
  },
  part: { ...FILES, ownCredentials: withOwn(FILES, "inbound").ownCredentials },
  "TLS versions": { ...FILES, tls: { ...FILES.tls, version: 999_999 } },
  "strict chains": { ...FILES, tls: { ...FILES.tls, strictSpiffeChain: true } },
} satisfies Record<string, Snapshot>;

test("trustMaterial() has the same id for the same parts", () => {
  const other = { ...FILES, version: 999_999, policy: { ...FILES.policy, version: 999_999 } };
  assert.equal(trustMaterial(other, "inbound")?.id, trustMaterial(FILES, "inbound")?.id);
  const mesh = { ...FILES, credentials: { ...MESH.credentials, version: 999_999 } };
  assert.equal(
    trustMaterial(mesh, "inbound")?.id,
    trustMaterial(FILES, "inbound")?.id,
    "it does not go by the mesh's",
  );
});

for (const [name, snapshot] of Object.entries(versions)) {
  test(`trustMaterial() has another id for another ${name}`, () => {
    assert.notEqual(trustMaterial(snapshot, "inbound")?.id, trustMaterial(FILES, "inbound")?.id);
  });
}

test("trustMaterial() changes its id with the credentials of the mesh if it refers to them", () => {
  const mixed = withOwn(MESH, "inbound", { certificates: { web: certificatePart(WEB) } });
  const rotated = { ...mixed, credentials: { ...MESH.credentials, version: 999_999 } };
  const [before, after] = [mixed, rotated].map((each) => trustMaterial(each, "inbound"));
  assert.notEqual(after?.id, before?.id);
  assert.notEqual(after?.peers?.id, before?.peers?.id);
});
