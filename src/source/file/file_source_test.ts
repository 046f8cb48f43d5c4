import assert from "node:assert/strict";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { FakeClock } from "../../../test/kit/clock/clock.ts";
import { MemoryEngine } from "../../../test/kit/engine/memory_engine.ts";
import { recordingLog } from "../../../test/kit/secrets/secret_peers.ts";
import * as facts from "../../../test/kit/consul/snapshot_facts.ts";
import { ProxyError, Stats, systemRandom } from "../../base/mod.ts";
import { createProviders, SecretStore } from "../../secrets/mod.ts";
import { diffSnapshots, type Snapshot } from "../../snapshot/mod.ts";
import { FileSource } from "../mod.ts";

const CA = facts.authority();
const CONFIG = {
  service: "web",
  trustDomain: facts.TRUST_DOMAIN,
  credentials: { certFile: "web.pem", keyFile: "web.key", rootsFile: "roots.pem" },
  inbound: { bind: "127.0.0.1:20000", local: "127.0.0.1:8080" },
  upstreams: [{
    name: "db",
    bind: "127.0.0.1:9191",
    addresses: ["10.0.0.7:20000", { host: "10.0.0.8", port: 20_000, weight: 2 }],
    identity: { service: "db" },
  }],
  intentions: [{ source: "*", action: "deny" }, { source: "shop", action: "allow" }],
};

class Rig {
  readonly clock = new FakeClock({ startMs: facts.NOW_MS });
  readonly log = recordingLog();
  readonly snapshots: Snapshot[] = [];
  readonly directory: string;
  readonly source: FileSource;

  constructor(directory: string) {
    this.directory = directory;
    const deps = {
      clock: this.clock,
      random: systemRandom,
      log: this.log,
      stats: new Stats(),
      env: {},
      engine: new MemoryEngine(),
      version: "0.0.0",
    };
    this.source = new FileSource({
      ...deps,
      file: join(directory, "postern.json"),
      createSecretStore: () => new SecretStore({ ...deps, providers: createProviders(deps) }),
    });
  }

  static async create(): Promise<Rig> {
    const rig = new Rig(await mkdtemp(join(tmpdir(), "postern-file-")));
    await rig.config(CONFIG);
    await rig.credentials(facts.leafOf(CA));
    await rig.write("roots.pem", CA.rootPem);
    return rig;
  }

  write(name: string, text: string): Promise<void> {
    return writeFile(join(this.directory, name), text);
  }

  config(config: unknown): Promise<void> {
    return this.write("postern.json", JSON.stringify(config));
  }

  async credentials(leaf: { readonly certPem: string; readonly keyPem: string }): Promise<void> {
    await this.write("web.pem", leaf.certPem);
    await this.write("web.key", leaf.keyPem);
  }

  /** The first snapshot that serves, or why there is none. */
  async start(): Promise<Snapshot | Error> {
    let failed: ProxyError | undefined;
    this.source.start((snapshot) => {
      this.snapshots.push(snapshot);
      return Promise.resolve(snapshot);
    }, (error) => failed = error);
    await this.until(() =>
      failed || this.last?.inbound["inbound"] || this.source.refused.length > 0
    );
    const [refusal] = this.source.refused;
    return failed ?? (refusal ? new Error(refusal.reason) : this.served);
  }

  /** Reads files and moves the clock until a condition holds. */
  async until(holds: () => unknown): Promise<void> {
    const endMs = performance.now() + 60_000;
    while (!holds()) {
      assert.ok(performance.now() < endMs, "the condition does not hold in time");
      // Files take real time: the clock must not run far ahead of them.
      await new Promise((resolve) => setTimeout(resolve, 1));
      this.clock.advance(10);
    }
  }

  async reload(): Promise<boolean> {
    let isRead: boolean | undefined;
    void this.source.reload().then((is) => isRead = is);
    await this.until(() => isRead !== undefined);
    return isRead === true;
  }

  get last(): Snapshot | undefined {
    return this.snapshots.at(-1);
  }

  /** The newest; a test that has none is wrong. */
  get served(): Snapshot {
    assert.ok(this.last);
    return this.last;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.source.close();
    await rm(this.directory, { recursive: true });
  }
}

test("FileSource makes a whole snapshot without Consul", async () => {
  await using rig = await Rig.create();
  const snapshot = await rig.start();
  assert.ok(!(snapshot instanceof Error), String(snapshot));
  assert.equal(snapshot.service, "web");
  assert.deepEqual(snapshot.inbound["inbound"]?.local, {
    kind: "tcp",
    host: "127.0.0.1",
    port: 8080,
  });
  assert.equal(snapshot.policy.defaultAction, "deny");
  assert.deepEqual(
    snapshot.policy.intentions.map(({ source, action }) => [source.name, action]),
    [["shop", "allow"], ["*", "deny"]],
    "an exact source counts before a star",
  );
  const target = snapshot.targets["service:default/default/db#file"];
  assert.equal(target?.sni, `db.default.dc1.internal.${facts.TRUST_DOMAIN}`);
  assert.deepEqual(target?.spiffeUris, [
    `spiffe://${facts.TRUST_DOMAIN}/ns/default/dc/dc1/svc/db`,
  ]);
  assert.deepEqual(target?.endpoints.map(({ id, weight }) => [id, weight]), [
    ["10.0.0.7:20000", 1],
    ["10.0.0.8:20000", 2],
  ]);
  assert.equal(snapshot.credentials?.serial, rig.source.status().certificate?.serial);
});

type Break = readonly [string, (rig: Rig) => Promise<void>, RegExp];

const BAD_CONFIGURATION: readonly Break[] = [
  [
    "no file",
    (rig) => rm(join(rig.directory, "postern.json")),
    /^Cannot use configuration ".*postern\.json": there is no such file$/,
  ],
  ["unknown keys", (rig) => rig.config({ ...CONFIG, upstream: [] }), /upstream is not known here/],
  [
    "no JSON",
    (rig) => rig.write("postern.json", "web:"),
    /line 1, column 1: the file is not JSON/,
  ],
  [
    "an impossible TLS range",
    (rig) => rig.config({ ...CONFIG, tls: { incoming: { minVersion: "1.3", maxVersion: "1.2" } } }),
    /no version/,
  ],
  [
    "bytes that are no text",
    (rig) => writeFile(join(rig.directory, "postern.json"), new Uint8Array([0xff, 0xfe])),
    /postern\.json": it is not text in UTF-8$/,
  ],
];

for (const [name, break_, want] of BAD_CONFIGURATION) {
  test(`FileSource does not start with ${name}`, async () => {
    await using rig = await Rig.create();
    await break_(rig);
    const error = await rig.start();
    assert.ok(error instanceof ProxyError);
    assert.equal(error.code, "config_invalid");
    assert.match(error.message, want);
    assert.match(error.message, /^Cannot use configuration "/);
  });

  test(`FileSource keeps the old state when reloaded with ${name}`, async () => {
    await using rig = await Rig.create();
    await rig.start();
    const { length } = rig.snapshots;
    await break_(rig);
    await rig.reload();
    assert.equal(rig.snapshots.length, length);
    assert.match(rig.source.refused[0]?.reason ?? "", want);
  });
}

const BAD_SECRETS: readonly Break[] = [
  ["a missing key file", (rig) => rm(join(rig.directory, "web.key")), /web\.key: there is no such/],
  ["another key", (rig) => rig.write("web.key", facts.leafOf(CA).keyPem), /key does not belong/],
  [
    "roots of another CA",
    (rig) => rig.write("roots.pem", facts.authority().rootPem),
    /does not reach a root/,
  ],
  ["a leaf for another service", (rig) => rig.credentials(facts.leafOf(CA, "shop")), /"shop"/],
  ["a directory", async (rig) => {
    await rm(join(rig.directory, "web.pem"));
    await mkdir(join(rig.directory, "web.pem"));
  }, /web\.pem/],
  [
    "a file that is too long",
    (rig) => rig.write("web.pem", "x".repeat(2 * 1024 * 1024)),
    /more than 1048576 bytes/,
  ],
];

for (const [name, break_, want] of BAD_SECRETS) {
  test(`FileSource opens no listener with ${name}, reports why, and serves once it is repaired`, async () => {
    await using rig = await Rig.create();
    await break_(rig);
    const error = await rig.start();
    assert.ok(error instanceof Error);
    assert.match(error.message, want);
    assert.doesNotMatch(error.message, /BEGIN|[A-Za-z0-9+/]{60}/);
    assert.deepEqual(rig.last?.inbound ?? {}, {});
    assert.ok(rig.source.status().warming.length > 0);

    await rm(join(rig.directory, "web.pem"), { recursive: true, force: true });
    await rig.credentials(facts.leafOf(CA));
    await rig.write("roots.pem", CA.rootPem);
    await rig.until(() => rig.last?.inbound["inbound"] && rig.source.refused.length === 0);
    assert.ok(rig.served.credentials);
  });

  test(`FileSource keeps the old state when files become ${name}`, async () => {
    await using rig = await Rig.create();
    await rig.start();
    const before = rig.served.credentials;
    await break_(rig);
    await rig.until(() => rig.source.refused.length > 0);
    assert.match(rig.source.refused[0]?.reason ?? "", want);
    assert.equal(rig.served.credentials, before);
    assert.ok(rig.served.inbound["inbound"]);
  });
}

test("FileSource logs with its first snapshot which parts wait for secrets, upstreams included", async () => {
  await using rig = await Rig.create();
  await rm(join(rig.directory, "web.pem"));
  await rig.start();
  const { fields } = rig.log.lines.find(({ message }) => message === "first snapshot") ?? {};
  assert.equal(fields?.upstreams, 1);
  assert.match(String(fields?.warming), /^credentials \(.*web\.pem.*\)$/);
});

test("FileSource follows changed secret files without a reload", async () => {
  await using rig = await Rig.create();
  await rig.start();
  const before = rig.served.credentials?.serial;
  await rig.credentials(facts.leafOf(CA));
  await rig.until(() => rig.served.credentials?.serial !== before);
  assert.deepEqual(rig.source.refused, []);
});

test("FileSource changes only what a reload changes", async () => {
  await using rig = await Rig.create();
  await rig.start();
  const first = rig.served;
  await rig.reload();
  assert.equal(rig.served, first, "nothing changed");

  await rig.config({ ...CONFIG, intentions: [] });
  await rig.reload();
  const second = rig.served;
  const policy = diffSnapshots(first, second);
  assert.deepEqual([policy.policy?.intentions, policy.credentials, policy.inbound], [
    [],
    undefined,
    {},
  ]);
  assert.deepEqual([policy.upstreams, policy.targets], [{}, {}]);

  await rig.credentials(facts.leafOf(CA));
  await rig.until(() => rig.served !== second);
  const credentials = diffSnapshots(second, rig.served);
  assert.ok(credentials.credentials);
  assert.equal(credentials.policy, undefined);
});

test("FileSource.reload() resolves after changed secret files are published or refused", async () => {
  await using rig = await Rig.create();
  await rig.start();
  const leaf = facts.leafOf(CA);
  const before = rig.served.credentials?.serial;
  await rig.credentials(leaf);
  await rig.reload();
  const now = rig.served.credentials;
  assert.notEqual(now?.serial, before);
  assert.equal(rig.source.refused.length, 0);

  await rig.write("web.key", facts.leafOf(CA).keyPem);
  await rig.reload();
  const [refusal] = rig.source.refused;
  assert.match(refusal?.reason ?? "", /key does not belong/);
  assert.equal(rig.served.credentials, now);
});

test("FileSource drops a refusal once the file is valid again", async () => {
  await using rig = await Rig.create();
  const first = await rig.start();
  await rig.config({});
  await rig.reload();
  assert.equal(rig.source.refused.length, 1);
  await rig.config(CONFIG);
  await rig.reload();
  assert.deepEqual(rig.source.refused, []);
  assert.equal(rig.served, first);
});

test("FileSource keeps the plugins of a listener whose new file cannot be used, and takes all else", async () => {
  await using rig = await Rig.create();
  const configOf = (use: string, local: string, upstream?: string) => {
    const { inbound, upstreams } = CONFIG;
    return {
      ...CONFIG,
      inbound: { ...inbound, protocol: "http", local, plugins: [{ use }] },
      upstreams: upstreams.map((part) => ({
        ...part,
        ...upstream && { name: upstream, protocol: "http", plugins: [{ use: "./none.ts" }] },
      })),
    };
  };
  await rig.write("a.js", "export default { name: 'a' };\n");
  await rig.config(configOf("./a.js", "127.0.0.1:8080"));
  const first = await rig.start();
  assert.ok(!(first instanceof Error), String(first));
  const { plugins } = first.inbound["inbound"] ?? assert.fail();

  await rig.config(configOf("./none.ts", "127.0.0.1:8081", "new"));
  assert.equal(await rig.reload(), false);
  assert.deepEqual(rig.source.refused.map(({ what }) => what), [
    "plugins of inbound",
    "plugins of new",
  ]);
  assert.match(
    rig.source.refused[0]?.reason ?? "",
    /^line 1, column \d+: inbound\.plugins\[0\]\.use names .*none\.ts/s,
  );
  const { inbound, upstreams, pluginCode } = rig.served;
  assert.deepEqual(inbound["inbound"]?.plugins, plugins);
  assert.deepEqual(inbound["inbound"]?.local, { kind: "tcp", host: "127.0.0.1", port: 8081 });
  assert.deepEqual([upstreams, pluginCode], [{}, first.pluginCode], "a new one stays closed");

  await rig.config(configOf("./a.js", "127.0.0.1:8081"));
  assert.equal(await rig.reload(), true);
  assert.deepEqual([rig.source.refused, Object.keys(rig.served.upstreams).length], [[], 1]);
});
