import assert from "node:assert/strict";
import { test } from "node:test";
import { createAuthority } from "../../../test/kit/certs/certificates.ts";
import { settle } from "../../../test/kit/clock/clock.ts";
import { presented } from "../../../test/kit/engine/fake_tls_engine.ts";
import { callAs, sendThrough } from "../../../test/kit/engine/memory_caller.ts";
import { type MemoryPath, startMemoryPath } from "../../../test/kit/engine/memory_path.ts";
import {
  declared,
  httpRules,
  intention,
  snapshotOf,
  targetOf,
  type UpstreamOptions,
  withInbound,
} from "../../../test/kit/engine/snapshots.ts";
import type { Call, Host } from "../../plugin/api.ts";
import type { AnyPlugin } from "../../plugin/mod.ts";
import { SharedCounts } from "../core/admission.ts";
import { diffSnapshots, type Snapshot } from "../../snapshot/mod.ts";

const CA = createAuthority();
const ANYTHING = {
  "~standard": { version: 1, validate: (value: unknown) => ({ value }) },
} as const;
const AUTHZ: UpstreamOptions = { name: "authz", http: httpRules("http") };
const GET = "GET / HTTP/1.1\r\nHost: db\r\n\r\n";
const OK = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

interface Asking {
  readonly target: string;
  readonly http2?: boolean;
}

/** The sidecar of db, with a plugin that calls `target` for each request. */
function snapshotWith(
  asking: Asking,
  upstreams: readonly UpstreamOptions[] = [AUTHZ],
  sources: readonly string[] = ["web"],
): Snapshot {
  const { uri } = CA.issueLeaf({ service: "authz" });
  const base = snapshotOf({
    ca: CA,
    service: "db",
    inboundPort: 20_000,
    upstreams,
    local: { kind: "tcp", host: "127.0.0.1", port: 8080 },
    intentions: sources.map((source) => intention(source, "allow")),
    targets: [targetOf({ name: "authz", uris: [uri], ports: [7_000] })],
  });
  const use = { plugin: "own", config: asking, onFailure: "refuse", at: "inbound.plugins[0]" };
  const plugins = [use as typeof use & { onFailure: "refuse" }];
  const http = httpRules("http", { streamIdleTimeoutMs: 0 });
  return withInbound(base, { http, plugins });
}

const CALLING_PLUGIN: AnyPlugin = {
  name: "own",
  api: 1,
  phase: "guard",
  config: ANYTHING,
  create(host: Host, { target, http2 = false }: Asking) {
    const call: Call = host.callee(target, { http2 });
    return {
      async onRequest({ exchange: { signal } }, next) {
        const { failure, status } = await call({ path: "/check" }, { timeoutMs: 200, signal });
        return status === 200 ? next() : host.reply(403, {}, failure?.code ?? `said ${status}`);
      },
    };
  },
};

const OPTIONS = {
  loadPlugin: (name: string) => Promise.resolve(name === "own" ? CALLING_PLUGIN : undefined),
};

function start(snapshot: Snapshot): Promise<MemoryPath> {
  return startMemoryPath(snapshot, OPTIONS);
}

const PROVEN = presented(CA.issueLeaf({ service: "authz" }));

test("a plugin calls an upstream over mutual TLS and gets its response", async () => {
  await using path = await start(snapshotWith({ target: "authz" }));
  const caller = callAs("web", path, CA);
  caller.send(GET);
  await settle();
  const authz = path.engine.lastDial.connect(PROVEN);
  await settle();
  assert.match(authz.received, /^GET \/check HTTP\/1\.1\r\nhost: authz\r\n/i);
  authz.send(OK);
  await settle();
  const app = path.engine.lastDial.connect();
  await settle();
  assert.match(app.received, /^GET \/ HTTP\/1\.1\r\n/);
  app.send(OK);
  await settle();
  assert.match(caller.received, /^HTTP\/1\.1 200 OK/);
  // The connection is reused.
  authz.received = "";
  caller.received = "";
  caller.send(GET);
  await settle();
  authz.send("HTTP/1.1 401 No\r\nContent-Length: 0\r\n\r\n");
  await settle();
  assert.match(caller.received, /^HTTP\/1\.1 403 [^]*said 401$/);
  caller.connection.close();
  await settle();
});

test("a streamed call carries both bodies as they come, and is reset when the caller leaves", async () => {
  const streaming: AnyPlugin = {
    ...CALLING_PLUGIN,
    create(host: Host, { target }: Asking) {
      const call = host.callee(target);
      return {
        onRequest: ({ request, exchange: { signal } }) => {
          const body = request.body?.stream() ?? null;
          return call.stream({ method: "POST", body }, { timeoutMs: 200, signal });
        },
      };
    },
  };
  await using path = await startMemoryPath(snapshotWith({ target: "authz" }), {
    loadPlugin: () => Promise.resolve(streaming),
  });
  const caller = callAs("web", path, CA);
  caller.send("POST / HTTP/1.1\r\nHost: db\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n");
  await settle();
  const authz = path.engine.lastDial.connect(PROVEN);
  await settle();
  await settle();
  assert.match(authz.received, /^POST \/ HTTP\/1\.1\r\n[^]*\r\n3\r\none\r\n$/);
  authz.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n");
  await settle();
  await settle();
  assert.match(caller.received, /^HTTP\/1\.1 200 OK[^]*5\r\nfirst\r\n$/);
  caller.send("3\r\ntwo\r\n");
  await settle();
  await settle();
  assert.match(authz.received, /3\r\ntwo\r\n$/);
  // As long as bytes move, it has no end.
  for (let i = 0; i < 5; i++) {
    await path.clock.advance(150);
    authz.send("4\r\nmore\r\n");
    await settle();
  }
  assert.match(caller.received, /(?:4\r\nmore\r\n){5}$/);
  caller.connection.reset();
  await settle();
  assert.equal(authz.over, "reset");
});

test("a callee given by the id of an upstream has the upstream's name as authority", async () => {
  await using path = await start(snapshotWith({ target: "service:default/default/authz" }));
  const caller = callAs("web", path, CA);
  caller.send(GET);
  await settle();
  const authz = path.engine.lastDial.connect(PROVEN);
  await settle();
  assert.match(authz.received, /\r\nhost: authz\r\n/i);
  caller.connection.reset();
  await settle();
});

test("a call is not sent to an endpoint with another identity", async () => {
  await using path = await start(snapshotWith({ target: "authz" }));
  const caller = callAs("web", path, CA);
  caller.send(GET);
  await settle();
  const other = path.engine.lastDial.connect(presented(CA.issueLeaf({ service: "web" })));
  await settle();
  assert.equal(other.received, "");
  await path.clock.advance(200);
  assert.match(caller.received, /^HTTP\/1\.1 403 [^]*endpoint_untrusted$/);
  caller.connection.close();
  await settle();
});

test("a call to a local port or socket is plaintext", async () => {
  for (
    const [target, host] of [
      ["127.0.0.1:9191", "127.0.0.1:9191"],
      ["localhost:9191", "127.0.0.1:9191"],
      ["unix:///run/authz.sock", "localhost"],
    ] as const
  ) {
    await using path = await start(snapshotWith({ target }));
    const caller = callAs("web", path, CA);
    const authz = await sendThrough(caller, GET, path);
    assert.equal(path.engine.lastDial.options.tls, undefined);
    assert.ok(authz.received.toLowerCase().includes(`host: ${host}\r\n`), authz.received);
    caller.connection.reset();
    await settle();
    // The call ended with its exchange.
    assert.notEqual(authz.over, "no");
  }
});

test("a call without a response ends at its timeout, with its connection", async () => {
  await using path = await start(snapshotWith({ target: "127.0.0.1:9191" }));
  const caller = callAs("web", path, CA);
  const authz = await sendThrough(caller, GET, path);
  await path.clock.advance(200);
  assert.match(caller.received, /^HTTP\/1\.1 403 [^]*response_timed_out$/);
  assert.notEqual(authz.over, "no");
  caller.connection.close();
  await settle();
});

for (
  const [what, asking, upstreams, wanted] of [
    ["an unknown name", { target: "unknown" }, [AUTHZ], /no upstream of that name/],
    ["a remote address", { target: "10.0.0.1:80" }, [AUTHZ], /no upstream of that name/],
    ["an invalid port", { target: "127.0.0.1:65536" }, [AUTHZ], /no upstream of that name/],
    ["our own listener", { target: "127.0.0.1:20000" }, [AUTHZ], /a listener of this proxy/],
    [
      "our own listener on all addresses",
      { target: "[::1]:5000" },
      [{ ...AUTHZ, bind: { kind: "tcp", host: "::", port: 5_000 } }],
      /a listener of this proxy/,
    ],
    [
      "our own socket",
      { target: "unix:///run/x.sock" },
      [{ ...AUTHZ, bind: { kind: "unix", path: "/run/x.sock" } }],
      /a listener of this proxy/,
    ],
    ["a TCP upstream", { target: "authz" }, [{ name: "authz" }], /carries bytes/],
    [
      "HTTP/2 on an HTTP/1.1 upstream",
      { target: "authz", http2: true },
      [AUTHZ],
      /speaks HTTP\/1.1/,
    ],
    [
      "an ambiguous name",
      { target: "authz" },
      [AUTHZ, { ...AUTHZ, id: "prepared_query:authz" }],
      /several upstreams .*prepared_query:authz/,
    ],
  ] as const
) {
  test(`a plugin that names ${what} is refused`, async () => {
    await assert.rejects(start(snapshotWith(asking, upstreams)), (error: Error) => {
      assert.match(error.message, /inbound\.plugins\[0\]: create\(\): Cannot ask "/);
      assert.match(error.message, wanted);
      return true;
    });
  });
}

test("an upstream on a unix socket can be called with one worker only", async () => {
  const upstream = { ...AUTHZ, bind: { kind: "unix", path: "/run/authz.sock" } } as const;
  const snapshot = snapshotWith({ target: "authz" }, [upstream]);
  await using _one = await start(snapshot);
  const two = startMemoryPath(snapshot, {
    ...OPTIONS,
    workers: 2,
    counts: SharedCounts.create(2),
  });
  await assert.rejects(two, /which one worker alone can serve/);
});

test("a snapshot without an upstream that a plugin calls is refused, and the one in force stays", async () => {
  const before = snapshotWith({ target: "authz" });
  await using path = await start(before);
  const without = { ...before, ...declared(), version: before.version + 1 };
  await assert.rejects(path.path.prepare(diffSnapshots(before, without)), /no upstream/);
  const caller = callAs("web", path, CA);
  caller.send(GET);
  await settle();
  assert.equal(path.engine.lastDial.options.address.kind, "tcp");
  caller.connection.close();
  await settle();
});

test("one caller cannot use all concurrent calls of a plugin to a local service", async () => {
  await using path = await start(snapshotWith({ target: "127.0.0.1:9191" }, [], ["web", "pay"]));
  const greedy = Array.from({ length: 1_000 }, () => callAs("web", path, CA));
  for (const caller of greedy) caller.send(GET);
  await settle();
  const refused = greedy.filter(({ received }) => received.endsWith("limit_reached"));
  assert.equal(refused.length, 1_000 - 896);
  const modest = callAs("pay", path, CA);
  modest.send(GET);
  await settle();
  assert.equal(modest.received, "");
  for (const caller of [modest, ...greedy]) caller.connection.reset();
  await settle();
  // All places were freed.
  const later = callAs("web", path, CA);
  later.send(GET);
  await settle();
  assert.equal(later.received, "");
  later.connection.reset();
  await settle();
});
