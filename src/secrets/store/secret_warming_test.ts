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
  CONSUL,
  FILE,
  openOf,
  SECRET_FILE,
  storeWorld,
  WEB,
  WEB_MTLS,
  WORKLOAD,
} from "../../../test/kit/secrets/secret_store.ts";
import { NO_RULES } from "../../identity/mod.ts";
import { MESH_KEY } from "../../snapshot/mod.ts";

// Events that end the wait for a secret (envoy.md 1.5), by kind of source.
for (
  const [name, source, event, ends] of [
    ["an SDS secret", sdsSource(), "onSecret", true],
    ["a rejected SDS secret", sdsSource(), "onRejected", true],
    ["a removed SDS secret", sdsSource(), "onRemoved", true],
    ["an unreachable SDS server", sdsSource(), "onUnreachable", false],
    ["a file", FILE, "onSecret", true],
    ["a file that cannot be used", FILE, "onRejected", false],
    ["a file that cannot be read", FILE, "onUnreachable", false],
    ["a secret file", SECRET_FILE, "onSecret", true],
    ["a secret file that cannot be used", SECRET_FILE, "onRejected", false],
    ["an SVID", WORKLOAD, "onSecret", true],
    ["a withdrawn SVID", WORKLOAD, "onRemoved", true],
    ["an SVID that cannot be used", WORKLOAD, "onRejected", true],
    ["an unreachable Workload API", WORKLOAD, "onUnreachable", false],
  ] as const
) {
  test(`SecretStore ${ends ? "opens" : "keeps waiting"} after ${name}`, async () => {
    const { store, providers, state, clock } = storeWorld();
    store.follow({ web: credentialsPlan({ certificates: [secretRef("web", { source })] }) });
    assert.equal(state()?.kind, "warming");
    const { events } = providers.of("web");
    if (event === "onSecret") events.onSecret(CERTIFICATE, "1");
    else if (event === "onRemoved") events.onRemoved();
    else events[event]("Cannot use it: it is wrong");
    assert.equal(state()?.kind, ends ? "open" : "warming");
    if (ends) assert.equal(openOf(state()).missing.length, event === "onSecret" ? 0 : 1);
    await clock.advance(14_999 - clock.monotonic());
    assert.equal(state()?.kind, ends ? "open" : "warming");
    await clock.advance(400);
    const open = openOf(state());
    if (event !== "onSecret") assert.match(open.missing.join(), /^web \(/);
    // A late secret is used.
    events.onSecret(CERTIFICATE, "2");
    assert.deepEqual(openOf(state()).missing, []);
    assert.deepEqual(openOf(state()).certificates, Object.keys(store.held.certificates));
    await store.close();
  });
}

test("SecretStore waits for ever if the timeout is 0", async () => {
  const { store, providers, state, clock, valueOf } = storeWorld();
  const ref = secretRef("web", { initialFetchTimeoutMs: 0 });
  store.follow({ web: credentialsPlan({ certificates: [ref] }) });
  await clock.advance(30 * 86_400_000);
  assert.deepEqual(state(), { kind: "warming", waitingFor: ["web (sds sds_cluster)"] });
  assert.deepEqual(valueOf("secret_init_fetch_timeouts_total"), []);
  providers.of("web").events.onSecret(CERTIFICATE, "1");
  assert.equal(state()?.kind, "open");
  await store.close();
});

test("SecretStore counts and logs a timeout once", async () => {
  const { store, clock, valueOf, log, reported } = storeWorld();
  store.follow({ web: WEB, api: WEB });
  await clock.advance(60_000);
  assert.deepEqual(valueOf("secret_init_fetch_timeouts_total"), [
    { secret: "web", source: "sds sds_cluster", value: 1 },
  ]);
  assert.deepEqual(reported.map(({ kind, detail }) => [kind, detail]), [
    ["timed out", "no answer"],
  ]);
  assert.equal(log.lines.filter(({ level }) => level === "warn").length, 1);
  assert.equal(store.statuses()[0]?.state, "missing");
  assert.equal(store.statuses()[0]?.version, "uninitialized");
  await store.close();
});

// The secrets that an open listener needs (envoy.md 0.8).
for (
  const [name, arrived, missing] of [
    ["nothing", [], ["a", "b", "ca"]],
    ["one certificate of two", ["a"], ["ca"]],
    ["the other certificate", ["b"], ["ca"]],
    ["the bundle", ["ca"], ["a", "b"]],
    ["one certificate and the bundle", ["b", "ca"], []],
    ["everything", ["b", "a", "ca"], []],
  ] as const
) {
  test(`SecretStore with ${name} names the missing secrets`, async () => {
    const { store, providers, state, clock } = storeWorld();
    store.follow({
      web: credentialsPlan({
        certificates: [secretRef("a"), secretRef("b")],
        validation: { secret: secretRef("ca", { type: "validation" }) },
      }),
    });
    for (const name of arrived) {
      const { events } = providers.of(name);
      if (name === "ca") events.onSecret(BUNDLE, "1");
      else events.onSecret(certificateSecret(name), "1");
    }
    await settle();
    assert.equal(state()?.kind, arrived.length === 3 ? "open" : "warming");
    await clock.advance(16_000);
    const open = openOf(state());
    assert.deepEqual(open.missing.map((text) => text.split(" ")[0]), missing);
    const names = open.certificates.map((key) => store.held.certificates[key]?.name);
    // Certificates are in the plan's order, not in that of their arrival.
    assert.deepEqual(
      names,
      ["a", "b"].filter((name) => (arrived as readonly string[]).includes(name)),
    );
    assert.equal(open.validation !== null, (arrived as readonly string[]).includes("ca"));
    await store.close();
  });
}

test("SecretStore does not wait for the agent's secrets", async () => {
  const { store, providers, state } = storeWorld();
  const validation = secretRef("roots", { type: "validation", source: CONSUL });
  store.follow({
    web: credentialsPlan({
      certificates: [secretRef("leaf", { source: CONSUL })],
      validation: { secret: validation },
    }),
  });
  assert.deepEqual(openOf(state()), {
    kind: "open",
    certificates: [MESH_KEY],
    validation: MESH_KEY,
    missing: [],
    requireClientCertificate: true,
    onDemand: null,
  });
  assert.equal(providers.created.length, 0);
  await store.close();
});

test("SecretStore trusts no peer if rules are added to the agent's roots", async () => {
  const { store, state } = storeWorld();
  const secret = secretRef("roots", { type: "validation", source: CONSUL });
  const defaults = { type: "validation", systemRoots: false, rules: NO_RULES } as const;
  store.follow({ web: credentialsPlan({ validation: { secret, defaults } }) });
  assert.equal(openOf(state()).validation, null);
  assert.deepEqual(openOf(state()).missing, ["roots (consul with rules)"]);
  await store.close();
});

test("SecretStore has no certificate and no validation if the plan has none", async () => {
  const { store, state } = storeWorld();
  store.follow({ web: credentialsPlan({ requireClientCertificate: false }) });
  assert.deepEqual(openOf(state()).missing, []);
  await store.close();
});

test("SecretStore never warms again once open", async () => {
  const { store, providers, state, clock } = storeWorld();
  store.follow({ web: WEB });
  const { events } = providers.of("web");
  events.onSecret(CERTIFICATE, "1");
  const { held } = store;
  events.onUnreachable("Cannot reach it: connection refused");
  events.onRejected("Cannot use it: torn");
  events.onRemoved();
  await clock.advance(86_400_000);
  assert.equal(store.held, held);
  assert.equal(state()?.kind, "open");
  assert.equal(Object.values(store.held.certificates)[0]?.value, CERTIFICATE);
  await store.close();
});

test("SecretStore stops using a withdrawn SVID and bundle", async () => {
  const { store, providers, state, clock, valueOf } = storeWorld();
  store.follow({
    web: credentialsPlan({
      certificates: [secretRef("svid", { source: WORKLOAD })],
      validation: { secret: secretRef("bundle", { type: "validation", source: WORKLOAD }) },
    }),
  });
  providers.of("svid").events.onSecret(CERTIFICATE, "");
  providers.of("bundle").events.onSecret(BUNDLE, "");
  await clock.advance(1);
  assert.deepEqual(openOf(state()).missing, []);
  assert.equal(valueOf("certificate_expiry_seconds").length, 1);
  providers.of("svid").events.onRemoved();
  providers.of("bundle").events.onRemoved();
  const open = openOf(state());
  assert.deepEqual([open.certificates, open.validation], [[], null]);
  assert.equal(open.missing.length, 2);
  assert.deepEqual([store.held.certificates, store.held.validations], [{}, {}]);
  assert.deepEqual(store.statuses().map((status) => status.state), ["missing", "missing"]);
  assert.deepEqual(valueOf("certificate_expiry_seconds"), []);
  providers.of("svid").events.onSecret(CERTIFICATE, "");
  assert.equal(openOf(state()).missing.length, 1);
  await store.close();
});

test("SecretStore refuses a secret of the wrong type", async () => {
  const { store, providers, state } = storeWorld();
  store.follow({ web: WEB });
  providers.of("web").events.onSecret(BUNDLE, "1");
  assert.equal(openOf(state()).missing.length, 1);
  assert.match(store.statuses()[0]?.fault ?? "", /validation came for a certificate/);
  await store.close();
});

test("SecretStore requires client certificates when SPIFFE rules arrive that require them", async () => {
  const SPIFFE = {
    type: "validation",
    validation: { kind: "spiffe", bundles: { "a.test": ["root"] }, rules: NO_RULES },
  } as const;
  for (const [demand, required] of [[{ requireForSpiffe: true }, true], [{}, false]] as const) {
    const { store, providers, state } = storeWorld();
    const plan = { ...WEB_MTLS, requireClientCertificate: false, ...demand };
    store.follow({ web: plan });
    providers.of("web").events.onSecret(CERTIFICATE, "1");
    const { events } = providers.of("ca");
    events.onSecret(BUNDLE, "1");
    assert.equal(openOf(state()).requireClientCertificate, false);
    events.onSecret(SPIFFE, "2");
    assert.equal(openOf(state()).requireClientCertificate, required);
    events.onSecret(BUNDLE, "3");
    assert.equal(openOf(state()).requireClientCertificate, false);
    await store.close();
  }
});

test("SecretStore distinguishes missing secrets that have not come, were withdrawn, or are unknown", () => {
  const ref = secretRef("web", { source: WORKLOAD });
  const { store, providers, state } = storeWorld();
  store.follow({ web: credentialsPlan({ certificates: [ref] }) });
  const { events } = providers.of("web");
  const missing = () => openOf(state()).missing;
  events.onRemoved();
  assert.deepEqual(missing(), ["web (workload unix:///run/s.sock, not known to its source)"]);
  events.onSecret(CERTIFICATE, "");
  assert.deepEqual(missing(), []);
  events.onRemoved();
  assert.deepEqual(missing(), ["web (workload unix:///run/s.sock, withdrawn)"]);
});
