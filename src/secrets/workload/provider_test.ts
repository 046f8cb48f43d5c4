import assert from "node:assert/strict";
import test from "node:test";
import { seededRandom } from "../../base/mod.ts";
import { type Authority, NO_RULES } from "../../identity/mod.ts";
import { tlsFault } from "../../net/tls_fault.ts";
import { createAuthority } from "../../../test/kit/certificates.ts";
import { FakeClock } from "../../../test/kit/clock.ts";
import {
  startWorkloadServer,
  svidOf,
  type WorkloadServer,
} from "../../../test/kit/workload_server.ts";
import type { SecretRef } from "../plan.ts";
import type { SecretProvider, SecretWatch } from "../provider.ts";
import type { CertificateSecret, Secret, ValidationSecret } from "../secret.ts";
import { createWorkloadProvider } from "./provider.ts";

const WEB = "spiffe://example.org/web";
const API = "spiffe://example.org/api";
const CA = createAuthority({ trustDomain: "example.org" });
const OTHER = createAuthority({ trustDomain: "other.test" });

type Told =
  | { readonly kind: "secret"; readonly secret: Secret }
  | { readonly kind: "rejected" | "unreachable"; readonly reason: string }
  | { readonly kind: "removed" };

/** What a subscriber was told, in order, each once. */
class Followed {
  readonly watch: SecretWatch;
  readonly #told: Told[] = [];
  #wake = () => {};

  constructor(provider: SecretProvider, ref: SecretRef) {
    let returned = false;
    const tell = (told: Told) => {
      assert.ok(returned, "told before watch() returned");
      this.#told.push(told);
      this.#wake();
    };
    this.watch = provider.watch(ref, {
      onSecret: (secret) => tell({ kind: "secret", secret }),
      onRejected: (reason) => tell({ kind: "rejected", reason }),
      onUnreachable: (reason) => tell({ kind: "unreachable", reason }),
      onRemoved: () => tell({ kind: "removed" }),
    });
    returned = true;
  }

  async next(): Promise<Told> {
    for (;;) {
      const told = this.#told.shift();
      if (told) return told;
      await new Promise<void>((resolve) => this.#wake = resolve);
    }
  }

  async certificate(): Promise<CertificateSecret> {
    const told = await this.next();
    assert.ok(told.kind === "secret" && told.secret.type === "certificate", JSON.stringify(told));
    return told.secret;
  }

  async validation(): Promise<ValidationSecret["validation"] & { kind: "spiffe" }> {
    const told = await this.next();
    assert.ok(told.kind === "secret" && told.secret.type === "validation", JSON.stringify(told));
    const { validation } = told.secret;
    assert.ok(validation.kind === "spiffe");
    return validation;
  }

  async fault(kind: "rejected" | "unreachable", want: RegExp): Promise<void> {
    const told = await this.next();
    assert.ok(told.kind === kind, JSON.stringify(told));
    assert.match(told.reason, want);
  }

  async removed(): Promise<void> {
    assert.deepEqual(await this.next(), { kind: "removed" });
  }

  get silent(): boolean {
    return this.#told.length === 0;
  }
}

interface Fixture extends AsyncDisposable {
  readonly server: WorkloadServer;
  readonly provider: SecretProvider;
  readonly clock: FakeClock;
  follow(
    type: SecretRef["type"],
    choice?: { readonly id?: string; readonly hint?: string },
  ): Followed;
}

async function setUp(): Promise<Fixture> {
  const server = await startWorkloadServer();
  const { address } = server;
  const clock = new FakeClock({ startMs: Date.now() });
  const provider = createWorkloadProvider(address, {
    clock,
    random: seededRandom(1),
    read: () => Promise.reject(new Error("no file is read here")),
    tlsFault,
  });
  return {
    server,
    provider,
    clock,
    follow(type, choice = {}) {
      const source = { kind: "workload", address, ...choice } as const;
      return new Followed(provider, { type, name: type, source, initialFetchTimeoutMs: 0 });
    },
    async [Symbol.asyncDispose]() {
      await provider.close();
      await server[Symbol.asyncDispose]();
    },
  };
}

const pemsOf = (...authorities: Authority[]) => authorities.map(({ rootPem }) => rootPem);

test("createWorkloadProvider() gives the first SVID with its key", async () => {
  await using set = await setUp();
  const svid = svidOf(CA, WEB);
  set.server.sendSvids({ svids: [svid, svidOf(CA, API)] });
  const secret = await set.follow("certificate").certificate();
  assert.deepEqual(secret.uris, [WEB]);
  assert.equal(secret.keyKind, "ecdsa");
  assert.match(secret.keyPem, /^-----BEGIN PRIVATE KEY-----/);
  assert.equal(secret.certPem.match(/BEGIN CERTIFICATE/g)?.length, 1);
});

test("createWorkloadProvider() sends intermediates after the leaf", async () => {
  await using set = await setUp();
  const svid = svidOf(CA.intermediate(), WEB);
  set.server.sendSvids({ svids: [svid] });
  const secret = await set.follow("certificate").certificate();
  assert.deepEqual(secret.uris, [WEB]);
  assert.equal(secret.certPem.match(/BEGIN CERTIFICATE/g)?.length, 2);
});

for (
  const [name, choice, want] of [
    ["by id", { id: API }, API],
    ["by hint", { hint: "inner" }, API],
    ["by the first of equal hints", { hint: "twice" }, `${WEB}/2`],
    ["by id and hint", { id: `${WEB}/3`, hint: "twice" }, `${WEB}/3`],
    ["that comes first", {}, WEB],
  ] as const
) {
  test(`createWorkloadProvider() chooses the SVID ${name}`, async () => {
    await using set = await setUp();
    set.server.sendSvids({
      svids: [
        svidOf(CA, WEB),
        svidOf(CA, API, { hint: "inner" }),
        svidOf(CA, `${WEB}/2`, { hint: "twice" }),
        svidOf(CA, `${WEB}/3`, { hint: "twice" }),
      ],
    });
    assert.deepEqual((await set.follow("certificate", choice).certificate()).uris, [want]);
  });
}

test("createWorkloadProvider() follows rotation, and says nothing of what stays the same", async () => {
  await using set = await setUp();
  const [first, second] = [svidOf(CA, WEB), svidOf(CA, WEB)];
  const [api, later] = [svidOf(CA, API), svidOf(CA, API)];
  set.server.sendSvids({ svids: [first, api] });
  const [web, other] = [set.follow("certificate"), set.follow("certificate", { id: API })];
  const before = await web.certificate();
  await other.certificate();
  set.server.sendSvids({ svids: [second, api] });
  const after = await web.certificate();
  assert.notEqual(after.serial, before.serial);
  assert.notEqual(after.keyPem, before.keyPem);
  set.server.sendSvids({ svids: [second, later] });
  await other.certificate();
  assert.ok(web.silent);
});

test("createWorkloadProvider() shares one stream per method and closes it with the last", async () => {
  await using set = await setUp();
  set.server.sendSvids({ svids: [svidOf(CA, WEB)] });
  set.server.sendBundles({ bundles: { "spiffe://example.org": CA.rootDer } });
  const all = [
    set.follow("certificate"),
    set.follow("certificate", { id: WEB }),
    set.follow("validation"),
    set.follow("validation", { id: WEB }),
  ];
  for (const followed of all) assert.equal((await followed.next()).kind, "secret");
  // One that comes later has the last message, and no stream of its own.
  const late = set.follow("certificate");
  assert.deepEqual((await late.certificate()).uris, [WEB]);
  assert.deepEqual(set.server.opened, { svids: 1, bundles: 1 });
  for (const followed of [...all, late]) followed.watch.close();
  await set.server.settles("svids", 0);
  await set.server.settles("bundles", 0);
  // And somebody new gets what is new.
  set.server.sendSvids({ svids: [svidOf(CA, API)] });
  assert.deepEqual((await set.follow("certificate").certificate()).uris, [API]);
});

test("createWorkloadProvider() withdraws an SVID that is absent, until it is back", async () => {
  await using set = await setUp();
  const [web, api] = [svidOf(CA, WEB), svidOf(CA, API)];
  set.server.sendSvids({ svids: [web, api] });
  const followed = set.follow("certificate", { id: API });
  const trust = set.follow("validation", { id: API });
  await followed.certificate();
  await trust.validation();
  set.server.sendSvids({ svids: [web] });
  await followed.removed();
  await trust.removed();
  set.server.sendSvids({ svids: [web] });
  set.server.sendSvids({ svids: [web, api] });
  assert.deepEqual((await followed.certificate()).uris, [API]);
  await trust.validation();
});

test("createWorkloadProvider() says once that an SVID was never there", async () => {
  await using set = await setUp();
  set.server.sendSvids({ svids: [svidOf(CA, WEB)] });
  const followed = set.follow("certificate", { hint: "none" });
  await followed.removed();
  set.server.sendSvids({ svids: [svidOf(CA, WEB)] });
  set.server.sendSvids({ svids: [svidOf(CA, WEB), svidOf(CA, API, { hint: "none" })] });
  assert.deepEqual((await followed.certificate()).uris, [API]);
});

test("createWorkloadProvider() gives each trust domain its own bundle", async () => {
  await using set = await setUp();
  set.server.sendBundles({
    bundles: { "spiffe://example.org": CA.rootDer, "spiffe://other.test": OTHER.rootDer },
  });
  const followed = set.follow("validation");
  const both = await followed.validation();
  assert.deepEqual({ ...both.bundles }, {
    "example.org": pemsOf(CA),
    "other.test": pemsOf(OTHER),
  });
  const next = createAuthority({ trustDomain: "example.org" });
  set.server.sendBundles({
    bundles: { "spiffe://example.org": new Uint8Array([...CA.rootDer, ...next.rootDer]) },
  });
  const one = await followed.validation();
  assert.deepEqual({ ...one.bundles }, { "example.org": pemsOf(CA, next) });
  // No identity is needed to verify others.
  assert.equal(set.server.opened.svids, 0);
});

test("createWorkloadProvider() gives the chosen SVID's bundle and the federated ones", async () => {
  await using set = await setUp();
  const third = createAuthority({ trustDomain: "third.test" });
  set.server.sendSvids({
    svids: [svidOf(CA, WEB), svidOf(third, "spiffe://third.test/x", { hint: "third" })],
    federated: { "spiffe://other.test": OTHER.rootDer },
  });
  const { bundles } = await set.follow("validation", { hint: "third" }).validation();
  assert.deepEqual({ ...bundles }, { "other.test": pemsOf(OTHER), "third.test": pemsOf(third) });
  assert.equal(set.server.opened.bundles, 0);
});

test("createWorkloadProvider() takes bundles from identities where an agent is older", async () => {
  await using set = await setUp();
  set.server.end("bundles", 12, "unknown method");
  set.server.sendSvids({
    svids: [svidOf(CA, WEB)],
    federated: { "spiffe://other.test": OTHER.rootDer },
  });
  for (let round = 0; round < 2; round++) {
    const { bundles } = await set.follow("validation").validation();
    assert.deepEqual({ ...bundles }, { "example.org": pemsOf(CA), "other.test": pemsOf(OTHER) });
  }
  assert.deepEqual(set.server.opened, { svids: 1, bundles: 1 });
});

test("createWorkloadProvider() merges with what configuration says", async () => {
  await using set = await setUp();
  set.server.sendBundles({ bundles: { "spiffe://example.org": CA.rootDer } });
  const matcher = { kind: "exact", value: WEB, ignoreCase: false } as const;
  const ref: SecretRef = {
    type: "validation",
    name: "trust",
    source: { kind: "workload", address: set.server.address },
    initialFetchTimeoutMs: 0,
    defaults: {
      type: "validation",
      systemRoots: false,
      rules: { ...NO_RULES, matchers: [{ type: "uri", matcher }] },
    },
  };
  const { rules } = await new Followed(set.provider, ref).validation();
  assert.deepEqual(rules.matchers, [{ type: "uri", matcher }]);
});

test("createWorkloadProvider() keeps the last good secret when a message is bad", async () => {
  await using set = await setUp();
  const followed = set.follow("certificate");
  const svid = svidOf(CA, WEB);
  set.server.sendSvids({ svids: [svid] });
  await followed.certificate();
  const bad = new Uint8Array([0x0a, 0xff]);
  set.server.sendBytes("svids", bad);
  await followed.fault("rejected", /X509SVIDResponse/);
  set.server.sendBytes("svids", bad);
  set.server.sendSvids({ svids: [{ ...svid, key: svidOf(CA, WEB).key }] });
  await followed.fault("rejected", /does not belong/);
  // The same as before ends the fault.
  set.server.sendSvids({ svids: [svid] });
  await followed.certificate();
  assert.equal(set.server.opened.svids, 1);
});

test("createWorkloadProvider() waits while nothing is registered, and drops what was denied", async () => {
  await using set = await setUp();
  set.server.end("svids", 7, "no identity issued");
  const followed = set.follow("certificate");
  await followed.fault("unreachable", /no identity issued/);
  set.server.sendSvids({ svids: [svidOf(CA, WEB)] });
  await set.clock.advance(500);
  await followed.certificate();
  set.server.end("svids", 7, "no identity issued");
  await followed.removed();
  await followed.fault("unreachable", /no identity issued/);
  set.server.sendSvids({ svids: [svidOf(CA, WEB)] });
  await set.clock.advance(500);
  await followed.certificate();
});

test("createWorkloadProvider() keeps its secrets while the agent is away", async () => {
  await using set = await setUp();
  const svid = svidOf(CA, WEB);
  set.server.sendSvids({ svids: [svid] });
  const followed = set.follow("certificate");
  await followed.certificate();
  set.server.kill();
  await followed.fault("unreachable", /UNAVAILABLE|CANCELLED/);
  await set.server.start();
  const next = svidOf(CA, WEB);
  set.server.sendSvids({ svids: [next] });
  await set.clock.advance(500);
  await followed.certificate();
});

test("createWorkloadProvider() finds a socket that appears late", async () => {
  await using set = await setUp();
  set.server.kill();
  const followed = set.follow("certificate");
  await followed.fault("unreachable", /UNAVAILABLE/);
  await set.server.start();
  set.server.sendSvids({ svids: [svidOf(CA, WEB)] });
  await set.clock.advance(500);
  await followed.certificate();
});

test("createWorkloadProvider() opens again at once after a good end", async () => {
  await using set = await setUp();
  set.server.sendSvids({ svids: [svidOf(CA, WEB)] });
  const followed = set.follow("certificate");
  await followed.certificate();
  await set.clock.advance(2_000);
  set.server.hangUp("svids");
  await set.server.settles("svids", 0);
  while (set.server.opened.svids < 2) await set.clock.advance(0);
  set.server.sendSvids({ svids: [svidOf(CA, API)] });
  assert.deepEqual((await followed.certificate()).uris, [API]);
});

test("createWorkloadProvider() gives up a stream that stays silent", async () => {
  await using set = await setUp();
  set.server.stall("svids");
  const followed = set.follow("certificate");
  await set.server.opens("svids", 1);
  await set.clock.advance(60_000);
  await followed.fault("unreachable", /DEADLINE_EXCEEDED/);
});

test("createWorkloadProvider().close() ends every stream", async () => {
  await using set = await setUp();
  set.server.sendSvids({ svids: [svidOf(CA, WEB)] });
  const followed = set.follow("certificate");
  await followed.certificate();
  await set.provider.close();
  await set.server.settles("svids", 0);
  assert.equal(set.clock.pending, 0);
  assert.ok(followed.silent);
});
