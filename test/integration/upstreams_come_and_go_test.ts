/**
 * Upstreams that are declared and removed for as long as the proxy runs: their counters are given back,
 * and those that stay do not notice.
 *
 * @module
 */

import assert from "node:assert/strict";
import { test } from "node:test";
import { diffSnapshots } from "../../src/snapshot/mod.ts";
import { openClient } from "../kit/engine/data_path.ts";
import { startEcho } from "../kit/wire/echo.ts";
import { recordingLog, startPathPair } from "../kit/engine/path_pair.ts";
import { upstreamOf } from "../kit/engine/snapshots.ts";

test("10,000 upstreams come and go; one that stays serves on and keeps its limits", async () => {
  await using echo = await startEcho();
  await using pair = await startPathPair({ localPort: echo.port, upstream: { maxConnections: 2 } });
  await using open = await openClient(pair.port);
  const names = (turn: number) => Array.from({ length: 250 }, (_, index) => `u${turn}-${index}`);
  for (let turn = 0; turn < 40; turn++) {
    const parts = names(turn).map((name) => upstreamOf({ name }));
    const upstreams = Object.fromEntries(parts.map((part) => [part.id, part]));
    await pair.web.set({
      ...pair.webSnapshot,
      upstreams: { ...upstreams, ...pair.webSnapshot.upstreams },
    });
    await using refused = await openClient(pair.web.port(`u${turn}-0`));
    assert.equal(await refused.gone, "reset", "it has no instance");
  }
  await using second = await openClient(pair.port);
  await using third = await openClient(pair.port);
  assert.equal(await third.gone, "reset", "the limit of two holds");
  for (const client of [open, second]) {
    client.send("hello");
    assert.equal(String(await client.read(5)), "hello");
  }
  await pair.web.set(pair.webSnapshot);
  const labels = pair.web.path.stats.samples().map(({ labels }) => labels);
  assert.ok(!labels.some(({ overflow }) => overflow), "metrics ran out of names");
  assert.ok(!labels.some(({ listener = "" }) => /u\d+-/.test(listener)), "one left metrics behind");
});

test("a removed upstream's connections count on when it is declared again", async () => {
  await using echo = await startEcho();
  await using pair = await startPathPair({ localPort: echo.port, upstream: { maxConnections: 1 } });
  await using open = await openClient(pair.port);
  open.send("hello");
  await open.read(5);
  await pair.web.set({ ...pair.webSnapshot, upstreams: {} });
  await pair.web.set(pair.webSnapshot);
  await using refused = await openClient(pair.web.port("db"));
  assert.equal(await refused.gone, "reset");
  await pair.line(({ fields }) => fields.code === "limit_reached");
  open.send("still");
  assert.equal(String(await open.read(5)), "still");
});

test("an upstream above the limit is refused by name, and opened once there is room", async () => {
  await using echo = await startEcho();
  const { log, lines } = recordingLog();
  await using pair = await startPathPair({ localPort: echo.port, web: { log } });
  const { path } = pair.web;
  const late = upstreamOf({ name: "late" });
  const upstreams = { ...pair.webSnapshot.upstreams, [late.id]: late };
  const more = { ...pair.webSnapshot, version: late.version, upstreams };
  const columns = Object.fromEntries(Object.keys(pair.webSnapshot.upstreams).map((id) => [id, 2]));
  await path.prepare(diffSnapshots(pair.webSnapshot, more));
  await path.publish(columns);
  const refused = path.listeners().find(({ name }) => name === late.id);
  assert.equal(refused?.state, "failed");
  assert.match(refused.error, /^Cannot open upstream service:default\/default\/late: 8191 are/);
  assert.equal(await path.retryFailed(), false);
  const errors = lines.filter(({ level, message }) =>
    level === "error" && message.includes("failed")
  );
  assert.equal(errors.length, 1);
  await using client = await openClient(pair.port);
  client.send("hello");
  assert.equal(String(await client.read(5)), "hello");
  await path.prepare(diffSnapshots(more, { ...more }));
  await path.publish({ ...columns, [late.id]: 4 });
  assert.ok(path.listeners().every(({ state }) => state === "listening"));
});
