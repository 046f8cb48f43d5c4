import assert from "node:assert/strict";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { createFileSidecar } from "../../kit/mesh/file_sidecar.ts";
import {
  answerOf,
  RawClient,
  startRawOrigin,
  statusOf,
  valuesOf,
} from "../../kit/wire/http_raw.ts";
import { rounds } from "../../kit/clock/long.ts";
import { residentBytes } from "../../kit/process/memory.ts";
import { OWN_ENGINE, runPostern } from "../../kit/process/postern.ts";

const RELOADS = rounds("reloads of plugins that leave nothing", { few: 20, all: 500 });
/** Resident memory goes up and down with the collector; a leak grows each time. */
const RUNS = 3;
const MB = 1_048_576;
/**
 * Few reloads are compared with the memory that a collector leaves for later, many with the memory from
 * before.
 */
const limitBytes = (before: number) => RELOADS > 100 ? before / 10 : 96 * MB;

/** Deno imports a changed file, which it never frees. */
const HAS_FILE = OWN_ENGINE === "bun";

/** Text that differs each time, with something to keep for as long as it is kept. */
const pluginOf = (turn: number) => `
const kept = new Uint8Array(1_048_576).fill(1);
export default {
  name: "own_mark",
  api: 1,
  phase: "filter",
  config: { "~standard": { version: 1, validate: (value) => ({ value }) } },
  create(host) {
    const seen = host.stats.counter("seen", { help: "Requests" });
    host.spawn("waits", (signal) => host.clock.sleep(3_600_000, signal));
    const add = { "x-own": String(${turn} * kept[0]) };
    return {
      onRequest(_, next) {
        seen.add(1);
        return next({ response: (response) => response.with({ headers: { add } }) });
      },
    };
  },
};
`;

test("plugins that are reloaded hundreds of times leave nothing in memory", async () => {
  await using mesh = await createFileSidecar();
  await using origin = await startRawOrigin(() => answerOf("ok"));
  const file = join(mesh.directory, "web.json");
  const config = JSON.parse(await readFile(file, "utf8"));
  config.inbound = { ...config.inbound, protocol: "http", local: `127.0.0.1:${origin.port}` };
  config.upstreams[0].protocol = "http";
  const write = async (turn: number) => {
    const set = { "x-mark": `${turn}` };
    config.inbound.plugins = [
      { use: "access_log", config: { when: { minStatus: 500 } } },
      { use: "header_rules", config: { response: { set } } },
      ...HAS_FILE ? [{ use: "./own.ts" }] : [],
    ];
    await writeFile(file, JSON.stringify(config));
    await writeFile(join(mesh.directory, "own.ts"), pluginOf(turn));
  };
  await write(0);
  await using web = runPostern(mesh.args);
  await web.waitReady();
  await using client = await RawClient.open(mesh.upstream);
  const reload = async (turn: number) => {
    await write(turn);
    const { status, body } = await web.admin("/plugins/reload", "POST");
    assert.equal(status, 200, body);
    client.send("GET / HTTP/1.1\r\nHost: web\r\n\r\n");
    const answer = await client.response();
    assert.equal(statusOf(answer), 200, answer.raw);
    assert.deepEqual(valuesOf(answer, "x-mark"), [`${turn}`]);
    assert.deepEqual(valuesOf(answer, "x-own"), HAS_FILE ? [`${turn}`] : []);
  };
  let turn = 0;
  const run = async () => {
    const resident: number[] = [];
    for (const last = turn + RELOADS; turn < last;) {
      await reload(++turn);
      resident.push(await residentBytes(web.pid));
    }
    return median(resident.slice(-RELOADS / 5));
  };
  let before = await run();
  for (let runs = 1;; runs++) {
    const after = await run();
    const shown = [before, after].map((bytes) => `${(bytes / MB).toFixed(1)} MiB`);
    console.log(`${shown[0]} resident, ${shown[1]} after ${RELOADS} more reloads`);
    if (after - before < limitBytes(before)) break;
    assert.ok(runs < RUNS, shown.join(" to "));
    before = after;
  }
});

function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[values.length >> 1] ?? 0;
}
