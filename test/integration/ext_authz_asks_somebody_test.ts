import assert from "node:assert/strict";
import { test } from "node:test";
import { createAuthority } from "../kit/certs/certificates.ts";
import { startDataPath } from "../kit/engine/data_path.ts";
import { httpOf, startAuthz } from "../kit/peers/ext_authz.ts";
import {
  answerOf,
  type RawAnswer,
  RawClient,
  type RawOrigin,
  startRawOrigin,
  statusOf,
} from "../kit/wire/http_raw.ts";
import { type PathPair, startPathPair } from "../kit/engine/path_pair.ts";
import {
  httpRules,
  intention,
  snapshotOf,
  targetOf,
  withInbound,
} from "../kit/engine/snapshots.ts";

interface Rig extends AsyncDisposable {
  readonly app: RawOrigin;
  readonly pair: PathPair;
  ask(head: string, body?: string): Promise<readonly [status: number, body: string]>;
}

/**
 * The sidecar of db calls the authorization service before it lets requests go on to its application.
 */
async function rig(config: unknown): Promise<Rig> {
  const app = await startRawOrigin(({ body }) => answerOf(`got ${body}`));
  const use = { plugin: "ext_authz", config, onFailure: "refuse", at: "inbound.plugins[0]" };
  const pair = await startPathPair({
    localPort: app.port,
    inbound: {
      http: httpRules("http"),
      plugins: [use as typeof use & { readonly onFailure: "refuse" }],
    },
    upstream: { http: httpRules("http") },
  });
  const client = await RawClient.open({ host: "127.0.0.1", port: pair.port });
  return {
    app,
    pair,
    async ask(head, body = "") {
      client.send(`${head}\r\nHost: db\r\nContent-Length: ${body.length}\r\n\r\n${body}`);
      const answer = await client.response();
      return [statusOf(answer), answer.body];
    },
    async [Symbol.asyncDispose]() {
      await client[Symbol.asyncDispose]();
      await pair[Symbol.asyncDispose]();
      await app[Symbol.asyncDispose]();
    },
  };
}

/** Asked by HTTP. */
async function httpRig(answer: RawAnswer, more: unknown = {}) {
  const authz = await startRawOrigin(answer);
  const httpService = { target: `127.0.0.1:${authz.port}`, timeoutMs: 1_000, ...more as object };
  const it = await rig({ httpService });
  return {
    ...it,
    authz,
    async [Symbol.asyncDispose]() {
      await it[Symbol.asyncDispose]();
      await authz[Symbol.asyncDispose]();
    },
  };
}

test("an HTTP authorization service gets each request in its forwarded form", async () => {
  await using it = await httpRig(({ head }) => {
    const isPublic = /^\w+ \/check\/public\//.test(head);
    if (isPublic) return answerOf("", "HTTP/1.1 200 OK\r\nX-User: ada");
    return answerOf("sign in", "HTTP/1.1 401 No\r\nWWW-Authenticate: Basic");
  }, {
    pathPrefix: "/check",
    authorizationResponse: { allowedUpstreamHeaders: [{ exact: "x-user" }] },
  });
  assert.deepEqual(await it.ask("PUT /public/a HTTP/1.1\r\nX-User: root", "hi"), [200, "got hi"]);
  assert.deepEqual(await it.ask("GET /admin HTTP/1.1"), [401, "sign in"]);
  for (const path of ["/public/../admin", "/public/%2e%2e/admin", "/./admin", "/a/..//admin"]) {
    const [status] = await it.ask(`GET ${path} HTTP/1.1`);
    assert.notEqual(status, 200, path);
  }
  assert.equal(it.app.requests.length, 1);
  const [seen] = it.app.requests;
  assert.match(seen?.head ?? "", /\r\nx-user: ada/i);
  assert.doesNotMatch(seen?.head ?? "", /root/);
});

test("a gRPC authorization service gets the caller's verified identity", async () => {
  await using authz = await startAuthz(({ path }) => {
    if (path === "/a") {
      return { status: {}, ok: { headers: [{ header: { key: "x-user", value: "ada" } }] } };
    }
    return { status: { code: 7 }, denied: { status: { code: 429 }, body: "slower" } };
  });
  const grpcService = { target: `127.0.0.1:${authz.port}`, timeoutMs: 1_000 };
  await using it = await rig({ grpcService, withRequestBody: { maxRequestBytes: 100 } });
  assert.deepEqual(await it.ask("POST /a HTTP/1.1\r\nX-One: 1", "hello"), [200, "got hello"]);
  assert.deepEqual(await it.ask("GET /b HTTP/1.1"), [429, "slower"]);
  assert.match(it.app.requests[0]?.head ?? "", /\r\nx-user: ada/i);
  assert.equal(it.app.requests.length, 1);
  const [first] = authz.asked;
  assert.ok(first);
  const { body, headers, size } = httpOf(first.message);
  assert.deepEqual([body, headers["x-one"], size], ["hello", "1", 5]);
  const { attributes: { source, destination } } = first.message as {
    attributes: Record<"source" | "destination", { principal: string }>;
  };
  const { webSnapshot, dbSnapshot } = it.pair;
  assert.equal(source.principal, webSnapshot.credentials.uri);
  assert.equal(destination.principal, dbSnapshot.credentials.uri);
});

const FAULTS: Readonly<Record<string, RawAnswer>> = {
  "is silent": () => undefined,
  "resets": (_, socket) => {
    socket.resetAndDestroy();
    return undefined;
  },
  "answers garbage": () => "SSH-2.0-OpenSSH_9.6\r\n\r\n",
  "answers with a megabyte of headers": () =>
    `HTTP/1.1 200 OK\r\n${`X-A: ${"a".repeat(1_000)}\r\n`.repeat(1_000)}Content-Length: 0\r\n\r\n`,
  "ends halfway": (_, socket) => {
    socket.end("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc");
    return undefined;
  },
  "answers 200 and a body without end": (_, socket) => {
    socket.write("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
    const more = () =>
      void (socket.destroyed || socket.write(`fff\r\n${"x".repeat(4_095)}\r\n`, more));
    more();
    return undefined;
  },
};

for (const [what, answer] of Object.entries(FAULTS)) {
  test(`no request passes while the authorization service ${what}, and requests pass when it has recovered`, async () => {
    const state = { isWell: false };
    await using it = await httpRig(
      (request, socket) => state.isWell ? answerOf("") : answer(request, socket),
      { timeoutMs: 300 },
    );
    for (let i = 0; i < 2; i++) {
      assert.deepEqual(await it.ask("GET /a HTTP/1.1"), [403, ""]);
    }
    assert.equal(it.app.requests.length, 0);
    state.isWell = true;
    assert.deepEqual(await it.ask("GET /a HTTP/1.1"), [200, "got "]);
  });
}

test("no request passes while the authorization service is gone", async () => {
  const gone = await startRawOrigin();
  await gone[Symbol.asyncDispose]();
  await using it = await rig({ httpService: { target: `127.0.0.1:${gone.port}` } });
  assert.deepEqual(await it.ask("GET /a HTTP/1.1"), [403, ""]);
  assert.equal(it.app.requests.length, 0);
});

test("an authorization service of the mesh is called over mutual TLS, and its sidecar applies its intentions", async () => {
  const ca = createAuthority();
  await using app = await startRawOrigin();
  await using authz = await startAuthz(({ path }) => ({ status: { code: path === "/a" ? 0 : 7 } }));
  const authzPath = (allowed: string) => {
    const local = { kind: "tcp", host: "127.0.0.1", port: authz.port } as const;
    const intentions = [intention(allowed, "allow")];
    const snapshot = snapshotOf({ ca, service: "authz", local, intentions });
    return withInbound(snapshot, { http: httpRules("grpc") });
  };
  await using asked = await startDataPath(authzPath("db"));
  const config = { grpcService: { target: "authz", timeoutMs: 1_000 } };
  const use = { plugin: "ext_authz", config, onFailure: "refuse", at: "upstreams.db" } as const;
  const db = snapshotOf({
    ca,
    service: "db",
    intentions: [intention("web", "allow")],
    local: { kind: "tcp", host: "127.0.0.1", port: app.port },
    upstreams: [{ name: "authz", http: httpRules("grpc") }],
    targets: [targetOf({
      name: "authz",
      uris: [ca.issueLeaf({ service: "authz" }).uri],
      ports: [asked.port()],
    })],
  });
  await using answering = await startDataPath(
    withInbound(db, { http: httpRules("http"), plugins: [use] }),
  );
  await using web = await startDataPath(snapshotOf({
    ca,
    service: "web",
    upstreams: [{ name: "db", http: httpRules("http") }],
    targets: [targetOf({ name: "db", uris: [db.credentials.uri], ports: [answering.port()] })],
  }));
  const place = { host: "127.0.0.1", port: web.port("db") };
  const ask = async (path: string) =>
    statusOf(await RawClient.ask(place, `GET ${path} HTTP/1.1\r\nHost: db\r\n\r\n`));
  assert.deepEqual([await ask("/a"), await ask("/b")], [200, 403]);
  assert.equal(authz.asked.length, 2);
  // The authorization service does not let us in any more.
  await asked.set(authzPath("nobody"));
  assert.equal(await ask("/a"), 403);
  assert.equal(authz.asked.length, 2);
});
