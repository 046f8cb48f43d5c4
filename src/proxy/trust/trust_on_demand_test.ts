import assert from "node:assert/strict";
import { test } from "node:test";
import { certificatePart, withOwn } from "../../../test/kit/secrets/own_credentials.ts";
import {
  CA,
  choose,
  KEY,
  MESH,
  NOW_MS,
  shownBy,
  trustOf,
  WEB,
  world,
} from "../../../test/kit/engine/trusts.ts";
import { DEFAULT_ON_DEMAND_RULES } from "../../secrets/mod.ts";
import { TrustContext } from "./trust_context.ts";
import { trustMaterial } from "./trust_material.ts";

/** An on-demand listener that already has the certificate `a.example`. */
function onDemand(rules: Partial<typeof DEFAULT_ON_DEMAND_RULES> = {}, defaultName?: string) {
  const place = world();
  const certificates = {
    "sds a.example": certificatePart(WEB, { name: "a.example", dnsNames: ["a.example"] }),
  };
  const part = {
    onDemand: { ...DEFAULT_ON_DEMAND_RULES, suffixes: [".example"], ...rules },
    defaultName: defaultName ?? null,
  };
  const snapshot = withOwn(MESH, KEY, { certificates, own: part });
  const trust = place.current = trustOf(snapshot, { in: place });
  return { place, snapshot, trust };
}

for (
  const [name, serverName] of [
    ["a name outside the suffixes", "a.test"],
    ["an invalid DNS name", "a..example"],
    ["an address", "10.0.0.1"],
    ["a long name", `${"a".repeat(250)}.example`],
    ["no name", undefined],
  ] as const
) {
  test(`Trust.server() on demand fetches no certificate for ${name}`, () => {
    const { place, trust } = onDemand();
    assert.equal(choose(trust, serverName), undefined);
    assert.deepEqual(place.wants, []);
  });
}

test("Trust.server() on demand shows an available certificate at once", () => {
  const { place, trust } = onDemand();
  assert.equal(shownBy(choose(trust, "a.example")), WEB.certPem);
  assert.deepEqual(place.wants, []);
});

test("Trust.server() on demand shows the default to a client without SNI", () => {
  const { place, trust } = onDemand({}, "a.example");
  assert.equal(shownBy(choose(trust)), WEB.certPem);
  assert.deepEqual(place.wants, []);
});

test("Trust.server() on demand shows a fetched certificate of the generation then in force", async () => {
  const { place, snapshot, trust } = onDemand();
  const chosen = choose(trust, "b.example");
  assert.deepEqual(place.wants, ["b.example"]);
  const fresh = CA.issueLeaf({ service: "b" });
  const part = certificatePart(fresh, { name: "b.example", dnsNames: ["b.example"] });
  const certificates = { ...snapshot.certificates, "sds b.example": part };
  place.current = trustOf(
    withOwn(snapshot, KEY, { certificates, own: { onDemand: DEFAULT_ON_DEMAND_RULES } }),
    { in: place, previous: trust },
  );
  place.answer(true);
  assert.equal(shownBy(await chosen), fresh.certPem);
});

test("Trust.server() on demand shows no certificate that was not fetched, expired or was removed", async () => {
  const { place, snapshot, trust } = onDemand();
  const refused = choose(trust, "b.example");
  place.answer(false);
  assert.equal(await refused, undefined);
  const gone = choose(trust, "b.example");
  place.answer(true);
  assert.equal(await gone, undefined, "the generation in force does not have it");
  const closed = choose(trust, "b.example");
  place.current = undefined;
  place.answer(true);
  assert.equal(await closed, undefined, "nothing is in force");
  const late = choose(trust, "b.example");
  const part = certificatePart(WEB, { name: "b.example", notAfterMs: NOW_MS - 1 });
  place.current = trustOf(
    withOwn(snapshot, KEY, {
      certificates: { "sds b.example": part },
      own: { onDemand: DEFAULT_ON_DEMAND_RULES },
    }),
    { in: place },
  );
  place.answer(true);
  assert.equal(await late, undefined, "it has expired");
});

test("Trust.server() on demand limits the names that are being fetched", async () => {
  const { place, trust } = onDemand({ maxPending: 2 });
  const waiting = [choose(trust, "b.example"), choose(trust, "c.example")];
  assert.equal(choose(trust, "d.example"), undefined);
  assert.deepEqual(place.wants, ["b.example", "c.example"]);
  place.answer(false);
  await Promise.all(waiting);
  assert.ok(choose(trust, "d.example") instanceof Promise, "there is room again");
});

test("Trust.server() on demand frees the place of a failed fetch", async () => {
  const place = world();
  const options = { ...place.options, want: () => Promise.reject(new Error("lost")) };
  const rules = { ...DEFAULT_ON_DEMAND_RULES, suffixes: [".example"], maxPending: 1 };
  const certificates = { "sds a.example": certificatePart(WEB, { name: "a.example" }) };
  const material = trustMaterial(
    withOwn(MESH, KEY, { certificates, own: { onDemand: rules } }),
    KEY,
  );
  assert.ok(material);
  const trust = new TrustContext(material, options);
  for (const name of ["b.example", "c.example", "d.example"]) {
    const chosen = choose(trust, name);
    assert.ok(chosen instanceof Promise, "it is fetched");
    await assert.rejects(chosen, /lost/);
  }
});

test("Trust.fault() on demand ignores an expired certificate", () => {
  const { trust } = onDemand();
  assert.equal(trust.fault(NOW_MS + 10 * 365 * 86_400_000), undefined);
});
