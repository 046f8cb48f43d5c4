import assert from "node:assert/strict";
import { test } from "node:test";
import type { Snapshot } from "../../src/snapshot/mod.ts";
import { answerOf, RawClient, startRawOrigin, statusOf, valuesOf } from "../kit/wire/http_raw.ts";
import { startPathPair } from "../kit/engine/path_pair.ts";
import { freePort } from "../kit/process/ports.ts";
import { httpRules } from "../kit/engine/snapshots.ts";

const DB = "service:default/default/db";

test("an edge routes each request by its host, and refuses unknown hosts", async () => {
  await using origin = await startRawOrigin(() => answerOf("from db"));
  await using pair = await startPathPair({
    localPort: origin.port,
    inbound: { http: httpRules("http") },
    upstream: { http: httpRules("http") },
  });
  const port = await freePort("127.0.0.1");
  const { upstreams } = pair.webSnapshot;
  const db = upstreams[DB];
  assert.ok(db);
  const withEdge = (names: readonly string[], version: number): Snapshot => ({
    ...pair.webSnapshot,
    upstreams: { [DB]: { ...db, bind: null, version: 900_000 } },
    edges: {
      ingress: {
        id: "ingress",
        version,
        bind: { kind: "tcp", host: "127.0.0.1", port },
        http: httpRules("http"),
        plugins: [],
        listener: null,
        hosts: [{ names, upstream: DB }, { names: ["gone.example"], upstream: "service:gone" }],
      },
    },
  });
  await pair.web.set(withEdge(["db.example"], 900_001));
  await using client = await RawClient.open({ host: "127.0.0.1", port });
  const ask = async (host: string) => {
    client.send(`GET / HTTP/1.1\r\nHost: ${host}\r\n\r\n`);
    const answer = await client.response();
    return [statusOf(answer), answer.body];
  };
  assert.deepEqual(await ask("db.example"), [200, "from db"]);
  assert.deepEqual(await ask(`DB.example:${port}`), [200, "from db"]);
  assert.deepEqual(await ask("other.example"), [404, ""]);
  assert.deepEqual(await ask("gone.example"), [404, ""]);
  // The next request on the open connection follows the declaration of that time.
  await pair.web.set(withEdge(["*.example"], 900_002));
  assert.deepEqual(await ask("other.example"), [200, "from db"]);
  // The listener that the upstream had is gone.
  await assert.rejects(RawClient.open({ host: "127.0.0.1", port: pair.port }));
});

test("an edge changes headers of forwarded requests and of all its responses", async () => {
  await using origin = await startRawOrigin(() =>
    answerOf("ok", "HTTP/1.1 200 OK\r\nX-Secret: 1\r\nX-Set: theirs")
  );
  await using pair = await startPathPair({
    localPort: origin.port,
    inbound: { http: httpRules("http") },
    upstream: { http: httpRules("http") },
  });
  const port = await freePort("127.0.0.1");
  const db = pair.webSnapshot.upstreams[DB];
  assert.ok(db);
  const bind = { kind: "tcp", host: "127.0.0.1", port } as const;
  const withEdge = (upstream: string, version: number): Snapshot => ({
    ...pair.webSnapshot,
    upstreams: { [DB]: { ...db, bind: null, version: 900_000 } },
    edges: {
      ingress: {
        id: "ingress",
        version,
        bind,
        http: httpRules("http"),
        plugins: [],
        listener: null,
        hosts: [{
          names: ["*"],
          upstream,
          requestHeaders: {
            remove: ["x-internal"],
            set: [["x-client", "%DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT% by %REQ(:METHOD)%"]],
            add: [["x-many", "2"]],
          },
          responseHeaders: {
            remove: ["x-secret"],
            set: [["x-set", "ours"]],
            add: [["x-code", "%RESPONSE_CODE%"]],
          },
        }],
      },
    },
  });
  await pair.web.set(withEdge(DB, 900_011));
  await using client = await RawClient.open({ host: "127.0.0.1", port });
  const ask = async () => {
    client.send("GET / HTTP/1.1\r\nHost: a\r\nX-Internal: 1\r\nX-Client: me\r\nX-Many: 1\r\n\r\n");
    const answer = await client.response();
    return ["x-secret", "x-set", "x-code"].map((name) => valuesOf(answer, name).join());
  };
  assert.deepEqual(await ask(), ["", "ours", "200"]);
  const [request] = origin.requests;
  assert.ok(request);
  assert.deepEqual(
    ["x-internal", "x-client", "x-many"].map((name) => valuesOf(request, name).join()),
    ["", "127.0.0.1 by GET", "1,2"],
  );
  // No instance is there to answer, and still it is an answer for that host.
  await pair.db.path.drain(0);
  assert.deepEqual(await ask(), ["", "ours", "503"]);
});
