/** `status`, `top` and `tap` show two sidecars of real processes, and the requests between them. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { askAdmin } from "../../../src/admin/mod.ts";
import { statusText } from "../../../src/app/commands/live/run_status.ts";
import { followTap } from "../../../src/app/commands/live/run_tap.ts";
import { readAll, sinceStart, topRows } from "../../../src/app/commands/live/run_top.ts";
import { describedSidecars } from "../../../src/app/process/find_admin.ts";
import type { Postern } from "../../kit/process/postern.ts";
import { eventually } from "../../kit/process/process.ts";
import { startFilePair } from "../../kit/mesh/file_pair.ts";
import { RawClient, startRawOrigin, statusOf } from "../../kit/wire/http_raw.ts";

const INTENTIONS = [{
  source: "web",
  permissions: [
    { action: "deny", http: { pathPrefix: "/admin" } },
    { action: "allow", http: { pathPrefix: "/" } },
  ],
}];

async function sidecarOf(postern: Postern) {
  const at = await postern.adminAddress();
  const [host = "", port] = at.split(":");
  return { at, admin: { host, port: Number(port) } };
}

test("status, top and tap show two sidecars and what passes between them", async () => {
  await using origin = await startRawOrigin();
  await using pair = await startFilePair({
    protocol: "http",
    apps: [{ host: "127.0.0.1", port: origin.port }],
    intentions: INTENTIONS,
  });
  const [dbProcess] = pair.dbs;
  assert.ok(dbProcess);
  const found = [await sidecarOf(pair.web), await sidecarOf(dbProcess)] as const;
  const which = { kind: "addresses", admins: found.map(({ admin }) => admin) } as const;
  const screen = { width: undefined, color: false };
  const status = await statusText({ which, json: true, strict: true }, screen, askAdmin);
  assert.equal(status.exitCode, 0, status.text);
  assert.deepEqual(
    JSON.parse(status.text).sidecars.map((
      one: { service: string; pid: number },
    ) => [one.service, one.pid]),
    [["web", pair.web.pid], ["db", dbProcess.pid]],
  );

  const ending = new AbortController();
  const lines = {
    all: [] as string[],
    denied: [] as string[],
    text: [] as string[],
    notes: [] as string[],
  };
  const described = await describedSidecars(which, askAdmin);
  const follow = (at: 0 | 1, query: string, taken: string[]) =>
    followTap(described[at] ?? found[at], {
      query,
      json: taken !== lines.text,
      signal: ending.signal,
      screen,
      names: taken === lines.text,
      write: (line) => void taken.push(line),
      note: (text) => void lines.notes.push(text),
    });
  const following = [
    follow(0, "header=x-tag", lines.all),
    follow(1, "denied", lines.denied),
    follow(1, "denied", lines.text),
  ];
  await using client = await RawClient.open(pair.upstream);
  const statusFor = async (path: string) => {
    client.send(`GET ${path} HTTP/1.1\r\nHost: db\r\nX-Tag: blue\r\nAuthorization: x1y2\r\n\r\n`);
    return statusOf(await client.response());
  };
  // Each tap is open once a first request is seen.
  await eventually("all taps are open", async () => {
    assert.equal(await statusFor("/admin/first"), 403);
    return lines.all.length > 0 && lines.denied.length > 0 && lines.text.length > 0;
  });
  const before = await readAll(found, askAdmin);
  for (const path of ["/a?key=secret", "/b", "/admin/keys"]) {
    assert.equal(await statusFor(path), path.startsWith("/admin") ? 403 : 200);
  }
  const after = await readAll(found, askAdmin);
  await eventually("the lines have come", () => {
    return lines.all.some((line) => line.includes("/admin/keys")) &&
      lines.denied.some((line) => line.includes("/admin/keys")) &&
      lines.text.some((line) =>
        / 403 +\S+ms web => db GET \/admin\/keys intention_denied, .* \(inbound, /.test(line)
      );
  });
  assert.ok(lines.text.every((line) => line.startsWith("db ")), lines.text.join("\n"));
  ending.abort();
  assert.deepEqual(await Promise.all(following), [true, true, true]);
  const shown = lines.all.map((line) => JSON.parse(line)).filter(({ path }) =>
    /^\/[ab]$/.test(path)
  );
  assert.deepEqual(
    shown.map((
      { caller, upstream, path, status, headers },
    ) => [caller, upstream, path, status, headers]),
    [["web", "db", "/a", 200, { "x-tag": "blue" }], ["web", "db", "/b", 200, { "x-tag": "blue" }]],
  );
  assert.ok(!/secret|x1y2/.test(lines.all.join()), "a query or a credential is shown");
  for (const line of lines.denied.map((text) => JSON.parse(text))) {
    assert.match(line.path, /^\/admin/);
    assert.deepEqual([line.caller, line.code, line.status], ["web", "intention_denied", 403]);
  }
  assert.deepEqual(lines.notes, []);

  const by = ["caller", "upstream"] as const;
  const rows = topRows(before.reads, after.reads, { sort: "rate", by });
  const seconds = after.reads.map(({ atMs }, at) => (atMs - (before.reads[at]?.atMs ?? 0)) / 1_000);
  const outbound = rows.find(({ direction }) => direction === "outbound");
  const inbound = rows.find(({ direction }) => direction === "inbound");
  assert.deepEqual([outbound?.caller, outbound?.upstream], ["web", "db"]);
  assert.deepEqual([inbound?.caller, inbound?.upstream], ["web", ""]);
  assert.equal(Math.round((outbound?.perSecond ?? 0) * (seconds[0] ?? 0)), 3);
  assert.equal(Math.round((inbound?.perSecond ?? 0) * (seconds[1] ?? 0)), 3);
  assert.equal(Math.round((inbound?.errorsPerSecond ?? 0) * (seconds[1] ?? 0)), 1);
  assert.deepEqual(inbound?.faults, [{ status: 403, code: "intention_denied", count: 1 }]);
  const total = topRows(sinceStart(after.reads), after.reads, { sort: "rate", by });
  const requests = (direction: string) =>
    after.reads.flatMap((read) => read.rows).filter((row) => row.direction === direction)
      .reduce((sum, row) => sum + row.requests, 0);
  for (const direction of ["inbound", "outbound"]) {
    const row = total.find((row) => row.direction === direction);
    assert.equal(Math.round(row?.perSecond ?? 0), requests(direction));
  }
  assert.ok((outbound?.p99.ms ?? 0) >= (outbound?.p50.ms ?? 0) && (outbound?.p50.ms ?? 0) > 0);
});
