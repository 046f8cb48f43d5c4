import test from "node:test";
import assert from "node:assert/strict";
import { DevMesh } from "../../kit/mesh/dev_mesh.ts";
import type { Fault } from "../../kit/dev_agent/faults.ts";
import { EchoClient, waitForEcho } from "../../kit/wire/echo.ts";
import { Load } from "../../kit/wire/load.ts";
import { expectFollowed, startMeshPair } from "../../kit/mesh/mesh_pair.ts";
import type { Postern } from "../../kit/process/postern.ts";
import { eventually } from "../../kit/process/process.ts";

const HELLO = new TextEncoder().encode("hello");

/**
 * A different fault for each path of the agent, and the facts about it that the sidecar which reads that
 * path shows.
 */
const FAULTS: readonly (readonly [
  on: RegExp,
  fault: Fault,
  reader: "web" | "db",
  knows: RegExp,
])[] = [
  [
    /agent\/connect\/ca\/roots/,
    { kind: "status", status: 500, text: "No cluster leader" },
    "db",
    /roots .*agent_failed .*No cluster leader/,
  ],
  [/ca\/leaf\/db/, { kind: "truncate" }, "db", /leaf db agent_reply_invalid .*JSON/],
  [/ca\/leaf\/web/, { kind: "replace", body: "null" }, "web", /leaf web agent_reply_invalid/],
  [
    /intentions\/match/,
    { kind: "replace", body: '{"db": [{"SourceName": 7}], "web": []}' },
    "db",
    /intentions db agent_reply_invalid .*SourceName must be a text, not 7/,
  ],
  [
    /agent\/service\/db-1/,
    { kind: "oversize", bytes: 50 << 20 },
    "db",
    /registration db-1-sidecar-proxy agent_reply_invalid .*8388608/,
  ],
  [
    /agent\/service\/web-1/,
    { kind: "cut" },
    "web",
    /registration web-1-sidecar-proxy agent_unreachable .*connection ended/,
  ],
  [
    /discovery-chain/,
    { kind: "replace", body: '{"Chain": {"Nodes": 3}}' },
    "web",
    /chain db agent_reply_invalid .*Nodes/,
  ],
  [
    /health\/connect/,
    { kind: "replace", body: "<html>" },
    "web",
    /health db dc=dc1 agent_reply_invalid .*JSON/,
  ],
];

test("an agent that answers nonsense does not touch the traffic, and is followed afterwards", async () => {
  await using mesh = await DevMesh.start();
  await using pair = await startMeshPair(mesh);
  await waitForEcho(pair.upstream);
  await using load = new Load(pair.upstream);
  for (const [on, fault] of FAULTS) mesh.agent.breakNext(on, fault, Infinity);
  // Waiting polls would not be repeated by themselves.
  await mesh.agent.restart();
  for (const [, , reader, knows] of FAULTS) {
    await eventually(
      `${reader} knows: ${knows}`,
      async () => knows.test(await failing(pair[reader])),
    );
  }
  await enough(load);
  mesh.agent.mend();
  pair.expectFlawless(await load.stop(), { atLeast: 20 });
  await expectFollowed(mesh, pair);
});

test("an agent that hangs does not touch the traffic", async () => {
  await using mesh = await DevMesh.start();
  await using pair = await startMeshPair(mesh);
  await waitForEcho(pair.upstream);
  await using load = new Load(pair.upstream);
  mesh.agent.breakNext(/./, { kind: "hang" }, Infinity);
  const before = mesh.agent.load.requests;
  await mesh.agent.restart();
  await eventually("both ask again", () => mesh.agent.load.requests > before + 4);
  await enough(load);
  pair.expectFlawless(await load.stop(), { atLeast: 20 });
  mesh.agent.mend();
  // A call that hangs would be given up after 30 s; a restart of the agent is sooner.
  await mesh.agent.restart();
  await expectFollowed(mesh, pair);
});

test("an agent that is away, and comes back, does not touch the traffic", async () => {
  await using mesh = await DevMesh.start();
  await using pair = await startMeshPair(mesh);
  await waitForEcho(pair.upstream);
  await using load = new Load(pair.upstream);
  await mesh.agent.stop();
  for (const sidecar of [pair.web, pair.db]) {
    await sidecar.process.waitFor(/\[WARN\][^\n]*agent_unreachable/, { timeoutMs: 30_000 });
  }
  await eventually("a metric says so", () => isStale(pair.db));
  await enough(load);
  // One line for all requests, not one for each; this machine's limits are another matter.
  assert.equal(pair.db.output.match(/\[WARN\](?!.*open files)/g)?.length, 1);
  await mesh.agent.start();
  for (const sidecar of [pair.web, pair.db]) {
    await sidecar.process.waitFor(/agent reached again/, { timeoutMs: 30_000 });
  }
  pair.expectFlawless(await load.stop(), { atLeast: 20 });
  await expectFollowed(mesh, pair);
  assert.equal((await pair.db.admin("/ready")).status, 200);
});

test("an agent that counts from a lower index is followed", async () => {
  await using mesh = await DevMesh.start();
  await using pair = await startMeshPair(mesh);
  for (let turn = 0; turn < 30; turn++) await mesh.intention("other", "db", "deny");
  await waitForEcho(pair.upstream);
  await using load = new Load(pair.upstream);
  const before = mesh.agent.load.requests;
  await mesh.agent.restart({ rewind: true });
  await eventually("both ask again", () => mesh.agent.load.requests > before + 10);
  await enough(load);
  pair.expectFlawless(await load.stop(), { atLeast: 20 });
  await expectFollowed(mesh, pair);
});

test("an agent that forgot the registrations does not touch the traffic", async () => {
  await using mesh = await DevMesh.start();
  await using pair = await startMeshPair(mesh);
  await waitForEcho(pair.upstream);
  const open = await EchoClient.open(pair.upstream);
  await open.exchange(HELLO);
  await using load = new Load(pair.upstream);
  for (const id of ["web-1", "db-1"]) {
    await mesh.deregister(id);
  }
  const gone = /\[WARN\][^\n]*watch="?registration[^\n]*agent_not_found[^\n]*/;
  for (const sidecar of [pair.web, pair.db]) {
    await sidecar.process.waitFor(gone, { timeoutMs: 30_000 });
    await eventually("a metric says so", () => isStale(sidecar));
  }
  await enough(load);
  await pair.registerAgain();
  await eventually("web sees it is registered again", async () => {
    return await pair.web.metric("postern_snapshot_stale") === 0;
  }, { timeoutMs: 40_000 });
  pair.expectFlawless(await load.stop(), { atLeast: 20 });
  await open.exchange(HELLO);
  await open.finish();
  // Said once, not once a second.
  assert.equal(pair.db.output.match(new RegExp(gone, "g"))?.length, 1);
});

/** One line per watch that fails: its name, code and message. */
async function failing(postern: Postern): Promise<string> {
  const { source } = JSON.parse((await postern.admin("/config_dump")).body) as {
    readonly source: { readonly failing: readonly Readonly<Record<string, string>>[] };
  };
  return source.failing.map(({ watch, code, message }) => `${watch} ${code} ${message}`).join("\n");
}

async function isStale(postern: Postern): Promise<boolean> {
  return await postern.metric("postern_snapshot_stale") > 0;
}

/** Some more traffic: two dozen messages since now. */
async function enough(load: Load): Promise<void> {
  const before = load.result.exchanges;
  await eventually("the load goes on", () => load.result.exchanges >= before + 24);
}
