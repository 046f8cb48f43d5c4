import assert from "node:assert/strict";
import test from "node:test";
import { createAuthority } from "../kit/certs/certificates.ts";
import { type Place, startEcho, type TestServer } from "../kit/wire/echo.ts";
import { SDS_CLUSTER } from "../kit/peers/envoy_tls.ts";
import { type PosternTls, startPosternTls } from "../kit/peers/postern_tls.ts";
import { eventually, pause } from "../kit/process/process.ts";
import { promptly } from "../kit/clock/promptly.ts";
import { certificateSecret, type SdsPeer, startSdsPeer } from "../kit/secrets/sds_peer.ts";
import { probeTls, serialOf } from "../kit/wire/tls_probe.ts";
import { TlsSession } from "../kit/wire/tls_session.ts";

const ca = createAuthority();
const issue = (name: string) => ca.issueLeaf({ service: "edge", overrides: { dnsNames: [name] } });

interface Edge {
  readonly sds: SdsPeer;
  readonly proxy: PosternTls;
  readonly place: Place;
  /** Whether this host is served, and with this leaf. */
  serves(name: string, leaf: { readonly certPem: string }): Promise<boolean>;
  refuses(name: string): Promise<boolean>;
  /** The number of requests for a name that the server got. */
  subscriptions(name?: string): Promise<number>;
}

/** A listener without a certificate of its own, in our form of configuration. */
async function withEdge(
  rules: Readonly<Record<string, unknown>>,
  use: (edge: Edge) => Promise<void>,
): Promise<void> {
  await using echo: TestServer = await startEcho({ host: "127.0.0.1" });
  await using sds = await startSdsPeer();
  await using proxy = await startPosternTls({
    sds: sds.address,
    inbound: {
      tls: {
        onDemand: { cluster: SDS_CLUSTER, api: "delta", ...rules },
        validation: { source: "none" },
      },
      target: echo,
    },
  });
  const place = await eventually("the listener is open", () => proxy.place("tls_in"));
  const probe = (servername: string) => probeTls(place, { servername, timeoutMs: 60_000 });
  await use({
    sds,
    proxy,
    place,
    serves: async (name, leaf) => {
      const outcome = await probe(name);
      return outcome.accepted && outcome.serial === serialOf(leaf.certPem);
    },
    refuses: async (name) => !(await probe(name)).accepted,
    subscriptions: async (name) => {
      const { entries } = await sds.log();
      // An answer to the server names nothing; a subscription does.
      const asked = entries.filter(({ event }) => event === "request")
        .flatMap(({ names = [] }) => names);
      return name === undefined ? asked.length : asked.filter((each) => each === name).length;
    },
  });
}

test("on demand: 200 handshakes of one name wait for one subscription", async () => {
  await withEdge(
    { perSourceRate: 1_000, wait: "30s" },
    async ({ sds, place, proxy, subscriptions }) => {
      const leaf = issue("new.example");
      assert.equal(
        (await sds.log()).entries.length,
        0,
        "no secret was requested before a client came",
      );
      await sds.stall();
      await sds.set({ "new.example": certificateSecret(leaf) });
      const sessions = Promise.all(Array.from(
        { length: 200 },
        () => TlsSession.open(place, { servername: "new.example", timeoutMs: 60_000 }),
      ));
      await eventually(
        "the name was asked for",
        async () => await subscriptions("new.example") > 0,
      );
      await pause(500);
      await sds.unstall();
      const opened = await sessions;
      for (const session of opened) {
        assert.equal(session.serial, serialOf(leaf.certPem));
        session[Symbol.dispose]();
      }
      assert.equal(await subscriptions("new.example"), 1);
      const requested = () => proxy.postern.metric("postern_on_demand_cert_requested_total");
      await eventually("it is counted once", async () => await requested() === 1);

      const next = issue("new.example");
      await sds.set({ "new.example": certificateSecret(next) });
      await eventually("it is rotated like any other", async () => {
        using session = await TlsSession.open(place, { servername: "NEW.example" });
        return session.serial === serialOf(next.certPem);
      });
    },
  );
});

test("on demand: a prefetched secret is served before the first client, and without the server", async () => {
  await withEdge({ prefetch: ["early.example"], wait: "1s" }, async ({ sds, serves, refuses }) => {
    const leaf = issue("early.example");
    await sds.set({ "early.example": certificateSecret(leaf) });
    await sds.acknowledged("early.example");
    await sds.stop();
    await eventually("it is served", () => serves("early.example", leaf));
    assert.ok(await refuses("late.example"), "the server is away");
    assert.ok(await serves("early.example", leaf));
  });
});

test("on demand: an unknown name is refused within the wait, and is not requested again", async () => {
  const rules = { wait: "2s", negativeTtl: "10s", prefetch: ["early.example"] };
  await withEdge(rules, async ({ sds, refuses, serves, subscriptions }) => {
    // The server is connected before any client's wait ends.
    const early = issue("early.example");
    await sds.set({ "early.example": certificateSecret(early) });
    await eventually("the server is connected", () => serves("early.example", early));
    let attempts = 0;
    // Each attempt has a name that no client has asked for before.
    const name = () => `nobody${attempts}.example`;
    await promptly("it is refused", 5_000, async () => {
      attempts++;
      const startedMs = performance.now();
      assert.ok(await refuses(name()));
      return performance.now() - startedMs;
    });
    assert.equal(await subscriptions(name()), 1);
    // A slow machine does fewer before that is forgotten.
    const until = performance.now() + 6_000;
    for (let i = 0; i < 20 && performance.now() < until; i++) assert.ok(await refuses(name()));
    assert.equal(await subscriptions(name()), 1, "asked for again");

    const leaf = issue(name());
    await sds.set({ [name()]: certificateSecret(leaf) });
    await eventually("it is served when that is forgotten", () => serves(name(), leaf));
    assert.equal(await subscriptions(name()), 2);
  });
});

test("on demand: only names of the list are requested", async () => {
  const rules = { names: ["one.example"], suffixes: [".in.example"], wait: "30s" };
  await withEdge(rules, async ({ sds, refuses, serves, subscriptions }) => {
    const leaves = ["one.example", "a.in.example", "two.example", "in.example"].map((name) => ({
      name,
      leaf: issue(name),
    }));
    await sds.set(
      Object.fromEntries(leaves.map(({ name, leaf }) => [name, certificateSecret(leaf)])),
    );
    for (const { name, leaf } of leaves.slice(0, 2)) assert.ok(await serves(name, leaf), name);
    for (const { name } of leaves.slice(2)) {
      assert.ok(await refuses(name), name);
      assert.equal(await subscriptions(name), 0);
    }
  });
});

test("on demand: a name that the server takes back ends waits, and is gone", async () => {
  await withEdge({ negativeTtl: "1s", wait: "15s" }, async ({ sds, place, refuses, serves }) => {
    const leaf = issue("gone.example");
    await sds.set({ "gone.example": certificateSecret(leaf) });
    await eventually("it is served", () => serves("gone.example", leaf));
    using open = await TlsSession.open(place, { servername: "gone.example" });
    await sds.remove("gone.example");
    await eventually("it is refused", () => refuses("gone.example"));
    // A client that was served with it keeps the connection: only the name is gone.
    await open.exchange();

    await sds.set({ "gone.example": certificateSecret(leaf) });
    await eventually("it is back", () => serves("gone.example", leaf));
  });
});

test("on demand: a name is taken back while a handshake waits", async () => {
  await withEdge({ wait: "40s" }, async ({ sds, refuses }) => {
    const broken = { ...issue("brief.example"), keyPem: issue("brief.example").keyPem };
    await sds.set({ "brief.example": certificateSecret(broken) });
    const refused = refuses("brief.example");
    // A secret that cannot be used ends no wait: the server may mend it. Its removal does.
    await sds.refused("brief.example");
    const removedMs = performance.now();
    await sds.remove("brief.example");
    assert.ok(await refused);
    const tookMs = performance.now() - removedMs;
    assert.ok(tookMs < 20_000, `only its own deadline ended it, after ${tookMs} ms`);
  });
});

test("on demand: a secret mended while a handshake waits is served", async () => {
  await withEdge({ wait: "40s" }, async ({ sds, serves }) => {
    const leaf = issue("late.example");
    const broken = { ...leaf, keyPem: issue("late.example").keyPem };
    await sds.set({ "late.example": certificateSecret(broken) });
    const served = serves("late.example", leaf);
    await sds.refused("late.example");
    await sds.set({ "late.example": certificateSecret(leaf) });
    assert.ok(await served);
  });
});

test("on demand: 1,000 random names cost a bounded number of subscriptions", async () => {
  const rules = { wait: "200ms", perSourceRate: 20, maxPending: 50, prefetch: ["good.example"] };
  await withEdge(rules, async ({ sds, place, serves, subscriptions, proxy }) => {
    const leaf = issue("good.example");
    await sds.set({ "good.example": certificateSecret(leaf) });
    await eventually("the good name is served", () => serves("good.example", leaf));
    const started = performance.now();
    let served = 0;
    const workers = Array.from({ length: 50 }, async (_, worker) => {
      for (let i = 0; i < 20; i++) {
        const servername = `r${worker}-${i}.example`;
        const outcome = await probeTls(place, { servername, timeoutMs: 60_000 });
        assert.equal(outcome.accepted, false, servername);
        if (i % 10 === 0) {
          assert.ok(await serves("good.example", leaf));
          served++;
        }
      }
    });
    await Promise.all(workers);
    const seconds = (performance.now() - started) / 1_000;
    const asked = await subscriptions();
    console.log(`1,000 random names: ${asked} subscriptions in ${seconds.toFixed(1)} s`);
    assert.equal(served, 100);
    assert.ok(asked <= 21 + 20 * (seconds + 1), `${asked} subscriptions in ${seconds} s`);
    await eventually("they are given up", async () => {
      const { entries } = await sds.log();
      assert.equal(new Set(entries.map(({ stream }) => stream)).size, 1);
      const given = entries.flatMap(({ removed = [], event }) =>
        event === "request" ? removed : []
      );
      return given.length >= asked - 1 - 50;
    });
    await eventually("the good one is active", async () => {
      return await proxy.postern.metric("postern_on_demand_cert_active") === 1;
    });
  });
});
