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
import { runPostern } from "../../kit/process/postern.ts";
import { rounds } from "../../kit/clock/long.ts";
import { eventually } from "../../kit/process/process.ts";

const RELOADS = rounds("reloads of plugins under load", { few: 20, all: 50 });
const CLIENTS = 4;
/** Requests that each client has under way. */
const AT_ONCE = 8;
const GET = "GET / HTTP/1.1\r\nHost: web\r\n\r\n";

interface Shown {
  readonly generation: number;
  readonly state: string;
  readonly exchanges: number;
}

test("plugins are reloaded again and again under load, all or nothing, and no request fails", async () => {
  await using mesh = await createFileSidecar();
  await using origin = await startRawOrigin(() => answerOf("ok"));
  const file = join(mesh.directory, "web.json");
  const config = JSON.parse(await readFile(file, "utf8"));
  config.inbound = { ...config.inbound, protocol: "http", local: `127.0.0.1:${origin.port}` };
  config.upstreams[0].protocol = "http";
  const write = (use: string, mark: string) => {
    const set = { "x-mark": mark };
    config.inbound.plugins = [{ use, config: { response: { set } } }];
    return writeFile(file, JSON.stringify(config));
  };
  await write("header_rules", "0");
  await using web = runPostern([...mesh.args, "-workers", "2"]);
  await web.waitReady();
  const shown = async (): Promise<readonly Shown[]> =>
    JSON.parse((await web.admin("/plugins")).body).plugins;
  const reload = () => web.admin("/plugins/reload", "POST");

  let isOver = false;
  const marks: string[] = [];
  const clients = Array.from({ length: CLIENTS }, async () => {
    await using client = await RawClient.open(mesh.upstream);
    let count = 0;
    while (!isOver) {
      client.send(GET.repeat(AT_ONCE));
      for (let i = 0; i < AT_ONCE; i++, count++) {
        const answer = await client.response();
        assert.equal(statusOf(answer), 200, answer.raw);
        const [mark = "none"] = valuesOf(answer, "x-mark");
        if (marks.at(-1) !== mark) marks.push(mark);
      }
    }
    return count;
  });
  const all = Promise.all(clients);
  const startedMs = performance.now();
  try {
    let last = 0;
    for (let turn = 1; turn <= RELOADS; turn++) {
      await write("header_rules", `${turn}`);
      const { status, body } = await reload();
      assert.equal(status, 200, body);
      const { generation } = JSON.parse(body);
      assert.ok(generation > last, body);
      last = generation;
      await eventually("it is what answers", () => marks.includes(`${turn}`));
    }
    await write("no_such_plugin", "bad");
    const refused = await reload();
    assert.equal(refused.status, 409);
    assert.match(refused.body, /inbound\.plugins\[0\]\.use: there is no plugin "no_such_plugin"/);
    assert.deepEqual((await shown()).map(({ generation }) => generation), [last]);
  } finally {
    isOver = true;
  }
  const counts = await all;
  const requests = counts.reduce((sum, count) => sum + count, 0);
  const rate = requests / (performance.now() - startedMs) * 1_000;
  console.log(`${RELOADS} reloads, ${requests} requests, ${rate.toFixed(0)} in a second`);
  assert.ok(Math.min(...counts) > RELOADS, `${counts}: too few to prove anything`);
  assert.ok(!marks.includes("bad") && !marks.includes("none"), marks.join());
  await eventually("those of before are gone", async () => (await shown()).length === 1);
  const [serving] = await shown();
  assert.equal(serving?.state, "serving");
});
