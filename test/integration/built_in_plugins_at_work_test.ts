import { Buffer } from "node:buffer";
import { createHash } from "node:crypto";
import { constants, gunzipSync } from "node:zlib";
import assert from "node:assert/strict";
import { test } from "node:test";
import {
  answerOf,
  type RawAnswer,
  RawClient,
  type RawMessage,
  startRawOrigin,
  statusOf,
  valuesOf,
} from "../kit/wire/http_raw.ts";
import { startPathPair } from "../kit/engine/path_pair.ts";
import { pause } from "../kit/process/process.ts";
import { eventually } from "../kit/process/process.ts";
import { httpRules } from "../kit/engine/snapshots.ts";

interface Rig extends AsyncDisposable {
  /** First lines of what reached the application. */
  readonly asked: string[];
  readonly place: { readonly host: string; readonly port: number };
  ask(head: string): Promise<RawMessage>;
}

/** A plugin of the executable on the inbound side of a pair. */
async function rig(
  plugin: string,
  config: unknown,
  answer: string | RawAnswer = answerOf("ok"),
): Promise<Rig> {
  const asked: string[] = [];
  const origin = await startRawOrigin((request, socket) => {
    asked.push(request.head.split("\r\n")[0] ?? "");
    return typeof answer === "string" ? answer : answer(request, socket);
  });
  const use = { plugin, config, onFailure: "refuse", at: "inbound.plugins[0]" } as const;
  const pair = await startPathPair({
    localPort: origin.port,
    inbound: { http: httpRules("http"), plugins: [use] },
    upstream: { http: httpRules("http") },
  });
  const place = { host: "127.0.0.1", port: pair.port };
  const client = await RawClient.open(place);
  return {
    asked,
    place,
    ask(head) {
      client.send(`${head}\r\nHost: db\r\n\r\n`);
      return client.response();
    },
    async [Symbol.asyncDispose]() {
      await client[Symbol.asyncDispose]();
      await pair[Symbol.asyncDispose]();
      await origin[Symbol.asyncDispose]();
    },
  };
}

test("fault: requests with the fault header get delays and errors, others do not", async () => {
  await using it = await rig("fault", {
    when: { "x-trial": "1" },
    delay: { ms: 1 },
    abort: { status: 503 },
  });
  const broken = await it.ask("GET /a HTTP/1.1\r\nX-Trial: 1");
  assert.deepEqual([statusOf(broken), broken.body], [503, "fault filter abort"]);
  assert.equal(statusOf(await it.ask("GET /b HTTP/1.1")), 200);
  assert.deepEqual(it.asked, ["GET /b HTTP/1.1"]);
});

test("cors: a browser's preflight is answered, and then its request", async () => {
  await using it = await rig("cors", { origins: ["https://*.example"], methods: ["PUT"] });
  const origin = "Origin: https://shop.example";
  const first = await it.ask(
    `OPTIONS /a HTTP/1.1\r\n${origin}\r\nAccess-Control-Request-Method: PUT`,
  );
  assert.deepEqual([statusOf(first), first.body, it.asked.length], [200, "", 0]);
  assert.deepEqual(valuesOf(first, "access-control-allow-methods"), ["PUT"]);
  const second = await it.ask(`PUT /a HTTP/1.1\r\nContent-Length: 0\r\n${origin}`);
  assert.equal(second.body, "ok");
  assert.deepEqual(valuesOf(second, "access-control-allow-origin"), ["https://shop.example"]);
  assert.deepEqual(valuesOf(second, "vary"), ["origin"]);
});

test("basic_auth and api_key: only callers with a password or key reach the application, which learns their names", async () => {
  const named = async (plugin: string, config: object, head: string) => {
    await using it = await rig(plugin, config, ({ head }) => answerOf(head));
    const refused = await it.ask("GET /a?b HTTP/1.1");
    assert.equal(statusOf(refused), 401);
    assert.match(refused.body, /authentication failed/);
    const grpc = await it.ask(
      "POST /a.B/C HTTP/1.1\r\nContent-Length: 0\r\nContent-Type: application/grpc",
    );
    assert.deepEqual([statusOf(grpc), ...valuesOf(grpc, "grpc-status")], [200, "16"]);
    assert.equal(it.asked.length, 0);
    const admitted = await it.ask(`GET /a HTTP/1.1\r\nX-Name: root\r\nX_Name: root\r\n${head}`);
    assert.deepEqual(admitted.body.toLowerCase().match(/^x.name: .*$/gm), ["x-name: shop"]);
    return valuesOf(refused, "www-authenticate");
  };
  const sha1 = createHash("sha1").update("open sesame").digest("base64");
  const users = { users: [`shop:{SHA}${sha1}`], forwardUsernameHeader: "x-name" };
  const basic = `Authorization: Basic ${btoa("shop:open sesame")}`;
  assert.deepEqual(await named("basic_auth", users, basic), ['Basic realm="http://db/a"']);
  const keySha256 = createHash("sha256").update("open sesame").digest("hex");
  const keys = {
    credentials: [{ client: "shop", keySha256 }],
    forwarding: { header: "x-name" },
  };
  assert.deepEqual(await named("api_key", keys, "X-API-Key: open sesame"), [
    'ApiKey realm="http://db/a"',
  ]);
});

test("circuit_breaker: an application that hangs is left alone, an event says so, and it serves again after a probe", async () => {
  let hangs = true;
  await using origin = await startRawOrigin(() => hangs ? undefined : answerOf("well"));
  const config = { consecutiveFailures: 2, openMs: 100 };
  const use = { plugin: "circuit_breaker", config, onFailure: "refuse", at: "plugins[0]" } as const;
  await using pair = await startPathPair({
    localPort: origin.port,
    // The listener's own timeout, outside of all plugins.
    inbound: { http: httpRules("http", { requestTimeoutMs: 50 }), plugins: [use] },
    upstream: { http: httpRules("http") },
  });
  const place = { host: "127.0.0.1", port: pair.port };
  const ask = () => RawClient.ask(place, "GET /a HTTP/1.1\r\nHost: db\r\n\r\n");
  assert.deepEqual([statusOf(await ask()), statusOf(await ask())], [504, 504]);
  const refused = await ask();
  const [circuit, seconds] = ["x-postern-circuit", "retry-after"].map((name) =>
    valuesOf(refused, name)
  );
  assert.deepEqual([statusOf(refused), circuit, seconds], [503, ["open"], ["1"]]);
  assert.equal(origin.requests.length, 2);
  await pair.line(({ message }) =>
    message === "the circuit of the application is open: 2 failures in a row"
  );
  hangs = false;
  await eventually("it serves again", async () => statusOf(await ask()) === 200);
  await pair.line(({ message }) => message === "the circuit of the application is closed again");
});

test("cache: a page is fetched once, whole and with its length, and a truncated page is not stored", async () => {
  const page = Array.from({ length: 30_000 }, (_, i) => `line ${i}`).join("\n");
  const head = 'HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nETag: "a"\r\nLink: x\r\nLink: y';
  await using it = await rig("cache", {}, ({ head: asked }, socket) => {
    if (asked.startsWith("GET /cut")) {
      socket.end(`${head}\r\nContent-Length: 90000\r\n\r\n${page.slice(0, 1_000)}`);
      return undefined;
    }
    return answerOf(asked.startsWith("GET /small") ? "small" : page, head);
  });
  for (const path of ["/page", "/small", "/page", "/small"]) {
    const { body } = await it.ask(`GET ${path} HTTP/1.1`);
    assert.equal(body, path === "/page" ? page : "small");
  }
  const stored = await it.ask("GET /page HTTP/1.1");
  assert.deepEqual(valuesOf(stored, "content-length"), [`${page.length}`]);
  assert.deepEqual(valuesOf(stored, "link"), ["x", "y"]);
  assert.match(valuesOf(stored, "age")[0] ?? "", /^\d+$/);
  const known = await it.ask('GET /page HTTP/1.1\r\nIf-None-Match: "a"');
  assert.deepEqual([statusOf(known), known.body, valuesOf(known, "etag")], [304, "", ['"a"']]);
  assert.deepEqual(it.asked, ["GET /page HTTP/1.1", "GET /small HTTP/1.1"]);
  for (let i = 0; i < 2; i++) {
    await using client = await RawClient.open(it.place);
    client.send("GET /cut HTTP/1.1\r\nHost: db\r\n\r\n");
    await client.ended();
  }
  assert.equal(it.asked.length, 4);
});

test("redirect: an old path leads to the new one, which is served", async () => {
  const rules = [{ from: { prefix: "/old/" }, to: { prefix: "/new/" }, status: 308 }];
  await using it = await rig("redirect", { rules });
  const old = await it.ask("GET /old/a?b HTTP/1.1\r\nX-Forwarded-Proto: https");
  assert.equal(statusOf(old), 308);
  assert.deepEqual(valuesOf(old, "location"), ["https://db/new/a?b"]);
  // A caller that uses the sidecar without TLS.
  const other = await it.ask("GET /old/a?b HTTP/1.1");
  assert.deepEqual(valuesOf(other, "location"), ["http://db/new/a?b"]);
  assert.equal((await it.ask("GET /new/a?b HTTP/1.1")).body, "ok");
  assert.deepEqual(it.asked, ["GET /new/a?b HTTP/1.1"]);
});

test("compression: a long page comes in fewer bytes, and a client that leaves halfway disturbs no other", async () => {
  const page = Array.from({ length: 50_000 }, (_, i) => `line ${i * 7919 % 10_007}`).join("\n");
  const head = "HTTP/1.1 200 OK\r\nContent-Type: text/plain";
  await using it = await rig("compression", { codings: ["gzip"] }, answerOf(page, head));
  const whole = await it.ask("GET /a HTTP/1.1");
  assert.deepEqual([whole.body === page, valuesOf(whole, "vary")], [true, ["accept-encoding"]]);
  const small = await it.ask("GET /a HTTP/1.1\r\nAccept-Encoding: gzip");
  assert.deepEqual(valuesOf(small, "content-encoding"), ["gzip"]);
  assert.ok(small.body.length < page.length / 2);
  assert.equal(gunzipSync(Buffer.from(small.body, "latin1")).toString() === page, true);
  for (let i = 0; i < 5; i++) {
    await using leaving = await RawClient.open(it.place);
    leaving.send("GET /a HTTP/1.1\r\nHost: db\r\nAccept-Encoding: gzip\r\n\r\n");
    await leaving.bytes(100);
  }
  const after = await it.ask("GET /a HTTP/1.1\r\nAccept-Encoding: gzip");
  assert.equal(gunzipSync(Buffer.from(after.body, "latin1")).toString() === page, true);
});

test("compression: a truncated page stays truncated", async () => {
  await using it = await rig("compression", {}, (_, socket) => {
    socket.write("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 9000\r\n\r\nabc");
    socket.end();
    return undefined;
  });
  await using client = await RawClient.open(it.place);
  client.send("GET /a HTTP/1.1\r\nHost: db\r\nAccept-Encoding: gzip\r\n\r\n");
  const { rest } = await client.ended();
  assert.ok(!rest.endsWith("0\r\n\r\n"), rest);
});

test("compression: an event arrives when it happens", async () => {
  let happens = (_event: string) => {};
  await using it = await rig(
    "compression",
    { contentTypes: ["text/event-stream"] },
    (_, socket) => {
      const head = "Content-Type: text/event-stream\r\nTransfer-Encoding: chunked";
      socket.write(`HTTP/1.1 200 OK\r\n${head}\r\n\r\n`);
      happens = (event) => socket.write(`${event.length.toString(16)}\r\n${event}\r\n`);
      return undefined;
    },
  );
  await using client = await RawClient.open(it.place);
  let raw = "";
  client.socket.on("data", (chunk) => raw += chunk.toString("latin1"));
  client.send("GET /events HTTP/1.1\r\nHost: db\r\nAccept-Encoding: gzip\r\n\r\n");
  await eventually("its head comes first", () => raw.includes("\r\n\r\n"));
  assert.match(raw, /^content-encoding: gzip\r$/im);
  let want = "";
  for (const event of ["data: one\n\n", "data: two\n\n"]) {
    happens(event);
    want += event;
    await eventually("it is there", () => gunzippedSoFar(raw) === want);
  }
});

/** The text of a response's whole chunks, of which the end did not come. */
function gunzippedSoFar(raw: string): string {
  let at = raw.indexOf("\r\n\r\n") + 4;
  let body = "";
  for (let end = raw.indexOf("\r\n", at); end > 0; end = raw.indexOf("\r\n", at)) {
    const next = end + 2 + Number.parseInt(raw.slice(at, end), 16);
    body += raw.slice(end + 2, next);
    at = next + 2;
  }
  const options = { finishFlush: constants.Z_SYNC_FLUSH };
  return body === "" ? "" : gunzipSync(Buffer.from(body, "latin1"), options).toString();
}

test("mirror: another service gets copies, and its responses are dropped", async () => {
  await using next = await startRawOrigin((_, socket) => {
    socket.write("HTTP/1.1 500 No\r\nContent-Length: 5\r\n\r\noh");
    socket.end();
    return undefined;
  });
  await using it = await rig("mirror", { target: `127.0.0.1:${next.port}` });
  for (let i = 0; i < 3; i++) {
    assert.equal((await it.ask(`PUT /${i} HTTP/1.1\r\nX-One: 1`)).body, "ok");
  }
  while (next.requests.length < 3) await pause(1);
  for (const { head } of next.requests) {
    assert.match(head, /^PUT \/\d HTTP\/1\.1\r\n/);
    assert.match(head, /\r\nhost: db-shadow(\r|$)/i);
    assert.match(head, /\r\nx-one: 1(\r|$)/i);
  }
  assert.deepEqual(it.asked, ["PUT /0 HTTP/1.1", "PUT /1 HTTP/1.1", "PUT /2 HTTP/1.1"]);
});
