import assert from "node:assert/strict";
import { test } from "node:test";
import { FakeClock, settle } from "../../../test/kit/clock/clock.ts";
import { rounds } from "../../../test/kit/clock/long.ts";
import {
  certificateSecret,
  credentialsPlan,
  FakeProviders,
  recordingLog,
  sdsSource,
  secretRef,
} from "../../../test/kit/secrets/secret_peers.ts";
import { seededRandom, Stats } from "../../base/mod.ts";
import { DEFAULT_ON_DEMAND_RULES, type OnDemandPlan, SecretStore } from "../mod.ts";
import type { CertificateAnswer } from "./on_demand.ts";
import { type OnDemandRules } from "../../identity/mod.ts";

function setUp(rules: Partial<OnDemandRules> = {}, parts: Partial<OnDemandPlan> = {}) {
  const clock = new FakeClock();
  const providers = new FakeProviders();
  const stats = new Stats();
  const log = recordingLog();
  const reported: string[] = [];
  const store = new SecretStore({
    clock,
    random: seededRandom(1),
    log,
    stats,
    report: ({ text }) => void reported.push(text),
    providers: providers.factory,
  });
  const plan = (more: Partial<OnDemandRules> = {}, others: Partial<OnDemandPlan> = {}) =>
    credentialsPlan({
      requireClientCertificate: false,
      onDemand: {
        source: sdsSource(),
        rules: { ...DEFAULT_ON_DEMAND_RULES, ...rules, ...more },
        prefetch: [],
        ...parts,
        ...others,
      },
    });
  store.follow({ edge: plan() });
  /** Requests a certificate; `answer` is set when it is known. */
  const ask = (name: string, remote = "192.0.2.1:1") => {
    const asked: { answer: CertificateAnswer | undefined } = { answer: undefined };
    store.certificateWanted({ credentials: "edge", name, remote })
      .then((answer) => void (asked.answer = answer));
    return asked;
  };
  const arrive = (name: string, serial = name) =>
    providers.of(name).events.onSecret(certificateSecret(serial), "1");
  const names = () => {
    const state = store.held.credentials.edge;
    if (state?.kind !== "open") return undefined;
    return state.certificates.map((key) => store.held.certificates[key]?.name);
  };
  const refused = () =>
    Object.fromEntries(
      stats.samples().filter(({ name }) => name === "on_demand_refused_total")
        .map(({ labels, value }) => [labels.reason, value]),
    );
  const count = (name: string) =>
    stats.samples().find((sample) => sample.name === name)?.value ?? 0;
  return { reported, clock, providers, store, log, plan, ask, arrive, names, refused, count };
}

const AVAILABLE = { available: true, reason: "" };

test("OnDemand: a listener opens at once, and all handshakes for a name share one subscription", async () => {
  const { clock, providers, store, ask, arrive, names, count } = setUp();
  assert.deepEqual(names(), []);
  const asked = ["a.example.com", "A.EXAMPLE.com", "a.example.com"].map((name) => ask(name));
  await clock.advance(1_000);
  assert.deepEqual(providers.names, ["a.example.com"]);
  assert.deepEqual(asked.map(({ answer }) => answer), [undefined, undefined, undefined]);
  arrive("a.example.com");
  await clock.advance(200);
  assert.deepEqual(asked.map(({ answer }) => answer), [AVAILABLE, AVAILABLE, AVAILABLE]);
  assert.deepEqual(names(), ["a.example.com"]);
  const again = ask("a.example.com");
  await settle();
  assert.deepEqual(again.answer, AVAILABLE);
  arrive("a.example.com", "02");
  await clock.advance(200);
  assert.equal(Object.values(store.held.certificates)[0]?.value.serial, "02");
  assert.deepEqual(
    ["requested_total", "updated_total", "active"].map((name) => count(`on_demand_cert_${name}`)),
    [1, 2, 1],
  );
  await store.close();
});

test("OnDemand answers a waiting handshake after the certificate is published", async () => {
  const { clock, store, ask, arrive, names } = setUp();
  const order: string[] = [];
  store.onChange = () => void order.push(`published ${names()?.length}`);
  // Also in the pause after another announcement.
  for (const name of ["a.example.com", "b.example.com"]) {
    store.certificateWanted({ credentials: "edge", name, remote: "unix" })
      .then(() => order.push(`answered ${name[0]}`));
  }
  arrive("a.example.com");
  await settle();
  arrive("b.example.com");
  const late = ask("b.example.com");
  await settle();
  assert.deepEqual(order, ["published 1", "answered a"]);
  assert.equal(late.answer, undefined);
  await clock.advance(200);
  assert.deepEqual(order, ["published 1", "answered a", "published 2", "answered b"]);
  assert.deepEqual(late.answer, AVAILABLE);
  await store.close();
});

// Failures of a name, and the reason for the next client.
for (
  const [name, fail, reason] of [
    ["is removed", "onRemoved", /no certificate of this name/],
    ["does not come in time", "nothing", /did not answer in time/],
    ["cannot be used", "onRejected", /torn/],
    ["cannot be reached", "onUnreachable", /torn/],
  ] as const
) {
  test(`OnDemand does not request a name that ${name} again for a while`, async () => {
    const { reported, clock, providers, store, ask, arrive, refused, log } = setUp();
    const asked = ask("a.example.com");
    if (fail === "onRemoved") providers.of("a.example.com").events.onRemoved();
    else if (fail !== "nothing") providers.of("a.example.com").events[fail]("torn");
    await clock.advance(7_900);
    assert.equal(asked.answer === undefined, fail !== "onRemoved");
    await clock.advance(300);
    assert.equal(asked.answer?.available, false);
    assert.match(asked.answer?.reason ?? "", reason);
    assert.equal(providers.size, 0);
    const again = ask("a.example.com");
    await settle();
    assert.match(again.answer?.reason ?? "", reason);
    assert.equal(providers.begun, 1);
    assert.deepEqual(refused(), {
      [fail === "onRemoved" ? "removed" : "timed_out"]: 1,
      negative: 1,
    });
    // Names that clients make up cause neither log lines nor events.
    assert.deepEqual([reported, log.lines], [[], []]);
    await clock.advance(33_001);
    const later = ask("a.example.com");
    arrive("a.example.com");
    await clock.advance(200);
    assert.deepEqual(later.answer, AVAILABLE);
    await store.close();
  });
}

test("OnDemand drops a held name that its source removes", async () => {
  const { clock, providers, store, ask, arrive, names, count } = setUp();
  ask("a.example.com");
  arrive("a.example.com");
  await clock.advance(1_000);
  providers.of("a.example.com").events.onRemoved();
  await settle();
  assert.deepEqual(names(), []);
  assert.deepEqual(store.held.certificates, {});
  assert.equal(providers.size, 0);
  assert.equal(count("on_demand_cert_active"), 0);
  // The source stays connected.
  assert.equal(providers.closed, 0);
  await store.close();
});

test("OnDemand evicts the name that was requested least recently", async () => {
  const { clock, providers, store, ask, arrive, names } = setUp({ maxEntries: 3 });
  for (const name of ["a.x", "b.x", "c.x"]) {
    ask(name);
    arrive(name);
  }
  ask("a.x");
  const late = ask("d.x");
  assert.equal(providers.size, 4);
  arrive("d.x");
  await clock.advance(200);
  assert.deepEqual(late.answer, AVAILABLE);
  assert.deepEqual(names(), ["c.x", "a.x", "d.x"]);
  assert.deepEqual(providers.names, ["a.x", "c.x", "d.x"]);
  await store.close();
});

test("OnDemand evicts nothing for names without a certificate", async () => {
  const { clock, providers, store, ask, arrive, names } = setUp({
    maxEntries: 2,
    perSourceRate: 1_000,
  });
  for (const name of ["a.x", "b.x"]) {
    ask(name);
    arrive(name);
  }
  for (let i = 0; i < 50; i++) ask(`n${i}.x`);
  for (let i = 0; i < 50; i++) providers.of(`n${i}.x`).events.onRemoved();
  await clock.advance(1_000);
  assert.deepEqual(names(), ["a.x", "b.x"]);
  assert.equal(providers.size, 2);
  await store.close();
});

test("OnDemand limits the rate of new names of one client address, and not of others", async () => {
  const { clock, store, ask, refused, providers } = setUp({ perSourceRate: 5 });
  const asked = Array.from({ length: 8 }, (_, index) => ask(`n${index}.x`, `192.0.2.1:${index}`));
  await settle();
  assert.deepEqual(asked.map(({ answer }) => answer?.available), [
    ...Array(5).fill(undefined),
    ...Array(3).fill(false),
  ]);
  // A name that other handshakes have requested does not count as new.
  const joined = ask("n0.x");
  const other = ask("other.x", "192.0.2.2:1");
  await clock.advance(400);
  const [sixth, seventh, eighth] = [ask("m0.x"), ask("m1.x"), ask("m2.x")];
  await settle();
  assert.deepEqual([joined, other, sixth, seventh].map(({ answer }) => answer), [
    undefined,
    undefined,
    undefined,
    undefined,
  ]);
  assert.equal(eighth.answer?.reason, "too many new names from this address");
  assert.deepEqual(refused(), { rate: 4 });
  assert.equal(providers.size, 8);
  await store.close();
});

test("OnDemand limits the names that are awaited at once", async () => {
  const { clock, store, ask, arrive, providers, refused } = setUp({
    maxPending: 3,
    perSourceRate: 100,
  });
  const asked = Array.from({ length: 5 }, (_, index) => ask(`n${index}.x`));
  await settle();
  assert.deepEqual(asked.map(({ answer }) => answer?.available), [
    undefined,
    undefined,
    undefined,
    false,
    false,
  ]);
  assert.deepEqual(refused(), { pending: 2 });
  arrive("n0.x");
  ask("n3.x");
  assert.equal(providers.size, 4);
  await clock.advance(1);
  await store.close();
});

test("OnDemand limits the handshakes that wait at once, over all names", async () => {
  const { store, ask, refused } = setUp();
  for (let i = 0; i < 10_005; i++) ask("a.example.com");
  await settle();
  assert.deepEqual(refused(), { waiters: 5 });
  await store.close();
  await settle();
  assert.deepEqual(refused(), { waiters: 5, closed: 10_000 });
});

test("OnDemand gives a client without SNI the default name's certificate, or refuses it", async () => {
  const nameless = setUp();
  const refused = nameless.ask("");
  await settle();
  assert.equal(refused.answer?.reason, "the client named no host");
  await nameless.store.close();

  const world = setUp({ names: ["other.example.com"] }, { defaultName: "fallback" });
  assert.deepEqual(world.providers.names, ["fallback"]);
  const asked = world.ask("");
  world.arrive("fallback");
  await world.clock.advance(200);
  assert.deepEqual(asked.answer, AVAILABLE);
  const state = world.store.held.credentials.edge;
  assert.equal(state?.kind === "open" && state.defaultName, "fallback");
  await world.store.close();
});

test("OnDemand does not wait for prefetched names, and never drops them", async () => {
  const { clock, providers, store, ask, arrive, names, log } = setUp(
    { maxEntries: 1 },
    { prefetch: ["a.x", "b.x", "c.x"] },
  );
  assert.deepEqual([names(), providers.names], [[], ["a.x", "b.x", "c.x"]]);
  for (const name of ["a.x", "b.x"]) arrive(name);
  for (const name of ["d.x", "e.x"]) {
    ask(name);
    arrive(name);
  }
  await clock.advance(200);
  assert.deepEqual(names(), ["a.x", "b.x", "e.x"]);
  // A removed certificate is not shown any more, but may return.
  const { events } = providers.of("c.x");
  events.onRemoved();
  const asked = ask("c.x");
  await settle();
  assert.equal(asked.answer?.available, false);
  assert.ok(log.lines.some(({ message }) => message === "secret removed by its source"));
  arrive("c.x");
  const again = ask("c.x");
  await clock.advance(200);
  assert.deepEqual(again.answer, AVAILABLE);
  assert.deepEqual(names(), ["a.x", "b.x", "c.x", "e.x"]);
  assert.equal(providers.begun, 5);
  await store.close();
});

test("OnDemand does not show a prefetched certificate that its source removed", async () => {
  const { clock, providers, store, arrive, names } = setUp({}, { prefetch: ["a.x"] });
  arrive("a.x");
  await clock.advance(200);
  providers.of("a.x").events.onRemoved();
  await clock.advance(200);
  assert.deepEqual(names(), []);
  arrive("a.x");
  await clock.advance(200);
  assert.deepEqual(names(), ["a.x"]);
  await store.close();
});

test("OnDemand.update() keeps the names that the new rules allow", async () => {
  const { clock, providers, store, ask, arrive, names, plan } = setUp({ suffixes: [".x", ".y"] });
  for (const name of ["a.x", "b.x", "c.y", "d.y"]) {
    ask(name);
    arrive(name);
  }
  const waiting = ask("e.y");
  await clock.advance(200);
  store.follow({ edge: plan({ suffixes: [".x"] }, { prefetch: ["d.y"] }) });
  await clock.advance(200);
  assert.deepEqual(names(), ["d.y", "a.x", "b.x"]);
  assert.equal(waiting.answer?.reason, "the configuration changed");
  assert.equal(providers.begun, 5);
  store.follow({ edge: plan({ suffixes: [".x"], maxEntries: 1 }) });
  assert.deepEqual(names(), ["b.x"]);
  store.follow({ edge: plan({}, { source: sdsSource("other") }) });
  assert.deepEqual([names(), providers.size], [[], 0]);
  await clock.advance(200);
  assert.equal(providers.closed, 1);
  await store.close();
});

test("OnDemand shares a certificate that another plan follows", async () => {
  const { clock, providers, store, ask, arrive, names, plan } = setUp();
  store.follow({
    edge: plan(),
    web: credentialsPlan({ certificates: [secretRef("a.x")] }),
  });
  arrive("a.x");
  const asked = ask("a.x");
  await clock.advance(200);
  assert.deepEqual([asked.answer, names(), providers.begun], [AVAILABLE, ["a.x"], 1]);
  // The removal drops the name here; a listener with the certificate in its configuration keeps the value.
  providers.of("a.x").events.onRemoved();
  assert.deepEqual(names(), []);
  assert.equal(Object.keys(store.held.certificates).length, 1);
  await store.close();
});

test("SecretStore.certificateWanted() refuses for listeners without on-demand certificates, and unknown ones", async () => {
  const { store, plan } = setUp();
  store.follow({ web: credentialsPlan(), agent: plan({}, { source: { kind: "consul" } }) });
  for (const credentials of ["web", "agent", "edge", "__proto__"]) {
    const answer = await store.certificateWanted({ credentials, name: "a.x", remote: "unix" });
    assert.equal(answer.available, false);
  }
  await store.close();
});

test("OnDemand.refresh() allows requests for absent names again", async () => {
  const { clock, providers, store, ask } = setUp();
  ask("a.x");
  providers.of("a.x").events.onRemoved();
  store.refresh();
  ask("a.x");
  assert.equal(providers.begun, 2);
  await clock.advance(1);
  await store.close();
});

test("OnDemand has a bounded cost for very many random names", { timeout: 120_000 }, async () => {
  const { clock, providers, store, names, refused } = setUp({
    maxEntries: 100,
    maxPending: 50,
    waitMs: 1_000,
  });
  // Every third name exists; the rest are answered late or not at all.
  const known: (() => void)[] = [];
  providers.onWatch = ({ ref, events }) => {
    const index = Number(ref.name.slice(1, -2));
    if (index % 3 === 0) known.push(() => events.onSecret(certificateSecret(ref.name), "1"));
    if (index % 3 === 1) known.push(() => events.onRemoved());
  };
  let answered = 0;
  let announced = 0;
  store.onChange = () => void announced++;
  const random = seededRandom(7);
  const thousands = rounds("thousands of random names", { few: 40, all: 1_000 });
  for (let round = 0; round < thousands; round++) {
    for (let i = 0; i < 1_000; i++) {
      const remote = `10.${round % 250}.${Math.floor(random() * 250)}.${i % 250}:1`;
      const name = `n${Math.floor(random() * 1e9)}.x`;
      store.certificateWanted({ credentials: "edge", name, remote }).then(() => answered++);
    }
    for (const answer of known.splice(0)) answer();
    await clock.advance(100);
  }
  await clock.advance(2_000);
  assert.equal(answered, 1_000 * thousands);
  assert.ok(providers.peak <= 152, `${providers.peak} subscriptions at once`);
  assert.ok(providers.size <= 100, `${providers.size} subscriptions at the end`);
  assert.equal(names()?.length, 100);
  assert.ok(announced <= thousands + 100, `${announced} announcements`);
  assert.ok(store.statuses().length <= 100);
  assert.ok((refused().pending ?? 0) > 900 * thousands);
  await store.close();
});

test("OnDemand: a listener with a certificate of its own opens without on-demand ones", async () => {
  const { clock, store, ask, arrive, names, plan } = setUp();
  store.follow({ edge: { ...plan(), certificates: [secretRef("own.x")] } });
  await clock.advance(16_000);
  const state = store.held.credentials.edge;
  assert.deepEqual(state?.kind === "open" && state.missing, []);
  ask("a.x");
  arrive("a.x");
  arrive("own.x");
  // Its own certificate is the first, and so the default.
  assert.deepEqual(names(), ["own.x", "a.x"]);
  await store.close();
});
