import assert from "node:assert/strict";
import { test } from "node:test";
import { FakeClock } from "../../test/kit/clock/clock.ts";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { inspect } from "node:util";
import {
  type Conditions,
  createLog,
  type LogRecord,
  NO_CONDITIONS,
  silentLog,
  Stats,
} from "../base/mod.ts";
import { PluginHost } from "./host.ts";
import { SharedState } from "./shared_state.ts";
import { faultOf } from "./source_positions.ts";

function rig(conditions: Conditions = NO_CONDITIONS) {
  const clock = new FakeClock();
  const stats = new Stats();
  const shared = new SharedState();
  const lender = { log: silentLog, stats, clock, random: () => 0, shared, conditions };
  return { host: new PluginHost("shop", "inbound", lender), clock, stats };
}

test("host.map() keeps the entries used last, and none beyond its time", async () => {
  const { host, clock } = rig();
  const map = host.map<number>({ limit: 2, ttlMs: 1_000 });
  map.set("a", 1);
  map.set("b", 2);
  assert.equal(map.get("a"), 1);
  map.set("c", 3);
  assert.deepEqual(["a", "b", "c"].map((key) => map.get(key)), [1, undefined, 3]);
  map.set("c", 4, 5_000);
  assert.equal(map.size, 2);
  await clock.advance(1_000);
  assert.deepEqual(["a", "c"].map((key) => map.get(key)), [undefined, 4]);
  map.delete("c");
  assert.equal(map.size, 0);
});

for (
  const [limit, ttlMs, reason] of [
    [0, 1, /want a limit from 1 to 100000/],
    [100_001, 1, /want a limit from 1 to 100000/],
    [1, 0, /want a ttlMs above 0/],
    [1, NaN, /want a ttlMs above 0/],
  ] as const
) {
  test(`host.map() refuses a limit of ${limit} and a time of ${ttlMs} ms`, () => {
    assert.throws(() => rig().host.map({ limit, ttlMs }), reason);
  });
}

test("host.stats makes gauges that are set, and histograms of durations", () => {
  const { host, stats } = rig();
  const labels = { of: ["a", "b"] } as const;
  const gauge = host.stats.gauge("depth", { help: "Depth", labels });
  gauge.set(7, { of: "a" });
  gauge.add(-2, { of: "a" });
  const times = host.stats.histogram("lookup", { help: "Time of a lookup" });
  times.observe(3);
  times.observe(30);
  const shown = stats.samples().map(({ name, kind, labels, value }) => [name, kind, labels, value]);
  assert.deepEqual(shown, [
    ["plugin_shop_depth", "gauge", { of: "a" }, 5],
    ["plugin_shop_depth", "gauge", { of: "b" }, 0],
    ["plugin_shop_lookup_ms", "histogram", {}, 33],
  ]);
  assert.throws(() => gauge.set(1, { of: "c" } as never), /metric depth: no such label/);
});

/** A host with files and variables of its own; a file that is `null` cannot be read. */
function fileRig(files: Record<string, string | null>, env: Record<string, string> = {}) {
  const clock = new FakeClock();
  const lines: LogRecord[] = [];
  const log = createLog({
    clock,
    holder: { level: "debug" },
    write: (line) => void lines.push(line),
  });
  const host = new PluginHost("shop", "inbound", {
    log,
    stats: new Stats(),
    clock,
    random: () => 0,
    shared: new SharedState(),
    files: {
      stampOf: (path) => Promise.resolve(files[path] ?? ""),
      read(path, limitBytes) {
        const bytes = new TextEncoder().encode(files[path] ?? "");
        if (files[path] === null) return Promise.reject(new Error("no permission"));
        return bytes.length > limitBytes
          ? Promise.reject(new Error("it is too long"))
          : Promise.resolve(bytes);
      },
      env: (name) => env[name],
    },
  });
  return { host, clock, lines, files };
}

const JSON_FILE = { parse: (text: string): unknown => JSON.parse(text) };

test("host.file() follows a file, and keeps the last good value of one that cannot be used", async () => {
  const { host, clock, lines, files } = fileRig({ "/a": "[1]" });
  const file = await host.file("/a", JSON_FILE);
  const seen: unknown[] = [];
  file.onChange((value) => seen.push(value));
  files["/a"] = "[2]";
  await clock.advance(1_000);
  assert.deepEqual(file.value, [1], "it may be half written");
  await clock.advance(1_000);
  assert.deepEqual([file.value, seen], [[2], [[2]]]);
  files["/a"] = "[3";
  await clock.advance(10_000);
  files["/a"] = null;
  await clock.advance(10_000);
  assert.deepEqual([file.value, seen.length], [[2], 1]);
  const warned = lines.filter(({ level }) => level === "warn");
  assert.equal(warned.length, 2, "each failure once");
  assert.match(String(warned[1]?.fields.reason), /no permission/);
  files["/a"] = "[4]";
  await clock.advance(2_000);
  assert.deepEqual(file.value, [4]);
  host.close();
  assert.equal(clock.pending, 0);
});

for (
  const [what, open, reason] of [
    ["a relative path", (host) => host.file("a"), /"a": no absolute path/],
    ["a file that is not there", (host) => host.file("/b"), /Cannot use \/b: no permission/],
    ["content that does not parse", (host) => host.file("/a", JSON_FILE), /Cannot use \/a: .*JSON/],
    ["a file that is too long", (host) => host.file("/a", { limitBytes: 2 }), /it is too long/],
    ["a limit above 16 MiB", (host) => host.file("/a", { limitBytes: 1e9 }), /want a limitBytes/],
    ["a variable that is not set", (host) => host.secret({ env: "X" }), /secret X: it is not set/],
    ["an empty secret", (host) => host.secret({ file: "/empty" }), /\/empty: it is empty/],
    [
      "more than 16 files",
      (host) => Promise.all(Array.from({ length: 17 }, () => host.file("/a"))),
      /more than 16 files and secrets/,
    ],
  ] as readonly (readonly [string, (host: PluginHost) => Promise<unknown>, RegExp])[]
) {
  test(`host refuses ${what}`, async () => {
    const { host } = fileRig({ "/a": "text", "/b": null, "/empty": "\n" });
    await assert.rejects(open(host), reason);
    host.close();
  });
}

test("host.file() reads files of the machine, and no directory", async () => {
  const directory = await mkdtemp(join(tmpdir(), "postern-host-file-"));
  const { host, clock } = rig();
  try {
    const path = join(directory, "list");
    await writeFile(path, "one");
    assert.equal((await host.file(path)).value, "one");
    await assert.rejects(host.file(path, { limitBytes: 2 }), /it has 3 bytes, more than 2/);
    await assert.rejects(host.file(directory), /Cannot use /);
  } finally {
    host.close();
    assert.equal(clock.pending, 0);
    await rm(directory, { recursive: true });
  }
});

test("host.secret() is in no log line, failure or refusal, nor is the one that it replaced", async () => {
  const { host, clock, lines, files } = fileRig({ "/key": "s3cret\n" }, { TOKEN: "t0ken" });
  const key = await host.secret({ file: "/key" });
  const token = await host.secret({ env: "TOKEN" });
  assert.deepEqual([key.read(), token.read()], ["s3cret", "t0ken"]);
  const shown = () => {
    lines.length = 0;
    host.log.info(`with ${key.read()}`, { token: token.read(), old: "s3cret" });
    const { message, fields } = lines[0] ?? assert.fail("no line");
    const refusal = host.refuse("denied", `not ${token.read()}`).failure.reason;
    return [message, fields.token, fields.old, refusal, faultOf(new Error(`bad ${key.read()}`))];
  };
  const hidden = ["with (hidden)", "(hidden)", "(hidden)", "not (hidden)", "bad (hidden)"];
  assert.deepEqual(shown(), hidden);
  assert.deepEqual([`${key}`, JSON.stringify({ key }), inspect(key)], [
    "(hidden)",
    '{"key":"(hidden)"}',
    "(hidden)",
  ]);
  files["/key"] = "n3w";
  await clock.advance(2_000);
  assert.equal(key.read(), "n3w");
  assert.deepEqual(shown(), hidden);
  host.close();
  assert.equal(faultOf(new Error("bad s3cret n3w t0ken")), "bad s3cret n3w t0ken");
});

test("host.condition() reports what began and what ended it, once, and ends with the plugin", () => {
  const told: string[] = [];
  const { host } = rig({
    began: (key, { text, effect, severity }) =>
      told.push(`${key} | ${text} | ${effect} | ${severity}`) > 0,
    ended: (key, event, refused = 0) => void told.push(`${key} | ${event?.text} | ${refused}`),
  });
  const end = host.condition({ key: "db", text: "db is slow", effect: "it waits" });
  end("db is fast", 7);
  end("again");
  host.condition({ key: "a", text: "a is slow" });
  assert.deepEqual(told.splice(0), [
    "of shop inbound db | shop: db is slow | it waits | warn",
    "of shop inbound db | shop: db is fast | 7",
    "of shop inbound a | shop: a is slow | undefined | warn",
  ]);
  for (let i = 0; i < 200; i++) host.condition({ key: `${i}`, text: "x".repeat(1_000) });
  assert.equal(told.splice(0).length, 99);
  host.close();
  assert.deepEqual(told.slice(0, 1), ["of shop inbound a | undefined | 0"]);
  assert.equal(told.length, 100);
});
