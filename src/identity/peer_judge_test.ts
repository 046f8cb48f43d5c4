import assert from "node:assert/strict";
import test from "node:test";
import { createAuthority, TRUST_DOMAIN } from "../../test/kit/certs/certificates.ts";
import { generateKey } from "../../test/kit/certs/mint.ts";
import { PeerJudge, type PeerJudgeOptions } from "./peer_judge.ts";
import { createPeerValidator } from "./rules_validator.ts";
import { NO_RULES } from "./validation.ts";

const NOW_MS = Date.UTC(2026, 10, 21, 12);
const HOUR_MS = 3_600_000;
const CA = createAuthority({ nowMs: NOW_MS });
const STRANGER = createAuthority({ nowMs: NOW_MS });
const KEY = generateKey();
const AS_CLIENT = { usage: "client", nowMs: NOW_MS } as const;

function createJudge(options: Partial<PeerJudgeOptions> = {}): PeerJudge {
  return new PeerJudge({
    validator: createPeerValidator(
      { kind: "mesh", rootPems: [CA.rootPem], trustDomains: [TRUST_DOMAIN] },
      { serviceTrustDomains: [TRUST_DOMAIN], strictSpiffeChain: false },
    ),
    generation: 1,
    ...options,
  });
}

const leafOf = (service: string, authority = CA) => {
  return authority.issueLeaf({ service, key: KEY, ttlMs: HOUR_MS }).certDer;
};

test("PeerJudge caches a trusted peer", () => {
  const judge = createJudge({ generation: 7 });
  const first = judge.judge(leafOf("web"), [], AS_CLIENT);
  assert.equal(first.kind, "trusted");
  assert.deepEqual(judge.remembered, { trusted: 1, untrusted: 0 });
  assert.equal(judge.generation, 7);
});

test("PeerJudge returns the same verdict object for the same bytes", () => {
  const judge = createJudge();
  const leaf = leafOf("web");
  const first = judge.judge(leaf, [], AS_CLIENT);
  assert.equal(judge.judge(Uint8Array.from(leaf), [], AS_CLIENT), first);
});

test("PeerJudge drops cached trust when the certificate expires", () => {
  const judge = createJudge();
  const leaf = leafOf("web");
  const first = judge.judge(leaf, [], AS_CLIENT);
  assert.ok(first.kind === "trusted");
  const last = judge.judge(leaf, [], { usage: "client", nowMs: first.notAfterMs });
  assert.equal(last.kind, "trusted");
  const late = judge.judge(leaf, [], { usage: "client", nowMs: first.notAfterMs + 1 });
  assert.ok(late.kind === "untrusted");
  assert.match(late.reason, /expired/);
  assert.equal(judge.remembered.trusted, 0);
});

test("PeerJudge drops cached trust when the clock is set back before the certificate", () => {
  const judge = createJudge();
  const leaf = leafOf("web");
  const first = judge.judge(leaf, [], AS_CLIENT);
  assert.ok(first.kind === "trusted");
  const early = judge.judge(leaf, [], { usage: "client", nowMs: first.notBeforeMs - 1 });
  assert.equal(early.kind, "untrusted");
});

test("PeerJudge searches for another path when the cached one has expired", () => {
  const next = createAuthority({ nowMs: NOW_MS });
  const short = CA.crossSign(next, { notAfterMs: NOW_MS + 1000 });
  const long = CA.crossSign(next, { notAfterMs: NOW_MS + HOUR_MS });
  const leaf = leafOf("web", next);
  const judge = createJudge();
  const first = judge.judge(leaf, [short, long], AS_CLIENT);
  assert.ok(first.kind === "trusted" && first.notAfterMs === NOW_MS + 1000);
  const later = judge.judge(leaf, [short, long], { usage: "client", nowMs: NOW_MS + 2000 });
  assert.ok(later.kind === "trusted" && later.notAfterMs > NOW_MS + 2000);
});

test("PeerJudge reads the rest of the chain only for a new leaf", () => {
  const judge = createJudge();
  const below = CA.intermediate({ nowMs: NOW_MS });
  const leaf = leafOf("web", below);
  let asked = 0;
  const presented = () => {
    asked++;
    return below.chainDer;
  };
  const first = judge.judge(leaf, presented, AS_CLIENT);
  assert.equal(first.kind, "trusted");
  assert.equal(judge.judge(leaf, presented, AS_CLIENT), first);
  assert.equal(asked, 1);
});

test("PeerJudge compares all bytes of a leaf", () => {
  const judge = createJudge();
  const leaf = leafOf("web");
  assert.equal(judge.judge(leaf, [], AS_CLIENT).kind, "trusted");
  for (const at of [0, leaf.length >> 1, leaf.length - 7]) {
    const forged = Uint8Array.from(leaf);
    forged[at] = (forged[at] ?? 0) ^ 1;
    assert.equal(judge.judge(forged, [], AS_CLIENT).kind, "untrusted", `byte ${at}`);
  }
  const longer = Uint8Array.from([0x30, ...leaf]);
  assert.equal(judge.judge(longer, [], AS_CLIENT).kind, "untrusted");
  assert.equal(judge.judge(leaf, [], AS_CLIENT).kind, "trusted");
});

test("PeerJudge caches client and server verdicts separately", () => {
  const judge = createJudge();
  const overrides = { extendedKeyUsage: ["clientAuth"] };
  const { certDer } = CA.issueLeaf({ service: "web", key: KEY, overrides });
  assert.equal(judge.judge(certDer, [], AS_CLIENT).kind, "trusted");
  const answer = judge.judge(certDer, [], { usage: "server", nowMs: NOW_MS });
  assert.equal(answer.kind, "untrusted");
});

test("PeerJudge distinguishes the same bytes with other boundaries", () => {
  const judge = createJudge();
  const [leaf, other] = [leafOf("web"), leafOf("db")];
  assert.equal(judge.judge(leaf, [other], AS_CLIENT).kind, "trusted");
  const joined = Uint8Array.from([...leaf, ...other]);
  assert.equal(judge.judge(joined, [], AS_CLIENT).kind, "untrusted");
  const below = CA.intermediate({ nowMs: NOW_MS });
  const [issuer = new Uint8Array()] = below.chainDer;
  const api = leafOf("api", below);
  const halves = [issuer.subarray(0, 100), issuer.subarray(100)];
  assert.equal(judge.judge(api, halves, AS_CLIENT).kind, "untrusted");
  assert.equal(judge.judge(api, [issuer], AS_CLIENT).kind, "trusted");
});

test("PeerJudge evicts the peer that was seen least recently", () => {
  const judge = createJudge({ trustedLimit: 2 });
  const [web, db, api] = [leafOf("web"), leafOf("db"), leafOf("api")];
  const first = judge.judge(web, [], AS_CLIENT);
  const second = judge.judge(db, [], AS_CLIENT);
  judge.judge(web, [], AS_CLIENT);
  judge.judge(api, [], AS_CLIENT);
  assert.equal(judge.remembered.trusted, 2);
  assert.equal(judge.judge(web, [], AS_CLIENT), first);
  assert.notEqual(judge.judge(db, [], AS_CLIENT), second);
});

test("PeerJudge bounds its cache of untrusted peers, which evict no trusted one", () => {
  const judge = createJudge({ trustedLimit: 1 });
  const leaf = leafOf("web");
  const first = judge.judge(leaf, [], AS_CLIENT);
  for (let index = 0; index < 400; index++) {
    const garbage = Uint8Array.of(0x30, index >> 8, index & 0xff);
    assert.equal(judge.judge(garbage, [], AS_CLIENT).kind, "untrusted");
  }
  assert.deepEqual(judge.remembered, { trusted: 1, untrusted: 256 });
  assert.equal(judge.judge(leaf, [], AS_CLIENT), first);
});

test("PeerJudge caches an untrusted peer for ten seconds", () => {
  const judge = createJudge();
  const leaf = leafOf("web", STRANGER);
  const first = judge.judge(leaf, [], AS_CLIENT);
  assert.equal(judge.judge(leaf, [], { usage: "client", nowMs: NOW_MS + 9_999 }), first);
  assert.notEqual(judge.judge(leaf, [], { usage: "client", nowMs: NOW_MS + 10_000 }), first);
});

test("PeerJudge trusts a leaf once it becomes valid", () => {
  const judge = createJudge();
  const leaf = CA.issueLeaf({ service: "web", key: KEY, nowMs: NOW_MS + HOUR_MS }).certDer;
  assert.equal(judge.judge(leaf, [], AS_CLIENT).kind, "untrusted");
  const later = judge.judge(leaf, [], { usage: "client", nowMs: NOW_MS + HOUR_MS });
  assert.equal(later.kind, "trusted");
});

test("PeerJudge does not cache a verdict on too many bytes", () => {
  const judge = createJudge();
  const verdict = judge.judge(leafOf("web"), [new Uint8Array(1 << 20)], AS_CLIENT);
  assert.ok(verdict.kind === "untrusted");
  assert.equal(verdict.code, "chain_untrusted");
  assert.deepEqual(judge.remembered, { trusted: 0, untrusted: 0 });
});

test("PeerJudge caches unverified peers separately from verified ones", () => {
  const validator = createPeerValidator(
    { kind: "ca", rootPems: [CA.rootPem], rules: { ...NO_RULES, acceptUntrusted: true } },
    { serviceTrustDomains: [TRUST_DOMAIN], strictSpiffeChain: false },
  );
  const judge = createJudge({ validator });
  const below = CA.intermediate({ nowMs: NOW_MS });
  const leaf = leafOf("web", below);
  const bare = judge.judge(leaf, [], AS_CLIENT);
  assert.ok(bare.kind === "trusted" && !bare.verified && bare.id === undefined);
  assert.deepEqual(judge.remembered, { trusted: 0, untrusted: 1 });
  assert.equal(judge.judge(leaf, [], AS_CLIENT), bare);
  const whole = judge.judge(leaf, below.chainDer, AS_CLIENT);
  assert.ok(whole.kind === "trusted" && whole.verified && whole.id?.service === "web");
  assert.equal(judge.remembered.trusted, 1);
  const late = judge.judge(leaf, below.chainDer, {
    usage: "client",
    nowMs: whole.notAfterMs + 1,
  });
  assert.ok(late.kind === "trusted" && !late.verified && late.id === undefined);
  assert.equal(judge.remembered.trusted, 0);
});
