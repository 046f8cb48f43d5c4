import assert from "node:assert/strict";
import { test } from "node:test";
import { createAuthority, TRUST_DOMAIN } from "../../../test/kit/certs/certificates.ts";
import type { Authority } from "../../../test/kit/certs/authority.ts";
import { NO_RULES, parseCertificate, type PeerRules, type Validation } from "../../identity/mod.ts";
import { generateKey } from "../../../test/kit/certs/mint.ts";
import { mintCrlPem } from "../../../test/kit/certs/mint_crl.ts";
import { formatPem } from "../../wire/mod.ts";
import { RulesJudge, type ShownChain } from "./rules_judge.ts";
import type { PeerRulesInForce } from "./trust_material.ts";

const HOUR_MS = 3_600_000;
/** The time when the first peer was verified. */
const THEN_MS = Date.UTC(2026, 10, 21, 12);
/** SPIRE prunes a CA a day after it expired. */
const PRUNED_MS = THEN_MS + 25 * HOUR_MS;
const KEY = generateKey();

function ca(fromMs: number, untilMs: number, trustDomain = TRUST_DOMAIN): Authority {
  const overrides = { notBeforeMs: THEN_MS + fromMs, notAfterMs: THEN_MS + untilMs };
  return createAuthority({ nowMs: THEN_MS, trustDomain, overrides });
}

const OLD = ca(-HOUR_MS, HOUR_MS);
const LASTING = ca(-HOUR_MS, 1_000 * HOUR_MS);
const NEXT = ca(-HOUR_MS, 1_000 * HOUR_MS);
const OTHER_DOMAIN = ca(-HOUR_MS, HOUR_MS, "other.test");

function shown(by: Authority): ShownChain {
  const leaf = by.issueLeaf({ service: "web", key: KEY, nowMs: THEN_MS });
  return { leaf: leaf.certDer, chain: () => leaf.chainDer };
}

function crlOf(authority: Authority): string {
  return mintCrlPem({
    signer: authority.key.privateKey,
    issuerDer: parseCertificate(authority.rootDer).subject,
    thisUpdateMs: THEN_MS - HOUR_MS,
    nextUpdateMs: PRUNED_MS + HOUR_MS,
  });
}

let generation = 0;

function rulesOf(validation: Validation): PeerRulesInForce {
  generation++;
  return {
    id: String(generation),
    generation,
    validation,
    serviceTrustDomains: [TRUST_DOMAIN],
    strictSpiffeChain: false,
  };
}

type Roots = readonly { readonly rootPem: string }[];
const pemsOf = (roots: Roots) => roots.map(({ rootPem }) => rootPem);
const KINDS = {
  mesh: (roots: Roots): Validation => {
    return { kind: "mesh", rootPems: pemsOf(roots), trustDomains: [TRUST_DOMAIN] };
  },
  ca: (roots: Roots, rules: Partial<PeerRules> = {}): Validation => {
    return { kind: "ca", rootPems: pemsOf(roots), rules: { ...NO_RULES, ...rules } };
  },
  spiffe: (roots: Roots, rules: Partial<PeerRules> = {}): Validation => ({
    kind: "spiffe",
    bundles: { [TRUST_DOMAIN]: pemsOf(roots), "other.test": [OTHER_DOMAIN.rootPem] },
    rules: { ...NO_RULES, ...rules },
  }),
};

/** The last of successive judges, one for each version. */
function following(...versions: readonly (readonly [Validation, number])[]): RulesJudge {
  let judge: RulesJudge | undefined;
  for (const [validation, atMs] of versions) {
    judge = new RulesJudge(rulesOf(validation), judge, atMs);
  }
  assert.ok(judge);
  return judge;
}

/** The verdict on an open connection that was verified at `verifiedMs`. */
function again(
  judge: RulesJudge,
  peer: ShownChain,
  times: { readonly nowMs?: number; readonly sureMs?: number; readonly verifiedMs?: number } = {},
): string {
  const { nowMs = PRUNED_MS, sureMs = nowMs, verifiedMs = THEN_MS } = times;
  const at = { usage: "client", nowMs: verifiedMs, presentMs: nowMs, sureMs } as const;
  return judge.judgeAgain(peer, at).kind;
}

function anew(judge: RulesJudge, peer: ShownChain, nowMs: number): string {
  return judge.judge(peer, { usage: "client", nowMs, presentMs: nowMs }).kind;
}

for (const [kind, by] of Object.entries(KINDS)) {
  test(`judgeAgain() keeps a connection after the expired anchor of ${kind} rules was pruned`, () => {
    const judge = following([by([OLD, NEXT]), THEN_MS], [by([NEXT]), PRUNED_MS]);
    assert.equal(again(judge, shown(OLD)), "trusted");
    // New connections cannot use it, whatever the time of their handshake.
    assert.equal(anew(judge, shown(OLD), PRUNED_MS), "untrusted");
    assert.equal(anew(judge, shown(OLD), THEN_MS), "untrusted");
  });

  test(`judgeAgain() ends a connection whose anchor of ${kind} rules was withdrawn before it expired`, () => {
    const judge = following([by([LASTING, NEXT]), THEN_MS], [by([NEXT]), PRUNED_MS]);
    assert.equal(again(judge, shown(LASTING)), "untrusted");
  });

  test(`judgeAgain() keeps a connection whose intermediate of ${kind} rules expired as well`, () => {
    const middle = OLD.intermediate({ overrides: { notAfterMs: THEN_MS + HOUR_MS / 2 } });
    const judge = following([by([OLD, NEXT]), THEN_MS], [by([NEXT]), PRUNED_MS]);
    assert.equal(again(judge, shown(middle)), "trusted");
  });
}

test("judgeAgain() treats an intermediate that is an anchor like any anchor", () => {
  const middle = OLD.intermediate({ overrides: { notAfterMs: THEN_MS + HOUR_MS / 2 } });
  const anchor = { rootPem: formatPem("CERTIFICATE", middle.chainDer[0] ?? new Uint8Array()) };
  const judge = following(
    [KINDS.ca([anchor, NEXT]), THEN_MS],
    [KINDS.ca([NEXT]), PRUNED_MS],
  );
  assert.equal(again(judge, shown(middle)), "trusted");
});

const { ca: any, spiffe } = KINDS;
const [before, pruned] = [any([OLD, NEXT]), any([NEXT])];
for (
  const [name, first, second] of [
    [
      "a name that the peer does not have",
      before,
      any([NEXT], {
        matchers: [{
          type: "uri",
          matcher: { kind: "exact", value: "spiffe://x/y", ignoreCase: false },
        }],
      }),
    ],
    ["a pin of another certificate", before, any([NEXT], { certificateHashes: ["00".repeat(32)] })],
    ["no CA certificate allowed at all", before, any([NEXT], { maxDepth: 0 })],
    ["revocation lists without that of its CA", before, any([NEXT], { crlPems: [crlOf(NEXT)] })],
    ["rules of another kind", before, spiffe([NEXT])],
    ["bundles without its trust domain", spiffe([OLD, NEXT]), {
      kind: "spiffe",
      bundles: { "other.test": [OTHER_DOMAIN.rootPem] },
      rules: NO_RULES,
    }],
    ["another trust domain", KINDS.mesh([OLD, NEXT]), {
      kind: "mesh",
      rootPems: [NEXT.rootPem],
      trustDomains: ["other.consul"],
    }],
  ] as const satisfies readonly (readonly [string, Validation, Validation])[]
) {
  test(`judgeAgain() still ends a connection by ${name}`, () => {
    const judge = following([first, THEN_MS], [second, PRUNED_MS]);
    assert.equal(again(judge, shown(OLD)), "untrusted");
  });
}

test("judgeAgain() does not use an anchor of another trust domain", () => {
  const both = (roots: Roots): Validation => ({
    kind: "spiffe",
    bundles: { [TRUST_DOMAIN]: [NEXT.rootPem], "other.test": pemsOf(roots) },
    rules: NO_RULES,
  });
  const judge = following([both([OLD, NEXT]), THEN_MS], [both([NEXT]), PRUNED_MS]);
  assert.equal(again(judge, shown(OLD)), "untrusted");
});

for (
  const [name, times] of [
    ["the clock was only set forward when it left", { sureMs: THEN_MS + HOUR_MS / 2 }],
    ["it was verified when that had expired", { verifiedMs: THEN_MS + 2 * HOUR_MS }],
  ] as const
) {
  test(`judgeAgain() ends a connection with its anchor if ${name}`, () => {
    // With allowExpired an expired anchor still verifies, so its removal is a withdrawal.
    const rules = { allowExpired: true };
    const judge = following(
      [any([OLD, NEXT], rules), THEN_MS],
      [any([NEXT], rules), PRUNED_MS],
    );
    assert.equal(again(judge, shown(OLD)), "trusted");
    assert.equal(again(judge, shown(OLD), times), "untrusted");
  });
}

test("judgeAgain() counts the last millisecond of an anchor as valid", () => {
  const rules = { allowExpired: true };
  const judge = following([any([OLD, NEXT], rules), THEN_MS], [any([NEXT], rules), PRUNED_MS]);
  const lastMs = THEN_MS + HOUR_MS;
  assert.equal(again(judge, shown(OLD), { verifiedMs: lastMs }), "trusted");
  assert.equal(again(judge, shown(OLD), { verifiedMs: lastMs + 1 }), "untrusted");
  assert.equal(again(judge, shown(OLD), { sureMs: lastMs + 1 }), "trusted");
  assert.equal(again(judge, shown(OLD), { sureMs: lastMs }), "untrusted");
});

test("judgeAgain() keeps the verified name of a peer under acceptUntrusted", () => {
  const rules = { acceptUntrusted: true };
  const judge = following([any([OLD, NEXT], rules), THEN_MS], [any([NEXT], rules), PRUNED_MS]);
  const at = { usage: "client", nowMs: THEN_MS, presentMs: PRUNED_MS } as const;
  const verdict = judge.judgeAgain(shown(OLD), { ...at, sureMs: PRUNED_MS });
  assert.ok(verdict.kind === "trusted");
  assert.deepEqual([verdict.verified, verdict.id?.service], [true, "web"]);
  const anew = judge.judge(shown(OLD), at);
  assert.ok(anew.kind === "trusted" && !anew.verified);
});

test("a retired anchor is kept over rotations while a connection uses it, and no longer", () => {
  const peer = shown(OLD);
  const later = (judge: RulesJudge) => new RulesJudge(rulesOf(pruned), judge, PRUNED_MS);
  let judge = following([before, THEN_MS], [pruned, PRUNED_MS]);
  for (let i = 0; i < 3; i++) {
    assert.equal(again(judge, peer), "trusted");
    judge = later(judge);
  }
  // No connection was judged by it this time: the last one has ended.
  assert.equal(again(later(judge), peer), "untrusted");
});

test("an anchor that returns and is withdrawn before it expires ends its connections", () => {
  const judge = following(
    [any([LASTING, NEXT]), THEN_MS],
    // The clock was ahead when it was removed for the first time.
    [pruned, THEN_MS + 2_000 * HOUR_MS],
    [any([LASTING, NEXT]), THEN_MS],
    [pruned, THEN_MS],
  );
  assert.equal(again(judge, shown(LASTING), { nowMs: THEN_MS + HOUR_MS }), "untrusted");
});
