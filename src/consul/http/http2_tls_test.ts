/** Requests to a server over TLS as it is, on real handshakes: who is not the server hears nothing. */
import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import http from "node:http";
import http2 from "node:http2";
import https from "node:https";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { messageOf, silentLog, systemClock } from "../../base/mod.ts";
import { type CertificateOverrides, createAuthority } from "../../dev/ca/authority.ts";
import { runtimeEngine } from "../../net/mod.ts";
import { createServersTls } from "../servers/servers_tls.ts";
import { Http2Transport } from "./http2_transport.ts";

const HOUR_MS = 3_600_000;
const authority = (name: string) =>
  createAuthority({ trustDomain: "mesh.consul", nowMs: Date.now() - HOUR_MS, name });
const OURS = authority("Agent CA 1");
const OTHER = authority("Agent CA 2");
const SERVER: CertificateOverrides = {
  ...{ subject: "server.dc1.consul", uris: [], dnsNames: ["server.dc1.consul"] },
};
const READ = {
  ...{ method: "GET", path: "/v1/status/leader", headers: { "x-consul-token": "secret" } },
  ...{ timeoutMs: 10_000, limitBytes: 99, repeatable: true },
};

type Speaks = "h2" | "https" | "http";

/** A server, and a transport that trusts what is in `caFile`. */
class Rig implements AsyncDisposable {
  /** Tokens that were heard. */
  readonly heard: unknown[] = [];
  connections = 0;
  readonly caFile: string;
  transport!: Http2Transport;
  readonly #directory = mkdtempSync(join(tmpdir(), "postern-http2-tls-"));
  readonly #server: http2.Http2SecureServer | https.Server | http.Server;
  readonly #sessions = new Set<{ destroy(): void }>();

  private constructor(
    certificate: { readonly certPem: string; readonly keyPem: string },
    speaks: Speaks,
  ) {
    this.caFile = join(this.#directory, "ca.pem");
    const files = { cert: certificate.certPem, key: certificate.keyPem };
    const answer = (
      request: { readonly headers: Readonly<Record<string, unknown>> },
      response: { end(body: string): unknown },
    ) => {
      this.heard.push(request.headers["x-consul-token"]);
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
    options: { readonly overrides?: CertificateOverrides; readonly speaks?: Speaks } = {},
  ): Promise<Rig> {
    const { overrides = {}, speaks = "h2" } = options;
    const rig = new Rig(
      issuer.issueLeaf({ service: "server", overrides: { ...SERVER, ...overrides } }),
      speaks,
    );
    await new Promise<void>((resolve) => rig.#server.listen(0, "127.0.0.1", resolve));
    writeFileSync(rig.caFile, OURS.rootPem);
    rig.transport = rig.#create();
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

  #create(): Http2Transport {
    const tls = createServersTls({
      places: { kind: "names", names: ["127.0.0.1"] },
      datacenter: "",
      tls: {
        ...{ caFile: this.caFile, caPath: "", certFile: "", keyFile: "" },
        ...{ serverName: "server.dc1.consul", verify: true },
      },
    }, { clock: systemClock, log: silentLog });
    assert.ok(tls);
    const { port } = this.#server.address() as AddressInfo;
    return new Http2Transport({
      ...{ engine: runtimeEngine(), clock: systemClock, tls },
      address: { kind: "tcp", host: "127.0.0.1", port },
    });
  }
}

test("fifty requests to a real server are one connection", async () => {
  await using rig = await Rig.start();
  const replies = await Promise.all(Array.from({ length: 50 }, () => rig.send()));
  assert.ok(replies.every((reply) => reply === '"leader"'));
  assert.equal(rig.heard.length, 50);
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
    assert.deepEqual(rig.heard, []);
  });
}

test("a CA that replaced another is read for the next connection", async () => {
  await using rig = await Rig.start(OTHER);
  assert.match(await rig.send(), /^Cannot reach/);
  writeFileSync(rig.caFile, OTHER.rootPem);
  assert.equal(await rig.send(), '"leader"');
});
