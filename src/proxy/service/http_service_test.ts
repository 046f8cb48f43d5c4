import assert from "node:assert/strict";
import { test } from "node:test";
import { createAuthority } from "../../../test/kit/certs/certificates.ts";
import { settle } from "../../../test/kit/clock/clock.ts";
import { presented } from "../../../test/kit/engine/fake_tls_engine.ts";
import { type MemoryPath, startMemoryPath } from "../../../test/kit/engine/memory_path.ts";
import {
  httpRules,
  intention,
  policyOf,
  snapshotOf,
  targetOf,
  withInbound,
} from "../../../test/kit/engine/snapshots.ts";

const CA = createAuthority();
const SNAPSHOT = withInbound(
  snapshotOf({
    ca: CA,
    service: "db",
    local: { kind: "tcp", host: "127.0.0.1", port: 8080 },
    intentions: [intention("web", "allow")],
  }),
  { http: httpRules("http") },
);

async function call(path: MemoryPath) {
  const port = Number(path.path.listeners()[0]?.address.split(":").at(-1));
  const leaf = CA.issueLeaf({ service: "web" });
  const caller = path.engine.callSecurely(port).prove(presented(leaf));
  await settle();
  return caller;
}

function sumsOf({ path }: MemoryPath): Readonly<Record<string, number>> {
  const http = path.stats.samples().filter(({ name }) => name.startsWith("http_requests_"));
  return Object.fromEntries(http.map(({ name, labels: { outcome = "", ended_by = "" }, value }) => [
    [name, outcome, ended_by].filter((word) => word !== "").join(" "),
    Number(value),
  ]));
}

test("a first request while the sidecar drains is answered with connection: close", async () => {
  await using path = await startMemoryPath(SNAPSHOT);
  const caller = await call(path);
  // It may still become HTTP/2.
  caller.send("P");
  await settle();
  const drained = path.path.drain(60_000);
  caller.send("UT / HTTP/1.1\r\nHost: db\r\nContent-Length: 0\r\n\r\n");
  await settle();
  path.engine.lastDial.connect().send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
  await settle();
  assert.match(caller.received, /^HTTP\/1\.1 200 OK\r\n(?:.*\r\n)*connection: close\r\n\r\nok$/);
  caller.connection.close();
  await settle();
  await drained;
});

test("a connection without a request does not last for the whole drain", async () => {
  await using path = await startMemoryPath(SNAPSHOT);
  const [unused, late] = [await call(path), await call(path)];
  const drained = path.path.drain(60_000);
  await path.clock.advance(999);
  late.send("P");
  await settle();
  await path.clock.advance(2_000);
  assert.deepEqual([unused.over, late.over, path.endings], ["end", "no", ["drained"]]);
  unused.connection.close();
  late.connection.close();
  await settle();
  await drained;
});

test("draining asks callers of the local service to leave and serves them; its own calls go on", async () => {
  const PAY = CA.issueLeaf({ service: "pay" });
  const http = httpRules("http");
  await using path = await startMemoryPath(withInbound(
    snapshotOf({
      ca: CA,
      service: "db",
      local: { kind: "tcp", host: "127.0.0.1", port: 8080 },
      intentions: [intention("web", "allow")],
      upstreams: [{ name: "pay", http }],
      targets: [targetOf({ name: "pay", uris: [PAY.uri], ports: [1] })],
    }),
    { http },
  ));
  const isAskedToLeave = async (caller: Awaited<ReturnType<typeof call>>, proof?: typeof PAY) => {
    caller.received = "";
    caller.send("PUT / HTTP/1.1\r\nHost: db\r\nContent-Length: 0\r\n\r\n");
    await settle();
    const reply = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    path.engine.lastDial.connect(proof && presented(proof)).send(reply);
    await settle();
    assert.match(caller.received, /^HTTP\/1\.1 200 /);
    return /connection: close/.test(caller.received);
  };
  const [early, application] = [await call(path), path.engine.call(path.port("pay"))];
  assert.deepEqual([await isAskedToLeave(early), await isAskedToLeave(application, PAY)], [
    false,
    false,
  ]);
  path.path.drainInbound();
  await settle();
  assert.deepEqual([await isAskedToLeave(early), await isAskedToLeave(application, PAY)], [
    true,
    false,
  ]);
  const late = await call(path);
  assert.deepEqual([await isAskedToLeave(late), await isAskedToLeave(application, PAY)], [
    true,
    false,
  ]);
  for (const caller of [early, late, application]) caller.connection.close();
  await settle();
});

test("an invalid request is logged, counted and in the access log, as the caller's fault", async () => {
  const lines: string[] = [];
  await using path = await startMemoryPath({
    ...SNAPSHOT,
    accessLog: {
      version: 1,
      to: { kind: "stdout" },
      format: { kind: "default" },
      listeners: true,
    },
  }, { takeLine: (line) => void lines.push(line) });
  const caller = await call(path);
  caller.send("GET / HTTP/1.1\r\nHost: db\r\nHost: web\r\n\r\n");
  await settle();
  assert.match(caller.received, /^HTTP\/1\.1 400 /);
  assert.deepEqual(sumsOf(path), {
    "http_requests_total": 1,
    "http_requests_active": 0,
    "http_requests_failed_total request_invalid downstream": 1,
  });
  const [line = "{}"] = lines;
  const { response_code, response_flags, response_code_details, duration } = JSON.parse(line);
  assert.deepEqual([response_code, response_flags, response_code_details, duration], [
    400,
    "DPE",
    "http1.codec_error",
    0,
  ]);
  const failed = path.lines.find(({ message }) => message === "request failed")?.fields;
  assert.deepEqual([failed?.status, failed?.reason], [400, "more than one host"]);
  assert.match(String(failed?.source), /svc\/web$/);
  caller.connection.close();
});

test("CONNECT is judged and refused, since rules about paths cannot match it", async () => {
  const permissions = [
    { action: "deny", path: { kind: "prefix", value: "/" }, methods: [], headers: [] },
  ] as const;
  const intentions = [{ ...intention("web", "permissions"), permissions }];
  for (const [defaultAction, status] of [["allow", 404], ["deny", 403]] as const) {
    const policy = policyOf(intentions, defaultAction);
    await using path = await startMemoryPath({ ...SNAPSHOT, policy });
    const caller = await call(path);
    caller.send("CONNECT db:80 HTTP/1.1\r\nHost: db:80\r\n\r\n");
    await settle();
    assert.equal(caller.received.slice(0, 12), `HTTP/1.1 ${status}`);
    assert.deepEqual(path.engine.dials, []);
  }
});

test("a rule about content-length matches an announced length", async () => {
  const says = { name: "content-length", kind: "present", value: "", ignoreCase: false } as const;
  const permissions = [
    { action: "deny", methods: [], headers: [{ ...says, invert: false }] },
  ] as const;
  const intentions = [{ ...intention("web", "permissions"), permissions }];
  await using path = await startMemoryPath({ ...SNAPSHOT, policy: policyOf(intentions, "allow") });
  const caller = await call(path);
  caller.send("POST / HTTP/1.1\r\nHost: db\r\nContent-Length: 0\r\n\r\n");
  await settle();
  assert.match(caller.received, /^HTTP\/1\.1 403 /);
  caller.send("GET / HTTP/1.1\r\nHost: db\r\n\r\n");
  await settle();
  path.engine.lastDial.connect().send("HTTP/1.1 204 No Content\r\n\r\n");
  await settle();
  assert.match(caller.received, /HTTP\/1\.1 204 /);
  caller.connection.close();
  await settle();
});

test("the head of a request has the idle timeout of requests, not that of connections", async () => {
  const http = httpRules("http", { streamIdleTimeoutMs: 60_000 });
  await using path = await startMemoryPath(withInbound(SNAPSHOT, { http }), {
    idleTimeoutMs: 3_600_000,
  });
  const [half, dripping, idle] = [await call(path), await call(path), await call(path)];
  for (const caller of [half, dripping]) caller.send("GET / HTTP/1.1\r\nHost: db\r\nX: ");
  for (let second = 0; second < 58; second++) {
    dripping.send("x");
    await path.clock.advance(1_000);
  }
  assert.deepEqual([half.over, dripping.over, idle.over], ["no", "no", "no"]);
  await path.clock.advance(5_000);
  assert.notEqual(half.over, "no");
  assert.notEqual(dripping.over, "no");
  assert.equal(idle.over, "no");
  assert.match(String(path.lastEnd.reason), /no whole head within 60000 ms/);
  idle.connection.close();
  await settle();
});

const PREFACE = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const SETTINGS = "\0\0\0\x04\0\0\0\0\0";
const SETTINGS_ACK = "\0\0\0\x04\x01\0\0\0\0";

for (
  const [name, protocol, said, afterMs, reason] of [
    ["one octet that may become HTTP/2", "", "P", 60_000, /no whole head within 60000 ms/],
    ["half of HTTP/2's name", "", "PRI", 60_000, /no whole head within 60000 ms/],
    ["half a preface", "", PREFACE.slice(0, 20), 10_000, /settings were not acknowledged/],
    ["half a preface after ALPN", "h2", PREFACE.slice(0, 20), 10_000, /settings were not ackn/],
    ["nothing after ALPN", "h2", "", 10_000, /settings were not acknowledged/],
    ["a preface alone", "", PREFACE, 10_000, /settings were not acknowledged/],
    [
      "half a frame's header",
      "h2",
      `${PREFACE}${SETTINGS}${SETTINGS_ACK}\0\0\x10\x01`,
      60_000,
      /no whole head within 60000 ms/,
    ],
    [
      "half a HEADERS frame",
      "h2",
      `${PREFACE}${SETTINGS}${SETTINGS_ACK}\0\0\x10\x01\x04\0\0\0\x01ab`,
      60_000,
      /no whole head within 60000 ms/,
    ],
    [
      "a head without its CONTINUATION",
      "h2",
      `${PREFACE}${SETTINGS}${SETTINGS_ACK}\0\0\x01\x01\0\0\0\0\x01\x02`,
      60_000,
      /no whole head within 60000 ms/,
    ],
  ] as const
) {
  test(`a caller that sends ${name} and nothing more is closed after ${afterMs / 1_000} s`, async () => {
    const http = httpRules("http", { streamIdleTimeoutMs: 60_000 });
    await using path = await startMemoryPath(withInbound(SNAPSHOT, { http }), {
      idleTimeoutMs: 3_600_000,
    });
    const port = Number(path.path.listeners()[0]?.address.split(":").at(-1));
    const caller = path.engine.callSecurely(port)
      .prove({ ...presented(CA.issueLeaf({ service: "web" })), protocol });
    await settle();
    caller.send(said);
    for (let second = 0; second < afterMs / 1_000 - 1; second++) await path.clock.advance(1_000);
    assert.equal(caller.over, "no");
    for (let second = 0; second < 4; second++) await path.clock.advance(1_000);
    assert.notEqual(caller.over, "no");
    caller.connection.close();
    await settle();
    assert.match(String(path.lastEnd.reason), reason);
    assert.equal(path.lastEnd.code, "idle_timed_out");
  });
}

test("frames in pieces do not count as an incomplete head", async () => {
  const http = httpRules("http", { streamIdleTimeoutMs: 10_000 });
  await using path = await startMemoryPath(withInbound(SNAPSHOT, { http }));
  const port = Number(path.path.listeners()[0]?.address.split(":").at(-1));
  const caller = path.engine.callSecurely(port)
    .prove({ ...presented(CA.issueLeaf({ service: "web" })), protocol: "h2" });
  await settle();
  caller.send(`${PREFACE}${SETTINGS}${SETTINGS_ACK}`);
  const ping = "\0\0\x08\x06\0\0\0\0\x0012345678";
  for (let second = 0; second < 30; second++) {
    caller.send(ping.slice(0, 12));
    await path.clock.advance(1_000);
    caller.send(ping.slice(12));
  }
  assert.equal(caller.over, "no");
  caller.connection.close();
  await settle();
});

const KEPT = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";

test("idle HTTP clients do not count as connections to the upstream; reaching their limit is logged", async () => {
  const PAY = CA.issueLeaf({ service: "pay" });
  const withLimits = (limits: { maxClientConnections?: number }, version = 1) => {
    const snapshot = snapshotOf({
      ca: CA,
      service: "db",
      local: { kind: "tcp", host: "127.0.0.1", port: 8080 },
      upstreams: [{ name: "pay", http: httpRules("http"), maxConnections: 2 }],
      targets: [targetOf({ name: "pay", uris: [PAY.uri], ports: [1] })],
    });
    const upstreams = Object.entries(snapshot.upstreams)
      .map(([id, part]) => [id, { ...part, ...limits, version }] as const);
    return { ...snapshot, upstreams: Object.fromEntries(upstreams), version };
  };
  await using path = await startMemoryPath(withLimits({}));
  const clients = Array.from({ length: 8 }, () => path.engine.call(path.port("pay")));
  const ask = async (client: typeof clients[number]) => {
    client.send("GET / HTTP/1.1\r\nHost: pay\r\n\r\n");
    await settle();
  };
  const [first = assert.fail("no client"), ...others] = clients;
  await ask(first);
  const pay = path.engine.lastDial.connect(presented(PAY));
  await settle();
  pay.send(KEPT);
  await settle();
  for (const client of others) {
    await ask(client);
    pay.send(KEPT);
    await settle();
  }
  assert.deepEqual(clients.map(({ received }) => /^HTTP\/1.1 200 /.test(received)), [
    ...clients.map(() => true),
  ]);
  await path.set(withLimits({ maxClientConnections: 8 }, 2));
  const late = path.engine.call(path.port("pay"));
  await settle();
  assert.notEqual(late.over, "no");
  assert.deepEqual([path.lastEnd.code, path.lastEnd.reason], [
    "limit_reached",
    "limits.max_client_connections is 8",
  ]);
  const listener = path.path.listeners().find(({ name }) => name.endsWith("/pay"));
  assert.match(listener?.warnings.join() ?? "", /limits.max_client_connections is 8/);
  const refused = path.path.stats.samples().filter(({ name, labels }) =>
    name === "connections_refused_total" && labels.listener?.endsWith("/pay")
  );
  assert.deepEqual(refused.map(({ value, labels }) => [labels.limit, value]), [
    ["listener", 1],
    ["process", 0],
  ]);
  await path.set(withLimits({}, 3));
  const next = path.engine.call(path.port("pay"));
  await settle();
  assert.equal(next.over, "no");
  for (const client of [...clients, next]) client.connection.close();
  await settle();
});

test("an idle caller that reads nothing is closed at the idle timeout", async () => {
  await using path = await startMemoryPath(SNAPSHOT, { idleTimeoutMs: 60_000 });
  const caller = await call(path);
  caller.connection.pause();
  for (let second = 0; second < 75; second++) await path.clock.advance(1_000);
  assert.equal(caller.over, "reset");
  assert.deepEqual(path.endings, ["idle_timed_out"]);
});

test("a refused caller that reads nothing is reset after half a second", async () => {
  const denied = policyOf([intention("web", "deny")], "deny");
  await using path = await startMemoryPath({ ...SNAPSHOT, policy: denied });
  const caller = await call(path);
  caller.connection.pause();
  for (let second = 0; second < 30; second++) await path.clock.advance(1_000);
  assert.equal(caller.over, "reset");
});

test("an upstream that is removed and declared again keeps its limit on clients right", async () => {
  const PAY = CA.issueLeaf({ service: "pay" });
  const withUpstream = (version: number, maxClientConnections?: number) => {
    const isDeclared = maxClientConnections !== undefined;
    const upstreams = isDeclared ? [{ name: "pay", http: httpRules("http") }] : [];
    const snapshot = snapshotOf({
      ca: CA,
      service: "db",
      upstreams,
      local: { kind: "tcp", host: "127.0.0.1", port: 8080 },
      targets: isDeclared ? [targetOf({ name: "pay", uris: [PAY.uri], ports: [1] })] : [],
    });
    const limited = Object.entries(snapshot.upstreams)
      .map(([id, part]) => [id, { ...part, maxClientConnections, version }] as const);
    return { ...snapshot, upstreams: Object.fromEntries(limited), version } as typeof snapshot;
  };
  await using path = await startMemoryPath(withUpstream(1, 2));
  const client = async () => {
    const end = path.engine.call(path.port("pay"));
    await settle();
    return end;
  };
  const old = [await client(), await client()];
  assert.notEqual((await client()).over, "no");
  await path.set(withUpstream(2));
  await path.set(withUpstream(3, 2));
  // Earlier clients count once, until they have left.
  assert.deepEqual(old.map(({ over }) => over), ["no", "no"]);
  assert.notEqual((await client()).over, "no");
  for (const end of old) end.connection.close();
  await settle();
  const [first, second] = [await client(), await client()];
  assert.deepEqual([first.over, second.over], ["no", "no"]);
  assert.notEqual((await client()).over, "no");
  first.connection.close();
  await settle();
  const third = await client();
  assert.equal(third.over, "no");
  assert.notEqual((await client()).over, "no");
  for (const end of [second, third]) end.connection.close();
  await settle();
});
