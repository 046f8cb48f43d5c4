import assert from "node:assert/strict";
import { test } from "node:test";
import type { Snapshot } from "../../src/snapshot/mod.ts";
import { answerOf, RawClient, startRawOrigin, statusOf } from "../kit/http_raw.ts";
import { startPathPair } from "../kit/path_pair.ts";
import { freePort } from "../kit/ports.ts";
import { httpRules } from "../kit/snapshots.ts";

const DB = "service:default/default/db";

test("an edge leads to a service by the host of each request, and to nobody by another", async () => {
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
        ...{ id: "ingress", version, bind: { kind: "tcp", host: "127.0.0.1", port } },
        ...{ http: httpRules("http"), listener: null },
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
  // The next request on the open connection goes by what is declared then.
  await pair.web.set(withEdge(["*.example"], 900_002));
  assert.deepEqual(await ask("other.example"), [200, "from db"]);
  // The listener that the upstream had is gone.
  await assert.rejects(RawClient.open({ host: "127.0.0.1", port: pair.port }));
});
