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

/** With one certificate `a.example` fetched already. */
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
    ["off the list", "a.test"],
    ["no DNS name", "a..example"],
    ["an address", "10.0.0.1"],
    ["too long", `${"a".repeat(250)}.example`],
    ["no name at all", undefined],
  ] as const
) {
  test(`Trust.server() on demand asks nobody for ${name}`, () => {
    const { place, trust } = onDemand();
    assert.equal(choose(trust, serverName), undefined);
    assert.deepEqual(place.wants, []);
  });
}

test("Trust.server() on demand shows what is there at once", () => {
  const { place, trust } = onDemand();
  assert.equal(shownBy(choose(trust, "a.example")), WEB.certPem);
  assert.deepEqual(place.wants, []);
});

test("Trust.server() on demand shows the default to who names nobody", () => {
  const { place, trust } = onDemand({}, "a.example");
  assert.equal(shownBy(choose(trust)), WEB.certPem);
  assert.deepEqual(place.wants, []);
});

test("Trust.server() on demand shows what came in the generation that then is in force", async () => {
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

test("Trust.server() on demand shows nothing where nothing came, or it has expired, or gone", async () => {
  const { place, snapshot, trust } = onDemand();
  const refused = choose(trust, "b.example");
  place.answer(false);
  assert.equal(await refused, undefined);
  const gone = choose(trust, "b.example");
  place.answer(true);
  assert.equal(await gone, undefined, "the generation in force has it not");
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

test("Trust.server() on demand bounds the names that are waited for", async () => {
  const { place, trust } = onDemand({ maxPending: 2 });
  const waiting = [choose(trust, "b.example"), choose(trust, "c.example")];
  assert.equal(choose(trust, "d.example"), undefined);
  assert.deepEqual(place.wants, ["b.example", "c.example"]);
  place.answer(false);
  await Promise.all(waiting);
  assert.ok(choose(trust, "d.example") instanceof Promise, "there is room again");
});

test("Trust.server() on demand has room again after a question that failed", async () => {
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
    assert.ok(chosen instanceof Promise, "it is asked for");
    await assert.rejects(chosen, /lost/);
  }
});

test("Trust.fault() on demand: a single certificate that has expired keeps no other name away", () => {
  const { trust } = onDemand();
  assert.equal(trust.fault(NOW_MS + 10 * 365 * 86_400_000), undefined);
});
