import assert from "node:assert/strict";
import { test } from "node:test";
import { createAuthority } from "../../../test/kit/certs/certificates.ts";
import { FakeClock } from "../../../test/kit/clock/clock.ts";
import {
  httpRules,
  snapshotOf,
  targetOf,
  withInbound,
} from "../../../test/kit/engine/snapshots.ts";
import { createLog, type LogRecord, Stats } from "../../base/mod.ts";
import { PluginsRefused } from "../../plugin/mod.ts";
import { SharedCounts } from "../../proxy/mod.ts";
import type { PluginUse, Snapshot } from "../../snapshot/mod.ts";
import { Rollout, type RolloutMember } from "./rollout.ts";

const useOf = (plugin: string, at: string): PluginUse => ({
  plugin: `./${plugin}.ts`,
  file: { code: plugin, digest: `digest of ${plugin}`, allow: [] },
  config: {},
  onFailure: "refuse",
  at,
});
const codeOf = (name: string) => ({
  version: 1,
  text: name,
  path: `/${name}.ts`,
  map: "",
  libraries: [],
});

const PLAIN = snapshotOf({
  ca: createAuthority(),
  service: "web",
  local: { kind: "tcp", host: "127.0.0.1", port: 1 },
  upstreams: [{ name: "db", http: httpRules("http") }],
  targets: [targetOf({ name: "db", uris: [], ports: [] })],
});
const DB = Object.keys(PLAIN.upstreams)[0] ?? "";

/** Version `version` with these plugins of the public listener, and of the upstream. */
function withPlugins(version: number, inbound: string, db = ""): Snapshot {
  const part = PLAIN.upstreams[DB];
  assert.ok(part);
  const listed = [inbound, db].filter((name) => name !== "");
  const snapshot = withInbound(PLAIN, {
    version,
    http: httpRules("http"),
    plugins: [useOf(inbound, "inbound.plugins[0]")],
  });
  return {
    ...snapshot,
    version,
    upstreams: { [DB]: { ...part, version, plugins: db === "" ? [] : [useOf(db, "db")] } },
    pluginCode: Object.fromEntries(listed.map((name) => [name, codeOf(name)])),
  };
}

/** How a plugin is refused: only where the chain of the listener has that version, if there is one. */
interface Bad {
  readonly isHeld?: true;
  readonly at?: number;
}

/** One data path in which `bad` plugins cannot be created. */
function rig() {
  const clock = new FakeClock();
  const lines: LogRecord[] = [];
  const events: string[] = [];
  const stats = new Stats();
  const bad = new Map<string, Bad>();
  const log: string[] = [];
  const member: RolloutMember = {
    published: undefined as Snapshot | undefined,
    prepare({ version, inbound, upstreams, chains }) {
      log.push(`prepare ${version}`);
      const refusals = Object.entries({ ...inbound, ...upstreams }).flatMap(
        ([listener, { plugins }]) =>
          plugins.flatMap(({ plugin }) => {
            const how = bad.get(plugin);
            const chain = chains[upstreams[listener]?.chain ?? ""];
            if (!how || how.at !== undefined && how.at !== chain?.version) return [];
            const { isHeld } = how;
            return [{ listener, reason: `create(): no ${plugin}`, ...isHeld && { isHeld } }];
          }),
      );
      if (refusals.length > 0) return Promise.reject(new PluginsRefused(refusals));
      return Promise.resolve(true);
    },
    publish(snapshot) {
      log.push(`publish ${snapshot.version}`);
      Object.assign(member, { published: snapshot });
      return Promise.resolve([]);
    },
    abandon: () => {},
    giveUp: (reason) => assert.fail(reason),
  };
  const rollout = new Rollout({
    clock,
    log: createLog({ clock, holder: { level: "info" }, write: (line) => lines.push(line) }),
    stats,
    report: ({ text }) => void events.push(text),
    counts: SharedCounts.create(1),
    members: [member],
    random: () => 1,
  });
  const metric = (name: string) => stats.samples().find((sample) => sample.name === name)?.value;
  const published = () => rollout.published ?? assert.fail("nothing is in force");
  /** Plugins in force: of the public listener, and of the upstream; `undefined`: it is closed. */
  const inForce = () => {
    const { inbound, upstreams } = published();
    return [inbound["inbound"], upstreams[DB]].map((part) =>
      part?.plugins.map(({ plugin }) => plugin).join()
    );
  };
  return { clock, lines, events, bad, log, rollout, metric, published, inForce };
}

test("Rollout keeps the plugins of a refused listener, and all other changes come into force", async () => {
  const { rollout, bad, inForce, lines, events, metric } = rig();
  await rollout.apply(withPlugins(1, "good", "old"));
  bad.set("./bad.ts", {});
  await rollout.apply(withPlugins(2, "bad", "new"));
  assert.deepEqual(inForce(), ["./good.ts", "./new.ts"]);
  assert.deepEqual(Object.keys(rollout.published?.pluginCode ?? {}).sort(), ["good", "new"]);
  assert.deepEqual(rollout.refused, [
    { what: "plugins of inbound", reason: "create(): no ./bad.ts" },
  ]);
  assert.equal(metric("snapshot_refused"), 1);
  await rollout.apply(withPlugins(3, "bad", "newer"));
  assert.deepEqual(inForce(), ["./good.ts", "./newer.ts"]);
  await rollout.apply(withPlugins(4, "better", "newer"));
  assert.deepEqual(inForce(), ["./better.ts", "./newer.ts"]);
  assert.equal(metric("snapshot_refused"), 0);
  assert.deepEqual(lines.map(({ level, message }) => `${level} ${message}`), [
    "error plugins refused, the last good ones serve on",
    "info plugins not refused any more",
  ]);
  assert.deepEqual(events, [
    "plugins refused, the last good ones serve on: create(): no ./bad.ts",
    "plugins not refused any more",
  ]);
});

test("Rollout closes a listener whose first plugins are refused, and opens it when they can be used", async () => {
  const { rollout, bad, inForce, clock, lines } = rig();
  bad.set("./bad.ts", {});
  await rollout.apply(withPlugins(1, "good", "bad"));
  assert.deepEqual(inForce(), ["./good.ts", undefined]);
  const [refused] = rollout.refused;
  assert.deepEqual([refused?.what, refused?.upstream?.id], ["plugins of db", DB]);
  assert.equal(lines[0]?.message, "plugins refused, the listener stays closed");
  bad.clear();
  await clock.advance(1_000);
  assert.deepEqual([inForce(), rollout.refused], [["./good.ts", "./bad.ts"], []]);
});

test("Rollout tries refused plugins again after 1 s, 2 s, up to a minute, and not with other changes", async () => {
  const { rollout, bad, log, clock, inForce } = rig();
  let retried = 0;
  rollout.onRetried = () => void retried++;
  bad.set("./bad.ts", {});
  await rollout.apply(withPlugins(1, "good"));
  const wanted = withPlugins(2, "bad");
  await rollout.apply(wanted);
  const tries = () => log.splice(0).filter((call) => call === "prepare 2").length;
  tries();
  await rollout.apply({ ...wanted, version: 3, policy: { ...wanted.policy, version: 3 } });
  assert.deepEqual(log.splice(0), ["prepare 3", "publish 3"], "without the refused plugins");
  await rollout.apply(wanted);
  assert.deepEqual(log.splice(0), ["prepare 2", "publish 2"]);
  assert.deepEqual(inForce(), ["./good.ts", ""]);
  for (const delayMs of [1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000]) {
    await clock.advance(delayMs - 1);
    assert.equal(tries(), 0);
    await clock.advance(1);
    assert.equal(tries(), 1, `after ${delayMs} ms`);
  }
  assert.equal(retried, 0);
  bad.clear();
  rollout.setDue();
  await rollout.retryDue();
  assert.deepEqual([inForce()[0], rollout.taken === wanted, retried], ["./bad.ts", true, 1]);
  await clock.advance(3_600_000);
  assert.equal(tries(), 1, "no further try");
});

test("Rollout tries plugins that held a worker again at a reload only", async () => {
  const { rollout, bad, log, clock, inForce } = rig();
  await rollout.apply(withPlugins(1, "good"));
  bad.set("./bad.ts", { isHeld: true });
  await rollout.apply(withPlugins(2, "bad"));
  log.length = 0;
  await clock.advance(3_600_000);
  assert.deepEqual(log, []);
  bad.clear();
  rollout.setDue();
  await rollout.retryDue();
  assert.equal(inForce()[0], "./bad.ts");
});

test("Rollout keeps protocol and routes, too, where the old plugins do not work with the new ones", async () => {
  const { rollout, bad, published } = rig();
  const before = withPlugins(1, "good", "old");
  await rollout.apply(before);
  const part = before.upstreams[DB];
  const chain = before.chains[part?.chain ?? ""];
  const target = before.targets["db"];
  assert.ok(part && chain && target);
  bad.set("./old.ts", { at: chain.version + 1_000 });
  const moved = { ...chain, version: chain.version + 1_000, resolvers: {} };
  await rollout.apply({
    ...withPlugins(2, "new", "old"),
    chains: { [part.chain]: moved },
    targets: {},
  });
  const { upstreams, chains, targets, inbound } = published();
  assert.equal(inbound["inbound"]?.plugins[0]?.plugin, "./new.ts");
  assert.equal(chains[upstreams[DB]?.chain ?? ""], chain);
  assert.equal(chains[part.chain], moved, "for other upstreams of the service");
  assert.deepEqual(targets, { db: target });
});

test("Rollout refuses a snapshot whole where keeping plugins does not help, and tries it again", async () => {
  const { rollout, bad, clock, published } = rig();
  const before = withPlugins(1, "good", "old");
  await rollout.apply(before);
  bad.set("./old.ts", {});
  await rollout.apply({ ...withPlugins(2, "new", "old"), service: "shop" });
  assert.deepEqual(rollout.refused.map(({ what }) => what), ["snapshot"]);
  assert.equal(published(), before);
  bad.clear();
  await clock.advance(1_000);
  assert.deepEqual([rollout.refused, published().service], [[], "shop"]);
});
