import assert from "node:assert/strict";
import type { Socket } from "node:net";
import { test } from "node:test";
import { answerOf, RawClient, startRawOrigin, statusOf, valuesOf } from "../kit/wire/http_raw.ts";
import { startPathPair } from "../kit/engine/path_pair.ts";
import { eventually } from "../kit/process/process.ts";
import { httpRules, withInbound } from "../kit/engine/snapshots.ts";
import { startWorkerRig } from "../kit/engine/worker_rig.ts";

const GET = "GET /a HTTP/1.1\r\nHost: db\r\n\r\n";
const GRPC = "POST /a.B/C HTTP/1.1\r\nHost: db\r\nContent-Type: application/grpc\r\n" +
  "Content-Length: 0\r\n\r\n";

function use(plugin: string, config: unknown) {
  return { plugin, config, onFailure: "refuse", at: `plugins.${plugin}` } as const;
}

test("a caller that comes too fast is turned away, over a reload too, and the application hears nothing", async () => {
  await using origin = await startRawOrigin();
  const limits = [{ requestsPerSecond: 0.01, burst: 2, by: "source" }];
  const plugins = [use("rate_limit", { limits })];
  await using pair = await startPathPair({
    localPort: origin.port,
    inbound: { http: httpRules("http"), plugins },
    upstream: { http: httpRules("http") },
  });
  await using client = await RawClient.open({ host: "127.0.0.1", port: pair.port });
  const ask = async (text: string) => {
    client.send(text);
    return await client.response();
  };
  assert.equal(statusOf(await ask(GET)), 200);
  assert.equal(statusOf(await ask(GET)), 200);
  const refused = await ask(GET);
  assert.deepEqual([statusOf(refused), refused.body], [429, "local_rate_limited"]);
  assert.deepEqual(valuesOf(refused, "x-envoy-ratelimited"), ["true"]);
  const grpc = await ask(GRPC);
  assert.deepEqual([statusOf(grpc), ...valuesOf(grpc, "grpc-status")], [200, "14"]);
  await pair.db.set(withInbound(pair.dbSnapshot, {
    http: httpRules("http"),
    plugins: [...plugins, use("header_rules", {})],
  }));
  assert.equal(statusOf(await ask(GET)), 429);
  assert.equal(origin.requests.length, 2);
  await pair.line(({ fields }) => fields.code === "rate_limited");
});

test("no more requests run than may, and a place is free again after each", async () => {
  const held: Socket[] = [];
  await using origin = await startRawOrigin(({ head }, socket) => {
    if (head.startsWith("GET /held")) return void held.push(socket);
    return answerOf("ok");
  });
  await using pair = await startPathPair({
    localPort: origin.port,
    inbound: { http: httpRules("http"), plugins: [use("in_flight_limit", { limit: 2 })] },
    upstream: { http: httpRules("http") },
  });
  const place = { host: "127.0.0.1", port: pair.port };
  await using first = await RawClient.open(place);
  await using second = await RawClient.open(place);
  const hold = async (client: RawClient) => {
    const before = held.length;
    client.send(GET.replace("/a", "/held"));
    await eventually("it runs", () => held.length > before);
  };
  await hold(first);
  await hold(second);
  const refused = await RawClient.ask(place, GET);
  assert.equal(statusOf(refused), 503);
  assert.deepEqual(valuesOf(refused, "x-envoy-overloaded"), ["true"]);
  held[0]?.end(answerOf("ok", "HTTP/1.1 200 OK\r\nConnection: close"));
  assert.equal(statusOf(await first.response()), 200);
  // A request is over with its answer, or with its caller.
  await hold(first);
  assert.equal(statusOf(await RawClient.ask(place, GET)), 503);
  for (const { socket } of [first, second]) socket.resetAndDestroy();
  await eventually(
    "there is room again",
    async () => statusOf(await RawClient.ask(place, GET)) === 200,
  );
});

test("two workers keep one rate and one count between them", async () => {
  const held: Socket[] = [];
  await using origin = await startRawOrigin(({ head }, socket) => {
    if (head.startsWith("GET /held")) return void held.push(socket);
    return answerOf("ok");
  });
  await using rig = await startWorkerRig({
    app: origin,
    http: httpRules("http"),
    plugins: [
      use("rate_limit", {
        paths: [{ exact: "/a", limits: [{ requestsPerSecond: 0.01, burst: 10 }] }],
      }),
      use("in_flight_limit", { limit: 4 }),
    ],
  });
  const clients: RawClient[] = [];
  const ask = async (client: RawClient, path: string) => {
    client.send(GET.replace("/a", path));
    return statusOf(await client.response());
  };
  try {
    // The kernel deals connections out: so many that both workers have some.
    for (let i = 0; i < 24; i++) {
      const client = await RawClient.open(rig.upstream);
      clients.push(client);
      assert.equal(await ask(client, "/free"), 200);
    }
    const workers = new Set((await rig.connections()).map(({ id }) => id.split("-")[0]));
    assert.equal(workers.size, 2);
    let granted = 0;
    for (const client of [...clients, ...clients]) {
      if (await ask(client, "/a") === 200) granted++;
    }
    assert.equal(granted, 10);
    let refused = 0;
    for (const client of clients) {
      void ask(client, "/held").then((status) => refused += Number(status === 503), () => {});
    }
    await eventually("all but four are refused", () => refused === 20 && held.length === 4);
  } finally {
    for (const { socket } of clients) socket.destroy();
  }
});
