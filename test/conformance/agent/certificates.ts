/**
 * Roots and leaves: fields, the contents of the certificates, and waiting for the next one.
 *
 * @module
 */

import assert from "node:assert/strict";
import { createPrivateKey, X509Certificate } from "node:crypto";
import { test } from "node:test";
import { parseCertificate } from "../../../src/identity/certificate.ts";
import { parsePem } from "../../../src/wire/mod.ts";
import { type AgentClient, keys, unique, woken } from "./client.ts";

interface Leaf {
  readonly SerialNumber: string;
  readonly CertPEM: string;
  readonly PrivateKeyPEM: string;
  readonly ServiceURI: string;
  readonly ValidAfter: string;
  readonly ValidBefore: string;
  readonly ModifyIndex: number;
}

interface Root {
  readonly ID: string;
  readonly RootCert: string;
  readonly Active: boolean;
  readonly SigningKeyID: string;
  readonly IntermediateCerts: readonly string[] | null;
}

interface Roots {
  readonly ActiveRootID: string;
  readonly TrustDomain: string;
  readonly Roots: readonly Root[];
}

export function certificateContract(agent: AgentClient): void {
  const roots = () => agent.json<Roots>("/v1/agent/connect/ca/roots");

  test("roots have exactly these keys and headers", async () => {
    const reply = await agent.get("/v1/agent/connect/ca/roots");
    const body = JSON.parse(reply.text) as Roots;
    assert.deepEqual(keys(body), ["ActiveRootID", "Roots", "TrustDomain"]);
    assert.match(body.TrustDomain, /^[0-9a-f-]{36}\.consul$/);
    assert.deepEqual(keys(body.Roots[0]), [
      "Active",
      "CreateIndex",
      "ExternalTrustDomain",
      "ID",
      "IntermediateCerts",
      "ModifyIndex",
      "Name",
      "NotAfter",
      "NotBefore",
      "PrivateKeyBits",
      "PrivateKeyType",
      "RootCert",
      "SerialNumber",
      "SigningKeyID",
    ]);
    assert.ok(reply.index > 0);
    const [root] = body.Roots;
    const certificate = new X509Certificate(root?.RootCert ?? "");
    assert.equal(certificate.fingerprint.toLowerCase(), root?.ID);
    assert.equal(certificate.subjectAltName, `URI:spiffe://${body.TrustDomain}`);
    assert.match(certificate.subject, /^CN=pri-[0-9a-z]+\.consul\.ca\.[0-9a-f]{8}\.consul$/);
    assert.ok(certificate.ca);
  });

  test("roots come as PEM too, without an index", async () => {
    const reply = await agent.get("/v1/connect/ca/roots?pem=true");
    assert.equal(reply.headers.get("Content-Type"), "application/pem-certificate-chain");
    assert.equal(reply.headers.has("X-Consul-Index"), false);
    assert.match(reply.text, /^-----BEGIN CERTIFICATE-----/);
  });

  test("a leaf is a SPIFFE certificate under the active root, its key SEC1", async () => {
    const name = unique("leaf");
    const reply = await agent.get(`/v1/agent/connect/ca/leaf/${name}`);
    const leaf = JSON.parse(reply.text) as Leaf;
    assert.deepEqual(keys(leaf), [
      "CertPEM",
      "CreateIndex",
      "ModifyIndex",
      "PrivateKeyPEM",
      "SerialNumber",
      "Service",
      "ServiceURI",
      "ValidAfter",
      "ValidBefore",
    ]);
    assert.equal(reply.index, leaf.ModifyIndex);
    for (
      const absent of ["X-Consul-Knownleader", "X-Consul-Query-Backend", "X-Consul-Lastcontact"]
    ) {
      assert.equal(reply.headers.has(absent), false, absent);
    }
    const { TrustDomain, Roots, ActiveRootID } = await roots();
    assert.equal(leaf.ServiceURI, `spiffe://${TrustDomain}/ns/default/dc/dc1/svc/${name}`);
    assert.match(leaf.PrivateKeyPEM, /^-----BEGIN EC PRIVATE KEY-----/);
    const certificate = new X509Certificate(leaf.CertPEM);
    const activeRoot = Roots.find((root) => root.ID === ActiveRootID);
    const active = new X509Certificate(activeRoot?.RootCert ?? "");
    assert.ok(certificate.verify(active.publicKey));
    assert.ok(certificate.checkPrivateKey(createPrivateKey(leaf.PrivateKeyPEM)));
    assert.equal(certificate.subjectAltName, `URI:${leaf.ServiceURI}`);
    assert.equal(certificate.subject ?? "", "");
    const [block] = parsePem(leaf.CertPEM, { what: "leaf" });
    const parsed = parseCertificate(block?.der ?? new Uint8Array());
    assert.deepEqual(parsed.basicConstraints, { ca: false });
    assert.deepEqual(parsed.extendedKeyUsage, ["1.3.6.1.5.5.7.3.2", "1.3.6.1.5.5.7.3.1"]);
    // digitalSignature, keyEncipherment, dataEncipherment, keyAgreement.
    assert.equal(parsed.keyUsage, 0b11101);
    assert.deepEqual(parsed.notUnderstood, []);
    assert.equal(parsed.authorityKeyId?.match(/../g)?.join(":"), activeRoot?.SigningKeyID);
    assert.equal(parsed.serial, leaf.SerialNumber);
    // One minute in the past, 72 hours long.
    const lifeMs = Date.parse(leaf.ValidBefore) - Date.parse(leaf.ValidAfter);
    assert.equal(lifeMs, 72 * 3_600_000);
    const dateMs = Date.parse(reply.headers.get("Date") ?? "");
    const ageMs = dateMs - Date.parse(leaf.ValidAfter);
    assert.ok(ageMs >= 58_000 && ageMs <= 75_000, `${ageMs} ms`);
    assert.equal(Date.parse(certificate.validFrom), Date.parse(leaf.ValidAfter));
  });

  test("the same leaf is given again", async () => {
    const name = unique("again");
    const first = await agent.json<Leaf>(`/v1/agent/connect/ca/leaf/${name}`);
    const second = await agent.json<Leaf>(`/v1/agent/connect/ca/leaf/${name}`);
    assert.equal(second.CertPEM, first.CertPEM);
  });

  test("leaf names keep their letter case; a space is escaped in the URI", async () => {
    const name = unique("Case").toUpperCase();
    assert.match(
      (await agent.json<Leaf>(`/v1/agent/connect/ca/leaf/${name}`)).ServiceURI,
      new RegExp(`/svc/${name}$`),
    );
    const spaced = unique("a b");
    const path = `/v1/agent/connect/ca/leaf/${encodeURIComponent(spaced)}`;
    const { ServiceURI } = await agent.json<Leaf>(path);
    assert.ok(ServiceURI.endsWith(`/svc/${spaced.replace(" ", "%20")}`), ServiceURI);
  });

  for (const path of ["/v1/agent/connect/ca/roots", "/v1/agent/connect/ca/leaf/blocked"]) {
    test(`${path} waits for an index above the caller's`, async () => {
      const { index } = await agent.get(path);
      for (const asked of [index, index + 1000]) {
        const reply = await agent.get(`${path}?index=${asked}&wait=300ms`);
        assert.ok(reply.tookMs >= 290, `${reply.tookMs} ms`);
        assert.equal(reply.index, index);
      }
      for (const asked of [0, 1]) {
        assert.ok((await agent.get(`${path}?index=${asked}&wait=30s`)).tookMs < 10_000);
      }
    });
  }
}

/** A rotation changes the roots of every client, so it is run last. */
export function rotationContract(agent: AgentClient): void {
  test("a rotation lists both roots by id, the new one cross-signed, and gives new leaves", async () => {
    const name = unique("rotated");
    const old = await agent.json<Leaf>(`/v1/agent/connect/ca/leaf/${name}`);
    const before = await agent.get("/v1/agent/connect/ca/roots");
    const first = JSON.parse(before.text) as Roots;
    const rotated = woken(
      agent,
      (index) => agent.get(`/v1/agent/connect/ca/roots?index=${index}&wait=60s`),
      {
        index: before.index,
        wanted: ({ text }) => (JSON.parse(text) as Roots).Roots.length > first.Roots.length,
      },
    );
    const configuration = await agent.json<{ Config: Record<string, unknown> }>(
      "/v1/connect/ca/configuration",
    );
    await agent.put("/v1/connect/ca/configuration", {
      Provider: "consul",
      Config: { ...configuration.Config, PrivateKeyType: "ec", PrivateKeyBits: 384 },
    });
    const now = JSON.parse((await rotated).text) as Roots;
    assert.equal(now.Roots.length, first.Roots.length + 1);
    assert.equal(now.TrustDomain, first.TrustDomain);
    const ids = now.Roots.map((root) => root.ID);
    assert.deepEqual(ids, [...ids].sort());
    assert.deepEqual(now.Roots.filter((root) => root.Active).map((root) => root.ID), [
      now.ActiveRootID,
    ]);
    const active = now.Roots.find((root) => root.Active);
    const previous = now.Roots.find((root) => root.ID === first.ActiveRootID);
    assert.equal(previous?.IntermediateCerts, null);
    const [crossPem = ""] = active?.IntermediateCerts ?? [];
    const cross = new X509Certificate(crossPem);
    assert.ok(cross.verify(new X509Certificate(previous?.RootCert ?? "").publicKey));
    assert.ok(cross.publicKey.equals(new X509Certificate(active?.RootCert ?? "").publicKey));
    const days = (Date.parse(cross.validTo) - Date.parse(cross.validFrom)) / 86_400_000;
    assert.equal(days, 7);

    // A real agent takes up to 30 s until it asks for one.
    const renewed = await woken(
      agent,
      (index) => agent.get(`/v1/agent/connect/ca/leaf/${name}?index=${index}&wait=60s`),
      {
        index: old.ModifyIndex,
        wanted: ({ text }) => (JSON.parse(text) as Leaf).PrivateKeyPEM !== old.PrivateKeyPEM,
        limitMs: 90_000,
      },
    );
    const leaf = JSON.parse(renewed.text) as Leaf;
    const pems = leaf.CertPEM.match(/-----BEGIN[^-]+-----[^-]+-----END[^-]+-----/g) ?? [];
    assert.equal(pems.length, 2);
    const [own, link] = pems.map((pem) => new X509Certificate(pem));
    assert.ok(own?.verify(cross.publicKey));
    assert.equal(link?.fingerprint, cross.fingerprint);
  });
}
