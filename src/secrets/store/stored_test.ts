/** `SecretStore` with secrets of an earlier run. */
import assert from "node:assert/strict";
import { test } from "node:test";
import {
  certificateSecret,
  credentialsPlan,
  sdsSource,
  secretRef,
} from "../../../test/kit/secrets/secret_peers.ts";
import {
  BUNDLE,
  openOf,
  type StoreWorld,
  storeWorld,
  WORKLOAD,
} from "../../../test/kit/secrets/secret_store.ts";
import {
  type CertificateSecret,
  DEFAULT_ON_DEMAND_RULES,
  type SecretRef,
  type StoredSecrets,
  type ValidationSecret,
} from "../mod.ts";
import { keyOfRef, keySalt } from "./key.ts";

/** The salt of the earlier process. */
const SALT = "5a17";
const DAY_MS = 86_400_000;
const CA = secretRef("ca", { type: "validation" });
const MTLS = credentialsPlan({ certificates: [secretRef("web")], validation: { secret: CA } });

function stored(
  certificates: readonly (readonly [SecretRef, CertificateSecret])[],
  validations: readonly (readonly [SecretRef, ValidationSecret])[] = [],
): StoredSecrets {
  const keyOf = (ref: SecretRef) => keyOfRef(ref, SALT);
  return {
    salt: SALT,
    certificates: Object.fromEntries(
      certificates.map(([ref, value]) => [keyOf(ref), { name: ref.name, value }]),
    ),
    validations: Object.fromEntries(validations.map(([ref, value]) => [keyOf(ref), value])),
    credentials: { web: certificates.map(([ref]) => keyOf(ref)) },
  };
}

/** A certificate that is valid for 90 days from the start of the world's clock. */
function good({ clock }: StoreWorld, serial: string): CertificateSecret {
  return certificateSecret(serial, { notBeforeMs: clock.now() });
}

function serials({ store }: StoreWorld): readonly string[] {
  const { certificates } = openOf(store.held.credentials.web);
  return certificates.map((key) => store.held.certificates[key]?.value.serial ?? "none");
}

test("SecretStore.restore() opens at once with stored values, then follows the sources", async () => {
  const world = storeWorld();
  const { store, providers, clock, reported } = world;
  assert.notEqual(keyOfRef(CA), keyOfRef(CA, SALT));
  store.restore({ web: MTLS }, stored([[secretRef("web"), good(world, "01")]], [[CA, BUNDLE]]));
  assert.deepEqual(serials(world), ["01"]);
  const { validation } = openOf(store.held.credentials.web);
  assert.deepEqual(store.held.validations[validation ?? ""]?.value, BUNDLE);
  assert.deepEqual(providers.names, ["web", "ca"]);
  assert.deepEqual(store.statuses().map(({ state }) => state), ["active", "active"]);
  assert.deepEqual(reported.map(({ kind }) => kind), ["restored", "restored"]);

  // The stored value is used until the source sends its own.
  await clock.advance(60_000);
  assert.deepEqual(serials(world), ["01"]);
  providers.of("web").events.onSecret(good(world, "02"), "2");
  assert.deepEqual(serials(world), ["02"]);
  assert.equal(reported.at(-1)?.kind, "rotated");
  assert.match(reported.at(-1)?.detail ?? "", /was 01/);

  // An equal plan watches no source again.
  store.follow({ web: structuredClone(MTLS) });
  assert.deepEqual([providers.begun, serials(world)], [2, ["02"]]);
  await store.close();
});

test("SecretStore.restore() reports no change if a source sends the stored value", async () => {
  const world = storeWorld();
  const { store, providers, clock } = world;
  const first = good(world, "01");
  store.restore({ web: MTLS }, stored([[secretRef("web"), first]], [[CA, BUNDLE]]));
  const { held } = store;
  await clock.advance(1_000);
  const { changes } = world;
  providers.of("web").events.onSecret(structuredClone(first), "1");
  providers.of("ca").events.onSecret(structuredClone(BUNDLE), "1");
  await clock.advance(1_000);
  assert.equal(store.held, held);
  assert.equal(world.changes, changes);
  await store.close();
});

test("SecretStore.restore() drops a stored value if its source denies it before its first answer", async () => {
  const ref = secretRef("web", { source: WORKLOAD });
  const plan = credentialsPlan({ certificates: [ref] });
  for (const deniedFirst of [false, true]) {
    const world = storeWorld();
    const { store, providers } = world;
    const restore = () => store.restore({ web: plan }, stored([[ref, good(world, "01")]]));
    if (deniedFirst) store.follow({ web: plan });
    else restore();
    providers.of("web").events.onDenied?.("nothing is registered");
    // Without a value the listener waits on, because the workload may be registered later.
    if (deniedFirst) assert.equal(store.held.credentials.web?.kind, "warming");
    if (deniedFirst) restore();
    assert.deepEqual(store.held.certificates, {});
    providers.of("web").events.onSecret(good(world, "02"), "");
    assert.deepEqual(serials(world), ["02"]);
    await store.close();
  }
});

test("SecretStore.restore() gives values to awaited secrets", async () => {
  const world = storeWorld();
  const { store, providers, clock, state } = world;
  store.follow({ web: MTLS });
  await clock.advance(16_000);
  assert.equal(openOf(state()).missing.length, 2);
  store.restore({ web: MTLS }, stored([[secretRef("web"), good(world, "01")]], [[CA, BUNDLE]]));
  assert.deepEqual(openOf(state()).missing, []);
  assert.deepEqual(serials(world), ["01"]);
  // A value from the source is newer than the stored one.
  providers.of("web").events.onSecret(good(world, "02"), "2");
  store.restore({ web: MTLS }, stored([[secretRef("web"), good(world, "01")]]));
  assert.deepEqual(serials(world), ["02"]);
  await store.close();
});

for (
  const [name, ref] of [
    ["another server", secretRef("web", { source: sdsSource("other") })],
    ["another name", secretRef("api")],
    ["other rules", secretRef("web", { defaults: { type: "validation" } as never })],
  ] as const
) {
  test(`SecretStore.restore() waits for ${name}, whatever was stored`, async () => {
    const world = storeWorld();
    const { store, state } = world;
    const plan = credentialsPlan({ certificates: [ref] });
    store.restore({ web: plan }, stored([[secretRef("web"), good(world, "01")]]));
    assert.equal(state()?.kind, "warming");
    assert.deepEqual(store.held.certificates, {});
    await store.close();
  });
}

test("SecretStore.restore() ignores expired values, and keys of another process", async () => {
  const world = storeWorld();
  const { store, clock, state } = world;
  const plan = credentialsPlan({ certificates: [secretRef("web")] });
  const expired = certificateSecret("01", { notBeforeMs: 0, notAfterMs: clock.now() });
  store.restore({ web: plan }, stored([[secretRef("web"), expired]]));
  assert.equal(state()?.kind, "warming");
  const other = { ...stored([[secretRef("web"), good(world, "01")]]), salt: keySalt() };
  store.restore({ web: plan }, other);
  assert.equal(state()?.kind, "warming");
  await store.close();
});

test("SecretStore.restore() does not restore a withdrawn value", async () => {
  const world = storeWorld();
  const { store, providers, state } = world;
  const ref = secretRef("svid", { source: WORKLOAD });
  const plan = credentialsPlan({ certificates: [ref] });
  const was = stored([[ref, good(world, "01")]]);
  store.restore({ web: plan }, was);
  assert.deepEqual(serials(world), ["01"]);
  providers.of("svid").events.onRemoved();
  assert.equal(openOf(state()).missing.length, 1);
  store.restore({ web: plan }, was);
  assert.equal(openOf(state()).missing.length, 1, "it is not restored");
  await store.close();
});

test("SecretStore.restore() warns of stored certificates near their expiry", async () => {
  const world = storeWorld();
  const { store, clock, log } = world;
  const plan = credentialsPlan({ certificates: [secretRef("web")] });
  store.restore({ web: plan }, stored([[secretRef("web"), good(world, "01")]]));
  await clock.advance(61 * DAY_MS);
  assert.ok(log.lines.some(({ message }) => /expire/.test(message)), "there is no warning");
  await store.close();
});

test("SecretStore.restore() follows the names that clients requested", async () => {
  const world = storeWorld();
  const { store, providers, clock } = world;
  const source = sdsSource();
  const rules = { ...DEFAULT_ON_DEMAND_RULES, suffixes: [".example.com"] };
  const onDemand = { source, rules, prefetch: ["pinned.example.com"] };
  const plan = credentialsPlan({ certificates: [secretRef("own")], onDemand });
  const named = (name: string) => secretRef(name, { source, initialFetchTimeoutMs: 0 });
  const expired = certificateSecret("04", { notBeforeMs: 0, notAfterMs: clock.now() });
  store.restore(
    { web: plan },
    stored([
      [secretRef("own"), good(world, "01")],
      [named("pinned.example.com"), good(world, "02")],
      [named("asked.example.com"), good(world, "03")],
      [named("expired.example.com"), expired],
      [named("elsewhere.test"), good(world, "05")],
      [secretRef("foreign.example.com", { source: sdsSource("other") }), good(world, "06")],
    ]),
  );
  assert.deepEqual(serials(world), ["01", "02", "03"]);
  assert.deepEqual([...providers.names].sort(), [
    "asked.example.com",
    "own",
    "pinned.example.com",
  ]);
  const asked = { credentials: "web", name: "asked.example.com", remote: "10.0.0.1" };
  const answer = store.certificateWanted(asked);
  await clock.advance(1);
  assert.equal((await answer).available, true);
  providers.of("asked.example.com").events.onSecret(good(world, "13"), "2");
  assert.deepEqual(serials(world), ["01", "02", "13"]);
  await store.close();
});
