/** Requests to a server over TLS, with real handshakes: an untrusted server gets no token. */
import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import http from "node:http";
import http2 from "node:http2";
import https from "node:https";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { messageOf, silentLog, Stats, systemClock } from "../../base/mod.ts";
import { type CertificateOverrides, createAuthority } from "../../../test/kit/certs/authority.ts";
import { runtimeEngine } from "../../net/mod.ts";
import { ServerSearch } from "./server_search.ts";
import { createServersTls } from "./servers_tls.ts";
import type { ConsulTls } from "../http/tls_credentials.ts";
import { Transport } from "../http/transport.ts";

const HOUR_MS = 3_600_000;
const authority = (name: string) =>
  createAuthority({ trustDomain: "mesh.consul", nowMs: Date.now() - HOUR_MS, name });
const OURS = authority("Agent CA 1");
const OTHER = authority("Agent CA 2");
const SERVER: CertificateOverrides = {
  subject: "server.dc1.consul",
  uris: [],
  dnsNames: ["server.dc1.consul"],
};
const PLACES = { kind: "names", names: ["127.0.0.1"] } as const;
const READ = {
  method: "GET",
  path: "/v1/status/leader",
  headers: { "x-consul-token": "secret" },
  timeoutMs: 10_000,
  limitBytes: 99,
  repeatable: true,
};

type Speaks = "h2" | "https" | "http";

interface RigOptions {
  readonly overrides?: CertificateOverrides;
  readonly speaks?: Speaks;
  /** The server demands a certificate of its own CA. Ours has the issuer `shown`; absent: we have none. */
  readonly demands?: { readonly shown?: typeof OURS; readonly maxVersion?: "TLSv1.2" };
}

/** A server, and a transport that trusts what is in `caFile`. */
class Rig implements AsyncDisposable {
  /** Tokens that the server received. */
  readonly receivedTokens: unknown[] = [];
  connections = 0;
  readonly caFile: string;
  transport!: Transport;
  #tls: ConsulTls | null = null;
  readonly #directory = mkdtempSync(join(tmpdir(), "postern-http2-tls-"));
  readonly #ownCert = join(this.#directory, "own.pem");
  readonly #ownKey = join(this.#directory, "own_key.pem");
  readonly #server: http2.Http2SecureServer | https.Server | http.Server;
  readonly #sessions = new Set<{ destroy(): void }>();

  private constructor(
    certificate: { readonly certPem: string; readonly keyPem: string },
    { speaks = "h2", demands }: RigOptions,
  ) {
    this.caFile = join(this.#directory, "ca.pem");
    const files = {
      cert: certificate.certPem,
      key: certificate.keyPem,
      ...(demands && {
        requestCert: true,
        rejectUnauthorized: true,
        ca: OURS.rootPem,
        ...(demands.maxVersion && { maxVersion: demands.maxVersion }),
      }),
    };
    const answer = (
      request: { readonly headers: Readonly<Record<string, unknown>> },
      response: { end(body: string): unknown },
    ) => {
      this.receivedTokens.push(request.headers["x-consul-token"]);
      response.end('"leader"');
    };
    this.#server = speaks === "h2"
      ? http2.createSecureServer(files, answer)
      : speaks === "https"
      ? https.createServer(files, answer)
      : http.createServer(answer);
    this.#server.on("secureConnection", (socket: { destroy(): void }) => {
      this.connections++;
      this.#sessions.add(socket);
    });
    this.#server.on("tlsClientError", () => {});
    this.#server.on("sessionError", () => {});
  }

  static async start(
    issuer = OURS,
    options: RigOptions = {},
  ): Promise<Rig> {
    const { overrides = {}, demands } = options;
    const rig = new Rig(
      issuer.issueLeaf({ service: "server", overrides: { ...SERVER, ...overrides } }),
      options,
    );
    await new Promise<void>((resolve) => rig.#server.listen(0, "127.0.0.1", resolve));
    writeFileSync(rig.caFile, OURS.rootPem);
    if (demands?.shown) {
      const { certPem, keyPem } = demands.shown.issueLeaf({ service: "web" });
      writeFileSync(rig.#ownCert, certPem);
      writeFileSync(rig.#ownKey, keyPem);
    }
    rig.transport = rig.#create(demands?.shown !== undefined);
    return rig;
  }

  send(): Promise<string> {
    return this.transport.send(READ).then(({ body }) => body, messageOf);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.transport.close();
    for (const session of this.#sessions) session.destroy();
    await new Promise((resolve) => this.#server.close(resolve));
    rmSync(this.#directory, { recursive: true });
  }

  /** Why gRPC to the same server fails. */
  async searchFailure(): Promise<string> {
    const found = new AbortController();
    const search: ServerSearch = new ServerSearch({
      engine: runtimeEngine(),
      clock: systemClock,
      random: Math.random,
      log: silentLog,
      stats: new Stats(),
      lookup: () => Promise.reject(new Error("not asked")),
      places: PLACES,
      grpcPort: this.#port,
      tls: this.#tls,
      probe: () => Promise.resolve(),
      onNone: () => found.abort(),
      onLost: () => {},
    });
    const server = await search.find(found.signal);
    server?.link.close();
    return server ? "it was found" : search.lastFailure.replaceAll(this.#directory, "/tls");
  }

  get #port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  #create(showsOwn: boolean): Transport {
    const tls = createServersTls({
      places: PLACES,
      datacenter: "",
      tls: {
        caFile: this.caFile,
        caPath: "",
        certFile: showsOwn ? this.#ownCert : "",
        keyFile: showsOwn ? this.#ownKey : "",
        serverName: "server.dc1.consul",
        verify: true,
      },
    }, { clock: systemClock, log: silentLog });
    assert.ok(tls);
    this.#tls = tls;
    return new Transport({
      peer: "server",
      engine: runtimeEngine(),
      clock: systemClock,
      tls,
      address: { kind: "tcp", host: "127.0.0.1", port: this.#port },
    });
  }
}

test("fifty requests to a real server share one connection", async () => {
  await using rig = await Rig.start();
  const replies = await Promise.all(Array.from({ length: 50 }, () => rig.send()));
  assert.ok(replies.every((reply) => reply === '"leader"'));
  assert.equal(rig.receivedTokens.length, 50);
  assert.equal(rig.connections, 1);
});

for (
  const [what, issuer, options, pattern] of [
    ["has a certificate of another CA", OTHER, {}, /trust/i],
    [
      "has a certificate for another name",
      OURS,
      { overrides: { dnsNames: ["server.dc2.consul"] } },
      /not trusted|name/i,
    ],
    ["does not speak HTTP/2", OURS, { speaks: "https" }, /does not speak HTTP\/2|protocol/i],
    ["does not speak TLS", OURS, { speaks: "http" }, /does not speak TLS; -http-port .*HTTPS API/],
  ] as const
) {
  test(`a server that ${what} gets no token`, async () => {
    await using rig = await Rig.start(issuer, options);
    const failure = await rig.send();
    assert.match(failure, /^Cannot reach the Consul server at https:\/\/127\.0\.0\.1:/);
    assert.match(failure, pattern);
    assert.deepEqual(rig.receivedTokens, []);
  });
}

for (
  const [what, demands, pattern] of [
    ["gets none", {}, /the server wants a certificate: give -client-cert and -client-key$/],
    [
      "gets none, with TLS 1.2",
      { maxVersion: "TLSv1.2" },
      // Bun's server sends only a handshake failure for it.
      /certificate.*: give -client-cert and -client-key$/,
    ],
  ] as const
) {
  test(`a server that demands a certificate and ${what} names the flags`, async () => {
    await using rig = await Rig.start(OURS, { demands });
    assert.match(await rig.send(), pattern);
    assert.match(await rig.searchFailure(), /^127\.0\.0\.1 port \d+ \(-grpc-port, with TLS\): /);
    assert.match(await rig.searchFailure(), pattern);
    assert.deepEqual(rig.receivedTokens, []);
  });
}

test("a server that demands a certificate accepts one of its CA", async () => {
  await using rig = await Rig.start(OURS, { demands: { shown: OURS } });
  assert.equal(await rig.send(), '"leader"');
  assert.equal(await rig.searchFailure(), "it was found");
});

test("a replaced CA file is read for the next connection", async () => {
  await using rig = await Rig.start(OTHER);
  assert.match(await rig.send(), /^Cannot reach/);
  writeFileSync(rig.caFile, OTHER.rootPem);
  assert.equal(await rig.send(), '"leader"');
});
