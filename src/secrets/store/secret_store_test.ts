import assert from "node:assert/strict";
import { test } from "node:test";
import { settle } from "../../../test/kit/clock/clock.ts";
import {
  certificateSecret,
  credentialsPlan,
  sdsSource,
  secretRef,
} from "../../../test/kit/secrets/secret_peers.ts";
import {
  BUNDLE,
  CERTIFICATE,
  FILE,
  openOf,
  SECRET_FILE,
  storeWorld,
  WEB,
  WEB_MTLS,
  WORKLOAD,
} from "../../../test/kit/secrets/secret_store.ts";
import { NO_RULES } from "../../identity/mod.ts";
import type { CredentialsPlan, SecretEvents, SecretSource } from "../mod.ts";

// References that share a subscription, and others that do not.
const DEFAULTS = { type: "validation", systemRoots: false, rules: NO_RULES } as const;
for (
  const [name, a, b, shared] of [
    ["equal references", secretRef("x"), secretRef("x"), true],
    ["other timeouts", secretRef("x"), secretRef("x", { initialFetchTimeoutMs: 1 }), true],
    ["other names", secretRef("x"), secretRef("y"), false],
    ["other types", secretRef("x"), secretRef("x", { type: "validation" }), false],
    ["other servers", secretRef("x"), secretRef("x", { source: sdsSource("b") }), false],
    ["other sources", secretRef("x"), secretRef("x", { source: FILE }), false],
    ["other defaults", secretRef("x"), secretRef("x", { defaults: DEFAULTS }), false],
  ] as const
) {
  test(`SecretStore ${shared ? "shares one subscription" : "subscribes twice"} for ${name}`, async () => {
    const { store, providers } = storeWorld();
    store.follow({
      one: credentialsPlan({ certificates: [a] }),
      two: credentialsPlan({ certificates: [b] }),
    });
    assert.equal(providers.begun, shared ? 1 : 2);
    store.follow({ two: credentialsPlan({ certificates: [b] }) });
    assert.equal(providers.size, 1);
    store.follow({});
    assert.equal(providers.size, 0);
    assert.equal(providers.closed, providers.created.length);
    await store.close();
  });
}

test("SecretStore distinguishes references by their inline bytes", async () => {
  const { store, providers } = storeWorld();
  const inline = (byte: number): SecretSource => ({
    kind: "spec",
    watch: false,
    spec: { type: "certificate", pkcs12: { kind: "inline", bytes: Uint8Array.of(byte) } },
  });
  const refs = [1, 2, 1].map((byte) => secretRef("inline", { source: inline(byte) }));
  store.follow({ web: credentialsPlan({ certificates: refs }) });
  assert.equal(providers.begun, 2);
  await store.close();
});

test("SecretStore adds defaults to the reference", async () => {
  const { store, providers } = storeWorld();
  const secret = secretRef("ca", { type: "validation" });
  store.follow({ web: credentialsPlan({ validation: { secret, defaults: DEFAULTS } }) });
  assert.deepEqual(providers.of("ca").ref, { ...secret, defaults: DEFAULTS });
  await store.close();
});

test("SecretStore makes one provider per source", async () => {
  const { store, providers } = storeWorld();
  const of = (name: string, source: SecretSource) =>
    credentialsPlan({ certificates: [secretRef(name, { source })] });
  store.follow({
    a: of("a", sdsSource()),
    b: of("b", sdsSource()),
    c: of("c", sdsSource("other")),
    d: of("d", WORKLOAD),
    e: of("e", { ...WORKLOAD, id: "spiffe://td/e" }),
    f: of("f", FILE),
    g: of("g", { ...FILE, watch: false }),
    h: of("h", SECRET_FILE),
  });
  assert.deepEqual(providers.created.map(({ kind }) => kind), [
    "sds",
    "sds",
    "workload",
    "spec",
    "secret_file",
  ]);
  await store.close();
  assert.equal(providers.closed, 5);
});

test("SecretStore.follow() leaves unchanged plans alone", async () => {
  const { store, providers } = storeWorld();
  store.follow({ web: WEB_MTLS, api: WEB });
  providers.of("web").events.onSecret(CERTIFICATE, "1");
  providers.of("ca").events.onSecret(BUNDLE, "1");
  await settle();
  const { held } = store;
  store.follow({ web: structuredClone(WEB_MTLS), api: structuredClone(WEB) });
  await settle();
  assert.equal(store.held, held);
  assert.equal(providers.begun, 2);
  store.follow({ web: WEB_MTLS });
  assert.notEqual(store.held, held);
  assert.equal(store.held.certificates, held.certificates);
  assert.equal(store.held.credentials.web, held.credentials.web);
  assert.equal(providers.begun, 2);
  await store.close();
});

test("SecretStore.follow() keeps the old plan in force until the new one is ready", async () => {
  const { store, providers, state, clock } = storeWorld();
  const plan = (name: string, parts: Partial<CredentialsPlan> = {}) =>
    credentialsPlan({ certificates: [secretRef(name)], ...parts });
  store.follow({ web: plan("one") });
  providers.of("one").events.onSecret(certificateSecret("01"), "1");
  store.follow({ web: plan("two") });
  const shown = () => Object.values(store.held.certificates).map(({ value }) => value.serial);
  assert.deepEqual([state()?.kind, shown()], ["open", ["01"]]);
  assert.deepEqual(providers.names, ["one", "two"]);
  // A second change drops the plan between.
  store.follow({ web: plan("three") });
  assert.deepEqual(providers.names, ["one", "three"]);
  providers.of("three").events.onSecret(certificateSecret("03"), "1");
  await clock.advance(1);
  assert.deepEqual([openOf(state()).certificates.length, shown()], [1, ["03"]]);
  assert.deepEqual(providers.names, ["three"]);
  // The plan in force is restored before the new one was ready.
  store.follow({ web: plan("four") });
  store.follow({ web: plan("three") });
  assert.deepEqual(providers.names, ["three"]);
  // A plan without new secrets is in force at once.
  store.follow({ web: plan("three", { requireClientCertificate: false }) });
  assert.equal(openOf(state()).requireClientCertificate, false);
  assert.equal(providers.begun, 4);
  // A plan whose secret never comes is in force after the timeout.
  store.follow({ web: plan("five") });
  await clock.advance(16_000);
  assert.deepEqual(openOf(state()).missing, ["five (sds sds_cluster, not come)"]);
  assert.deepEqual(providers.names, ["five"]);
  await store.close();
});

test("SecretStore opens a later listener at once with a secret that an earlier one awaited", async () => {
  const { store, clock, state } = storeWorld();
  store.follow({ web: WEB });
  await clock.advance(16_000);
  store.follow({ web: WEB, api: WEB });
  assert.equal(state("api")?.kind, "open");
  await store.close();
});

test("SecretStore.onChange reports the first change at once and a burst in few calls", async () => {
  const world = storeWorld();
  const { store, providers, clock } = world;
  const names = Array.from({ length: 1_000 }, (_, index) => `s${index}`);
  store.follow({ web: credentialsPlan({ certificates: names.map((name) => secretRef(name)) }) });
  await clock.advance(10_000);
  const before = world.changes;
  const watches = names.map((name) => providers.of(name));
  watches[0]?.events.onSecret(certificateSecret("first"), "1");
  await settle();
  assert.equal(world.changes, before + 1);
  for (const [index, { events }] of watches.entries()) {
    events.onSecret(certificateSecret(`b${index}`), "2");
    await clock.advance(1);
  }
  await clock.advance(1_000);
  assert.ok(world.changes - before <= 12, `${world.changes - before} announcements`);
  assert.equal(Object.keys(store.held.certificates).length, 1_000);
  // After a quiet period a change is reported at once again.
  const later = world.changes;
  watches[1]?.events.onSecret(certificateSecret("later"), "3");
  await settle();
  assert.equal(world.changes, later + 1);
  await store.close();
});

test("SecretStore.onChange reports the values of one turn as one change", async () => {
  const world = storeWorld();
  world.store.follow({ web: WEB_MTLS });
  await world.clock.advance(1_000);
  const before = world.changes;
  world.providers.of("web").events.onSecret(CERTIFICATE, "1");
  world.providers.of("ca").events.onSecret(BUNDLE, "1");
  await world.clock.advance(1_000);
  assert.equal(world.changes, before + 1);
  await world.store.close();
});

test("SecretStore.onChange is not called without a change, and may throw", async () => {
  const world = storeWorld();
  const { store, providers, clock, log } = world;
  store.follow({ web: WEB });
  const { events } = providers.of("web");
  events.onSecret(CERTIFICATE, "1");
  await clock.advance(1_000);
  const before = world.changes;
  events.onSecret({ ...CERTIFICATE }, "2");
  events.onRemoved();
  events.onUnreachable("gone");
  await clock.advance(1_000);
  assert.equal(world.changes, before);
  store.onChange = () => {
    throw new Error("no");
  };
  events.onSecret(certificateSecret("02"), "3");
  await clock.advance(1_000);
  assert.equal(log.lines.at(-1)?.message, "change of secrets not applied");
  assert.equal(Object.values(store.held.certificates)[0]?.value.serial, "02");
  await store.close();
});

test("SecretStore reports events without key material", async () => {
  const { store, providers, clock, log, reported, valueOf } = storeWorld();
  store.follow({ web: WEB });
  const { events } = providers.of("web");
  events.onUnreachable("Cannot reach it: refused");
  events.onUnreachable("Cannot reach it: refused");
  events.onSecret(certificateSecret("01"), "1");
  await clock.advance(1_000);
  events.onRejected("Cannot use it: torn");
  events.onRejected("Cannot use it: torn");
  assert.equal(store.statuses()[0]?.fault, "Cannot use it: torn");
  events.onSecret(certificateSecret("02"), "2");
  events.onRemoved();
  assert.deepEqual(reported.map(({ kind, detail }) => `${kind} ${detail.slice(0, 24)}`), [
    "unreachable Cannot reach it: refused",
    "loaded serial 01, from 2026-11-",
    "rejected Cannot use it: torn",
    "rotated serial 02, was 01, from ",
    "removed removed by its source; t",
  ]);
  assert.deepEqual(log.lines.map(({ level, message }) => `${level} ${message}`), [
    "warn secret unreachable",
    "info secret loaded",
    "warn secret rejected",
    "info certificate rotated",
    "warn secret removed by its source",
  ]);
  const rotated = log.lines.find(({ message }) => message === "certificate rotated");
  assert.deepEqual(rotated?.fields, {
    secret: "web",
    source: "sds sds_cluster",
    serial: "02",
    expires: "2027-02-19T00:00:00.000Z",
    old_serial: "01",
  });
  const of = { secret: "web", source: "sds sds_cluster" };
  assert.deepEqual(valueOf("secret_updates_total"), [{ ...of, value: 2 }]);
  assert.deepEqual(valueOf("secret_rotation_failed_total"), [{ ...of, value: 1 }]);
  const [status] = store.statuses();
  assert.match(status?.key ?? "", /^sds:sds_cluster\/web#[0-9a-f]{16}$/);
  assert.deepEqual({ ...status, key: "" }, {
    key: "",
    type: "certificate",
    name: "web",
    source: "sds sds_cluster",
    state: "active",
    version: "2",
    updatedMs: clock.now(),
    fault: "",
    certificate: {
      serial: "02",
      dnsNames: ["web.example.com"],
      uris: [],
      notBeforeMs: Date.UTC(2026, 10, 21),
      notAfterMs: Date.UTC(2027, 1, 19),
    },
  });
  const logged = JSON.stringify([store.statuses(), reported, log.lines]);
  assert.ok(!logged.includes("key 0"), logged);
  await store.close();
});

test("SecretStore clears a fault when its source repeats the secret", async () => {
  const { store, providers, clock, log, reported } = storeWorld();
  store.follow({ web: WEB });
  const { events } = providers.of("web");
  events.onSecret(CERTIFICATE, "1");
  events.onRejected("torn");
  events.onSecret({ ...CERTIFICATE }, "1");
  assert.equal(store.statuses()[0]?.fault, "");
  events.onRejected("torn");
  events.onRecovered?.();
  assert.equal(store.statuses()[0]?.fault, "");
  // A fault that returns is reported again, and so is its end.
  const once = ["rejected", "recovered"];
  assert.deepEqual(reported.map(({ kind }) => kind), ["loaded", ...once, ...once]);
  const logged = () => log.lines.map(({ level, message }) => `${level} ${message}`);
  assert.deepEqual(logged().slice(-2), ["warn secret rejected", "info secret recovered"]);
  events.onRecovered?.();
  assert.equal(reported.length, 5, "there was no fault");
  // A fault that comes and goes is logged a bounded number of times; the last line is the fault.
  const comeAndGo = () => {
    events.onUnreachable("refused");
    events.onRecovered?.();
  };
  for (let i = 0; i < 100; i++) comeAndGo();
  assert.equal(logged().length, 1 + 2 * 20 + 1);
  assert.equal(logged().at(-1), "warn secret unreachable");
  assert.equal(store.statuses()[0]?.fault, "");
  await clock.advance(3_600_000);
  comeAndGo();
  assert.equal(logged().at(-1), "info secret recovered");
  await store.close();
});

test("SecretStore bounds labels and the faults it logs", async () => {
  const { store, providers, log, valueOf } = storeWorld();
  const names = Array.from({ length: 1_500 }, (_, index) => `s${index}`);
  store.follow({ web: credentialsPlan({ certificates: names.map((name) => secretRef(name)) }) });
  const watches = names.map((name) => providers.of(name));
  for (const { events } of watches) events.onSecret(certificateSecret("01"), "1");
  const { events } = providers.of("s0");
  for (let i = 0; i < 100; i++) events.onRejected(`fault ${i}`);
  assert.equal(log.lines.filter(({ level }) => level === "warn").length, 20);
  assert.equal(valueOf("certificate_expiry_seconds").length, 1_000);
  const values = valueOf("secret_updates_total");
  assert.equal(values.length, 1_001);
  assert.deepEqual(values.at(-1), { secret: "other", source: "other", value: 500 });
  store.follow({});
  assert.deepEqual(valueOf("secret_updates_total").length, 1);
  await store.close();
});

test("SecretStore logs an outage of many secrets in a few lines, and has an event for each", async () => {
  const { store, providers, clock, log, reported } = storeWorld();
  const names = Array.from({ length: 200 }, (_, index) => `s${index}`);
  store.follow({ web: credentialsPlan({ certificates: names.map((name) => secretRef(name)) }) });
  const watches = names.map((name) => providers.of(name).events);
  for (const events of watches) events.onSecret(certificateSecret("01"), "1");
  const lines = (level: string, message: string) =>
    log.lines.filter((line) => line.level === level && line.message === message);
  for (const events of watches) events.onUnreachable("refused");
  assert.equal(lines("warn", "secret unreachable").length, 10);
  assert.deepEqual(
    lines("warn", "secret unreachable").map(({ fields }) => fields?.more).filter(Boolean),
    ["in /events"],
  );
  for (const events of watches) events.onUnreachable("no such host");
  assert.equal(lines("warn", "secret unreachable").length, 20, "another fault is logged");
  for (const events of watches) events.onRecovered?.();
  assert.equal(lines("info", "secret recovered").length, 10);
  const count = (wanted: string) => reported.filter(({ kind }) => kind === wanted).length;
  assert.deepEqual([count("unreachable"), count("recovered")], [400, 200]);
  await clock.advance(10_000);
  watches[0]?.onUnreachable("refused");
  assert.equal(lines("warn", "secret unreachable").length, 21);
  await store.close();
});

test("SecretStore.refresh() reads every source again", async () => {
  const { store, providers } = storeWorld();
  store.follow({ web: WEB_MTLS });
  store.refresh();
  assert.deepEqual([providers.of("web").refreshes, providers.of("ca").refreshes], [1, 1]);
  await store.close();
});

test("SecretStore.close() ends all subscriptions, and ignores later events", async () => {
  const world = storeWorld();
  const { store, providers, clock } = world;
  store.follow({ web: WEB_MTLS });
  const { events }: { events: SecretEvents } = providers.of("web");
  events.onSecret(CERTIFICATE, "1");
  await clock.advance(1_000);
  const { held } = store;
  const before = world.changes;
  await store.close();
  await store.close();
  assert.deepEqual([providers.size, providers.closed, clock.pending], [0, 1, 0]);
  events.onSecret(certificateSecret("02"), "2");
  events.onRemoved();
  events.onRejected("late");
  store.follow({ web: WEB });
  await clock.advance(1_000);
  assert.equal(store.held, held);
  assert.equal(world.changes, before);
  assert.equal(providers.begun, 2);
});

test("SecretStore ignores events of a secret that it no longer follows", async () => {
  const { store, providers } = storeWorld();
  store.follow({ web: WEB });
  const { events } = providers.of("web");
  store.follow({});
  events.onSecret(CERTIFICATE, "1");
  assert.deepEqual(store.held, { certificates: {}, validations: {}, credentials: {} });
  await store.close();
});
