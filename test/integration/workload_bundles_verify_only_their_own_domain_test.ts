/**
 * The bundles of a Workload API decide which peers are accepted: each bundle only for its own trust
 * domain.
 */

import assert from "node:assert/strict";
import test from "node:test";
import { systemRandom } from "../../src/base/mod.ts";
import type { Authority, IssuedLeaf } from "../kit/certs/authority.ts";
import { createPeerValidator, parseCertificate, type Validation } from "../../src/identity/mod.ts";
import { mintCrl } from "../kit/certs/mint_crl.ts";
import { runtimeEngine } from "../../src/net/mod.ts";
import { tlsFault } from "../../src/net/tls_checks.ts";
import { createLoader } from "../../src/secrets/load/mod.ts";
import { WorkloadProvider } from "../../src/secrets/workload/workload_provider.ts";
import { createAuthority } from "../kit/certs/certificates.ts";
import { FakeClock } from "../kit/clock/clock.ts";
import { startWorkloadServer, svidOf } from "../kit/secrets/workload_server.ts";

const CA = createAuthority({ trustDomain: "example.org" });
const NEXT = createAuthority({ trustDomain: "example.org" });
const OTHER = createAuthority({ trustDomain: "other.test" });
const WEB = "spiffe://example.org/web";
const PARTNER = "spiffe://other.test/partner";

function judge(validation: Validation, authority: Authority, uri: string): string {
  return judgeLeaf(validation, authority.issueLeaf({ service: "x", uri }));
}

function judgeLeaf(validation: Validation, leaf: IssuedLeaf): string {
  const validator = createPeerValidator(validation, {
    serviceTrustDomains: [],
    strictSpiffeChain: false,
  });
  const peer = { leaf: leaf.certDer, presented: leaf.chainDer };
  return validator.judge({ ...peer, nowMs: Date.now(), usage: "client" }).kind;
}

for (
  const [name, choice] of [["both streams", {}], ["the stream of identities", { id: WEB }]] as const
) {
  test(`a trust domain's bundle never verifies another's identity, from ${name}`, async () => {
    await using server = await startWorkloadServer();
    const { address } = server;
    const clock = new FakeClock({ startMs: Date.now() });
    const provider = new WorkloadProvider(address, {
      engine: runtimeEngine(),
      clock,
      random: systemRandom,
      load: createLoader({
        clock,
        read: () => Promise.reject(new Error("no file is read here")),
        tlsFault,
      }),
    });
    const send = (
      own: Uint8Array,
      federated: Readonly<Record<string, Uint8Array>>,
      crls: readonly Uint8Array[] = [],
    ) => {
      server.sendSvids({ svids: [svidOf(CA, WEB, { bundle: own })], federated, crls });
      server.sendBundles({ bundles: { "spiffe://example.org": own, ...federated }, crls });
    };
    const arrived: Validation[] = [];
    let wake = () => {};
    send(CA.rootDer, { "spiffe://other.test": OTHER.rootDer });
    const fail = (reason: string) => assert.fail(reason);
    provider.watch({
      type: "validation",
      name: "peers",
      source: { kind: "workload", address, ...choice },
      initialFetchTimeoutMs: 0,
    }, {
      onSecret(secret) {
        assert.ok(secret.type === "validation");
        arrived.push(secret.validation);
        wake();
      },
      onRejected: fail,
      onRecovered() {},
      onUnreachable: fail,
      onReached() {},
      onDenied: fail,
      onRemoved: () => fail("removed"),
    });
    const next = async () => {
      while (arrived.length === 0) await new Promise<void>((resolve) => wake = resolve);
      const [validation] = arrived.splice(0);
      assert.ok(validation);
      return validation;
    };

    const both = await next();
    assert.equal(judge(both, CA, WEB), "trusted");
    assert.equal(judge(both, OTHER, PARTNER), "trusted");
    assert.equal(judge(both, OTHER, WEB), "untrusted");
    assert.equal(judge(both, CA, PARTNER), "untrusted");
    assert.equal(judge(both, NEXT, WEB), "untrusted");

    // The federation ends, and the own authority is about to change.
    send(new Uint8Array([...CA.rootDer, ...NEXT.rootDer]), {});
    const alone = await next();
    assert.equal(judge(alone, CA, WEB), "trusted");
    assert.equal(judge(alone, NEXT, WEB), "trusted");
    assert.equal(judge(alone, OTHER, PARTNER), "untrusted");

    // The agent revokes one of the certificates that the bundle's CA signed.
    const revoked = CA.issueLeaf({ service: "x", uri: WEB });
    assert.equal(judgeLeaf(alone, revoked), "trusted");
    const nowMs = Date.now();
    const crl = mintCrl({
      signer: CA.key.privateKey,
      issuerDer: parseCertificate(CA.rootDer).subject,
      thisUpdateMs: nowMs - 60_000,
      nextUpdateMs: nowMs + 3_600_000,
      revoked: [parseCertificate(revoked.certDer).serial],
    });
    send(CA.rootDer, {}, [crl]);
    const listed = await next();
    assert.equal(judgeLeaf(listed, revoked), "untrusted");
    assert.equal(judge(listed, CA, WEB), "trusted");
    await provider.close();
  });
}
