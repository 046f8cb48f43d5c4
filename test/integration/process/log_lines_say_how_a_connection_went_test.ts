import test from "node:test";
import assert from "node:assert/strict";
import { DevMesh } from "../../kit/mesh/dev_mesh.ts";
import { expectRefused, waitForEcho, waitForRefusal } from "../../kit/wire/echo.ts";
import { startMeshPair } from "../../kit/mesh/mesh_pair.ts";

test("-log-json writes one object per line, with every field of a connection's end", async () => {
  await using mesh = await DevMesh.start();
  await using pair = await startMeshPair(mesh, { db: { args: ["-log-json"] } });
  await waitForEcho(pair.upstream);
  await mesh.intention("web", "db", "deny");
  await waitForRefusal(pair.upstream);
  // That connection may have been on its way already; the next is refused where it should be.
  await expectRefused(pair.upstream);
  await pair.db.process.waitFor(/"connection failed"[^\n]*"authorize"/, { timeoutMs: 20_000 });
  assert.equal((await pair.db.stop()).code, 0);

  const records = pair.db.output.trimEnd().split("\n").map((line) => JSON.parse(line));
  for (const { time, level, message } of records) {
    assert.match(time, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
    assert.match(level, /^(info|warn|error)$/);
    assert.equal(typeof message, "string");
  }
  const ended = records.find(({ message }) => message === "connection ended");
  assert.equal(ended.level, "info");
  const { time: _, duration_ms, source, rule, remote, ...rest } = ended;
  assert.equal(typeof duration_ms, "number");
  assert.match(source, /^spiffe:.*\/svc\/web$/);
  assert.match(rule, /web.*allow/);
  assert.match(remote, /^127\.[\d.]+:\d+$/);
  assert.deepEqual(rest, {
    level: "info",
    message: "connection ended",
    direction: "inbound",
    listener: "inbound",
    destination: "db",
    endpoint: `${pair.app.host}:${pair.app.port}`,
    received_bytes: 5,
    sent_bytes: 5,
    ended_by: "downstream",
    stage: "relay",
  });
  const failed = records.findLast(({ message }) => message === "connection failed");
  assert.equal(failed.level, "info", "an intention that denies is no trouble");
  assert.equal(failed.code, "intention_denied");
  assert.equal(failed.stage, "authorize");
  assert.equal(failed.ended_by, "proxy");
  assert.match(failed.rule, /web.*deny/);
  assert.equal(failed.reason, undefined, "the rule says it");

  // The other one writes text: time, level, words, fields.
  for (const line of pair.web.output.trimEnd().split("\n")) {
    assert.match(line, /^\d{4}-\d\d-\d\dT[\d:.]{12}Z \[(INFO|WARN|ERROR)\] +[a-z]/);
  }
  await pair.web.process.waitFor(
    /connection ended direction=outbound listener=\S*db source=web destination=db remote=\S+ endpoint=\S+ received_bytes=5 sent_bytes=5 duration_ms=\d+ ended_by=downstream stage=relay/,
    { timeoutMs: 20_000 },
  );
});
