/** The operator of a caller sees which upstream refuses it, and why, on the caller's side alone. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { askAdmin } from "../../../src/admin/mod.ts";
import { followTap } from "../../../src/app/commands/live/run_tap.ts";
import { readAll, topRows } from "../../../src/app/commands/live/run_top.ts";
import { describedSidecars } from "../../../src/app/process/find_admin.ts";
import { DevMesh } from "../../kit/mesh/dev_mesh.ts";
import { startMeshPair } from "../../kit/mesh/mesh_pair.ts";
import { eventually } from "../../kit/process/process.ts";
import { RawClient, startRawOrigin, statusOf, valuesOf } from "../../kit/wire/http_raw.ts";

test("the caller's proxy names the upstream that refuses it, and the code", async () => {
  await using mesh = await DevMesh.start({});
  await using origin = await startRawOrigin();
  await mesh.configEntry({ Kind: "service-defaults", Name: "db", Protocol: "http" });
  await mesh.intention("web", "db", "deny");
  await using pair = await startMeshPair(mesh, { app: origin, noIntention: true });
  const at = await pair.web.adminAddress();
  const [host = "", port] = at.split(":");
  const found = { at, admin: { host, port: Number(port) } };
  const ask = async () => {
    const text = "GET /a?key=secret HTTP/1.1\r\nHost: db\r\n\r\n";
    return await RawClient.ask(pair.upstream, text);
  };
  await eventually("web is refused", async () => statusOf(await ask()) === 403);

  const leaving = new AbortController();
  const lines: string[] = [];
  const [described] = await describedSidecars(
    { kind: "addresses", admins: [found.admin] },
    askAdmin,
  );
  const following = followTap(described ?? found, {
    query: "denied",
    json: true,
    signal: leaving.signal,
    screen: { width: undefined, color: false },
    names: false,
    write: (line) => void lines.push(line),
    note: () => {},
  });
  const before = await readAll([found], askAdmin);
  await eventually("a tap of denied requests shows it", async () => {
    const answer = await ask();
    assert.deepEqual(valuesOf(answer, "x-postern-denied-by"), ["intention_denied"]);
    return lines.length > 0;
  });
  leaving.abort();
  await following;
  const tapped = JSON.parse(lines[0] ?? "");
  assert.deepEqual([tapped.direction, tapped.code, tapped.deniedBy, tapped.path], [
    "outbound",
    "intention_denied",
    "db",
    "/a",
  ]);

  const after = await readAll([found], askAdmin);
  const [row] = topRows(before.reads, after.reads, { sort: "rate", by: ["upstream"] });
  assert.equal(row?.upstream, "db");
  assert.ok(row && row.perSecond > 0 && row.errorsPerSecond === row.perSecond);
  assert.equal(row.refused, "intention_denied");

  const page = async (path: string) => (await pair.web.admin(path)).body;
  const sentence =
    /db refuses web \(intention_denied\), \d+ requests? in the last minute; on its host: postern explain .*-inbound -source web/;
  assert.match(await page("/ready"), sentence);
  assert.match(await page("/ready?format=postern"), sentence);
  assert.match(await page("/"), sentence);
  assert.match(await page("/"), /refused by db/);
  assert.match(
    await page("/explain?upstream=db&path=/a&format=text"),
    /\nrecently +\d+ requests? to db in the last minute w\w+ refused by it \(intention_denied\), the last: GET \/a\n/,
  );
  const { refusals, refusing } = JSON.parse(await page("/traffic"));
  assert.deepEqual([refusals[0].code, refusals[0].deniedBy, refusals[0].direction], [
    "intention_denied",
    "db",
    "outbound",
  ]);
  assert.deepEqual([refusing[0].upstream, refusing[0].code], ["db", "intention_denied"]);
  assert.match(
    await page("/stats/prometheus"),
    /^postern_http_upstream_refusals_total\{[^}]*code="intention_denied"[^}]*\} [1-9]/m,
  );
  await eventually("an event tells that it began", async () => {
    return /requests to db are refused with intention_denied by db/.test(await page("/events"));
  });
  assert.match(
    pair.web.output,
    /request refused by the upstream .*code=intention_denied denied_by=db/,
  );
  assert.ok(!/key=secret/.test(pair.web.output + pair.db.output), "a query is in a log");
});
