import assert from "node:assert/strict";
import { test } from "node:test";
import {
  certificateSecret,
  credentialsPlan,
  secretRef,
} from "../../../test/kit/secrets/secret_peers.ts";
import { BUNDLE } from "../../../test/kit/secrets/secret_store.ts";
import * as facts from "../../../test/kit/consul/snapshot_facts.ts";
import {
  type CertificateSecret,
  type CredentialsState,
  type HeldSecret,
  type HeldSecrets,
} from "../../secrets/mod.ts";
import { assemble, type AssembleOptions, NO_MEMORY } from "../consul/assemble.ts";
import { NO_PLANS } from "./credential_plans.ts";
import { judgeCredentials } from "./judge_credentials.ts";
import type { ConsulState } from "../consul/consul_state.ts";
import {
  keyInForce,
  NOTHING_HELD,
  type OwnCredentials,
  ownCredentials,
  warmingShown,
} from "./own_credentials.ts";
import { healthKey, planChain } from "../consul/plan.ts";
import { MESH_KEY, type Snapshot } from "../../snapshot/mod.ts";

const OPEN: CredentialsState & { kind: "open" } = {
  kind: "open",
  certificates: ["file web"],
  validation: "file roots",
  missing: [],
  requireClientCertificate: true,
  onDemand: null,
};
const WARMING: CredentialsState = { kind: "warming", waitingFor: ["web", "roots"] };
const DB = "service:default/default/db";

function certificate(serial: string): HeldSecret<CertificateSecret> {
  return {
    key: "file web",
    name: "web",
    source: "file /web.pem",
    value: certificateSecret(serial),
  };
}
const held = (credentials: HeldSecrets["credentials"], serial = "01"): HeldSecrets => ({
  certificates: { "file web": certificate(serial) },
  validations: {
    "file roots": { key: "file roots", name: "roots", source: "file /roots.pem", value: BUNDLE },
  },
  credentials,
});

const CA = facts.authority();
const OPTIONS: AssembleOptions = {
  proxyId: "web-1-sidecar-proxy",
  authorize: "match",
  strictSpiffeChain: false,
  judge: judgeCredentials,
  nowMs: facts.NOW_MS,
  monotonicMs: 0,
  graceMs: 5_000,
  lastResortMs: 300_000,
  idleTimeoutMs: 3_600_000,
  lifetimeMs: 0,
};
const PLAN = credentialsPlan({ certificates: [secretRef("web")] });
const OWN_INBOUND = { ...NO_PLANS, plans: { inbound: PLAN }, inbound: "inbound" };
const OWN_DB = { ...NO_PLANS, plans: { [DB]: PLAN }, upstreams: new Map([[DB, DB]]) };

/** `web` with upstream `db`, all of it known. */
const KNOWN: ConsulState = (() => {
  const declaration = facts.declaration("db");
  const registration = facts.registration({ upstreams: [declaration] });
  const plan = planChain(declaration, facts.chain(facts.target("db")), registration);
  assert.ok(plan.kind === "targets");
  return {
    registration,
    leaf: facts.leafOf(CA),
    roots: facts.rootsOf(CA),
    intentions: [],
    defaultAction: "deny",
    mesh: null,
    proxyDefaults: null,
    serviceDefaults: null,
    jwtProviders: new Map(),
    plans: new Map([[DB, plan]]),
    instances: new Map(
      plan.targets.map(({ health }) => [healthKey(health), [facts.instance("db")]]),
    ),
    queries: new Map(),
    unheard: new Map(),
    refused: [],
  };
})();

/** The snapshots of one step after the other. */
function snapshots(...steps: readonly Partial<AssembleOptions>[]): readonly Snapshot[] {
  let memory = NO_MEMORY;
  return steps.map((step) => {
    const assembled = assemble(KNOWN, memory, { ...OPTIONS, ...step });
    memory = assembled.memory;
    assert.ok(assembled.outcome.kind === "ready");
    return assembled.outcome.snapshot;
  });
}
const [MESH] = snapshots({});
const previousOf = (own: OwnCredentials): Snapshot => {
  assert.ok(MESH);
  const { certificates, validations, ownCredentials } = own;
  return { ...MESH, certificates, validations, ownCredentials };
};
const own = (
  from: HeldSecrets,
  { previous, trustDomains = ["a.consul"], wanted = ["inbound"], version = 7 }: {
    readonly previous?: OwnCredentials;
    readonly trustDomains?: readonly string[];
    readonly wanted?: readonly string[];
    readonly version?: number;
  } = {},
) =>
  ownCredentials({
    held: from,
    wanted,
    trustDomains,
    previous: previous && previousOf(previous),
    version,
  });

test("ownCredentials() gives what is held as parts, without more than is referred to", () => {
  const parts = own({
    ...held({ inbound: OPEN, other: OPEN }),
    certificates: { "file web": certificate("01"), "file other": certificate("02") },
  });
  const { type: _, ...secret } = certificateSecret("01");
  assert.deepEqual(parts.certificates, {
    "file web": { ...secret, version: 7, name: "web", source: "file /web.pem" },
  });
  assert.deepEqual(parts.validations, {
    "file roots": {
      version: 7,
      name: "roots",
      source: "file /roots.pem",
      validation: BUNDLE.validation,
    },
  });
  assert.deepEqual(parts.ownCredentials, {
    inbound: {
      version: 7,
      certificates: ["file web"],
      validation: "file roots",
      missing: [],
      requireClientCertificate: true,
      onDemand: null,
      defaultName: null,
      tls: null,
      trustDomains: ["a.consul"],
    },
  });
  assert.equal(parts.warming.size, 0);
});

for (
  const [name, state] of [
    ["are still waited for", { inbound: WARMING }],
    ["nobody has heard of", {}],
  ] as const
) {
  test(`ownCredentials() has none for a listener whose secrets ${name}`, () => {
    const parts = own(held(state));
    assert.deepEqual([parts.certificates, parts.validations, parts.ownCredentials], [{}, {}, {}]);
    assert.deepEqual([...parts.warming.keys()], ["inbound"]);
  });
}

test("ownCredentials() names awaited secrets", () => {
  assert.deepEqual(warmingShown(own(held({ inbound: WARMING }))), [
    "secrets of inbound (web, roots)",
  ]);
});

test("ownCredentials() carries over what a listener had while new ones are waited for", () => {
  const first = own(held({ inbound: OPEN }));
  for (const from of [NOTHING_HELD, held({ inbound: WARMING }, "02")]) {
    const next = own(from, { previous: first, version: 8 });
    assert.deepEqual(next.certificates, first.certificates);
    assert.deepEqual(next.validations, first.validations);
    assert.deepEqual(next.ownCredentials, first.ownCredentials);
    assert.deepEqual([...next.warming.keys()], ["inbound"]);
  }
});

test("ownCredentials() drops parts without a reference", () => {
  const next = own(held({ inbound: OPEN }), {
    previous: own(held({ inbound: OPEN })),
    wanted: [],
  });
  assert.deepEqual([next.certificates, next.validations, next.ownCredentials], [{}, {}, {}]);
});

test("ownCredentials() names missing secrets rather than go without their rules", () => {
  const state = { ...OPEN, validation: "file roots", missing: ["roots"] };
  const parts = own({ ...held({ inbound: state }), validations: {} });
  assert.deepEqual(parts.ownCredentials.inbound?.missing, ["roots"]);
  assert.equal(parts.ownCredentials.inbound?.validation, "file roots");
  assert.deepEqual(parts.validations, {});
});

test("ownCredentials() leaves the agent's to the mesh's own part", () => {
  const state = { ...OPEN, certificates: [MESH_KEY], validation: MESH_KEY };
  const parts = own({ ...held({ inbound: state }), certificates: {}, validations: {} });
  assert.deepEqual([parts.certificates, parts.validations], [{}, {}]);
  assert.deepEqual(parts.ownCredentials.inbound?.certificates, [MESH_KEY]);
  assert.equal(parts.ownCredentials.inbound?.validation, MESH_KEY);
});

test("ownCredentials() gives a rotated certificate a new version, and nothing else", () => {
  const first = own(held({ inbound: OPEN }));
  const next = own(held({ inbound: OPEN }, "02"), { previous: first, version: 8 });
  assert.equal(next.certificates["file web"]?.version, 8);
  assert.equal(next.validations["file roots"], first.validations["file roots"]);
  assert.equal(next.ownCredentials.inbound, first.ownCredentials.inbound);
  const again = own(held({ inbound: OPEN }), { previous: first, version: 9 });
  assert.equal(again.certificates["file web"], first.certificates["file web"]);
});

test("ownCredentials() follows trust domains: another one, other service ids", () => {
  const first = own(held({ inbound: OPEN }));
  const next = own(held({ inbound: OPEN }), {
    previous: first,
    trustDomains: ["b.consul"],
    version: 8,
  });
  assert.equal(next.ownCredentials.inbound?.version, 8);
});

test("ownCredentials() shares a secret between listeners", () => {
  const { certificates, ownCredentials } = own(held({ inbound: OPEN, [DB]: OPEN }), {
    wanted: ["inbound", DB],
  });
  assert.deepEqual(Object.keys(certificates), ["file web"]);
  assert.deepEqual(Object.keys(ownCredentials), ["inbound", DB]);
});

const THERE = { ownCredentials: own(held({ inbound: OPEN })).ownCredentials };
const GONE = { ownCredentials: {} };
for (
  const [name, wanted, old, parts, want] of [
    ["takes its own once they are there", "inbound", null, THERE, "inbound"],
    ["takes its own in place of the mesh's", "inbound", { credentials: null }, THERE, "inbound"],
    ["keeps the mesh's until then", "inbound", { credentials: null }, GONE, null],
    ["stays closed without either", "inbound", undefined, GONE, undefined],
    ["takes the mesh's where nothing else is wanted", null, undefined, GONE, null],
    ["goes back to the mesh's at once", null, { credentials: "inbound" }, THERE, null],
    ["stays closed by what was refused", "refused", undefined, THERE, undefined],
    [
      "keeps the old ones over what was refused",
      "refused",
      { credentials: "inbound" },
      THERE,
      "inbound",
    ],
    ["keeps the mesh's over what was refused", "refused", { credentials: null }, GONE, null],
    [
      "does not go by old ones that are gone",
      "refused",
      { credentials: "inbound" },
      GONE,
      undefined,
    ],
  ] as const
) {
  test(`keyInForce() ${name}`, () => assert.equal(keyInForce(wanted, old, parts), want));
}

test("assemble() opens the public listener when its own secrets are there", () => {
  const [first, second] = snapshots(
    { plans: OWN_INBOUND, held: held({ inbound: WARMING }) },
    { plans: OWN_INBOUND, held: held({ inbound: OPEN }) },
  );
  assert.deepEqual(first?.inbound, {});
  assert.equal(second?.inbound["inbound"]?.credentials, "inbound");
});

test("assemble() changes an open listener over without a moment in which it is closed", () => {
  const [, warming, open, back] = snapshots(
    {},
    { plans: OWN_INBOUND, held: held({ inbound: WARMING }) },
    { plans: OWN_INBOUND, held: held({ inbound: OPEN }) },
    {},
  );
  assert.equal(warming?.inbound["inbound"]?.credentials, null);
  assert.equal(open?.inbound["inbound"]?.credentials, "inbound");
  assert.equal(back?.inbound["inbound"]?.credentials, null);
});

test("assemble() changes an upstream over without a moment in which it is closed", () => {
  const [, warming, open, back] = snapshots(
    {},
    { plans: OWN_DB, held: held({ [DB]: WARMING }) },
    { plans: OWN_DB, held: held({ [DB]: OPEN }) },
    {},
  );
  assert.equal(warming?.upstreams[DB]?.credentials, null);
  assert.equal(open?.upstreams[DB]?.credentials, DB);
  assert.equal(back?.upstreams[DB]?.credentials, null);
});

test("assemble() keeps an upstream closed until its first secrets are there", () => {
  const [first, second] = snapshots(
    { plans: OWN_DB, held: held({ [DB]: WARMING }) },
    { plans: OWN_DB, held: held({ [DB]: OPEN }) },
  );
  assert.equal(first?.upstreams[DB], undefined);
  assert.equal(second?.upstreams[DB]?.credentials, DB);
});

test("assemble() closes a plaintext listener whose callers must use TLS", () => {
  const key = `${DB} listener`;
  const plans = { ...NO_PLANS, plans: { [key]: PLAN }, listeners: new Map([[DB, key]]) };
  const refused = { ...NO_PLANS, listeners: new Map([[DB, "refused" as const]]) };
  const [plain, warming, open, bad] = snapshots(
    {},
    { plans, held: held({ [key]: WARMING }) },
    { plans, held: held({ [key]: OPEN }) },
    { plans: refused },
  );
  assert.equal(plain?.upstreams[DB]?.listener, null);
  assert.equal(warming?.upstreams[DB], undefined);
  assert.equal(open?.upstreams[DB]?.listener?.credentials, key);
  assert.equal(bad?.upstreams[DB], undefined);
});

for (const [name, plans] of [["inbound", OWN_INBOUND], ["upstream", OWN_DB]] as const) {
  const refused = {
    ...NO_PLANS,
    ...name === "inbound"
      ? { inbound: "refused" as const }
      : { upstreams: new Map([[DB, "refused" as const]]) },
    refused: [{ what: "credentials", reason: "bad" }],
  };
  const keyOf = (snapshot: Snapshot | undefined) =>
    (name === "inbound" ? snapshot?.inbound[name] : snapshot?.upstreams[DB])?.credentials;

  test(`assemble() opens no ${name} by the mesh's credentials instead of refused ones`, () => {
    const [first] = snapshots({ plans: refused });
    assert.equal(keyOf(first), undefined);
  });

  test(`assemble() keeps an open ${name} as it was when a change is refused`, () => {
    const [, second] = snapshots({}, { plans: refused });
    assert.equal(keyOf(second), null);
    const both = held({ inbound: OPEN, [DB]: OPEN });
    const [, kept] = snapshots(
      { plans, held: both },
      { plans: { ...plans, refused: refused.refused }, held: both },
    );
    assert.equal(keyOf(kept), name === "inbound" ? "inbound" : DB);
  });
}
