/**
 * The callers that may not talk to the public listener; the application never sees them.
 *
 * @module
 */

import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { test } from "node:test";
import { connect as tlsConnect, type ConnectionOptions } from "node:tls";
import { createAuthority } from "../kit/certs/certificates.ts";
import { clientOf, openClient } from "../kit/engine/data_path.ts";
import { startEcho } from "../kit/wire/echo.ts";
import { type PathPair, startPathPair } from "../kit/engine/path_pair.ts";
import { eventually } from "../kit/process/process.ts";

const HOUR_MS = 3_600_000;

/** Runtimes differ in whether they end such a handshake or leave the verdict to us. */
const UNTRUSTED = /^(handshake_failed|identity_invalid|chain_untrusted)$/;

/**
 * The certificate of each client, made from the mesh's own authority unless the row says otherwise.
 */
const CALLERS: readonly (readonly [
  name: string,
  code: RegExp,
  make: (pair: PathPair) => { readonly certPem: string; readonly keyPem: string } | undefined,
])[] = [
  ["no client certificate", UNTRUSTED, () => undefined],
  [
    "a certificate of another authority",
    UNTRUSTED,
    () => createAuthority().issueLeaf({ service: "web" }),
  ],
  ["an expired certificate", UNTRUSTED, ({ ca }) =>
    ca.issueLeaf({
      service: "web",
      overrides: { notBeforeMs: Date.now() - 2 * HOUR_MS, notAfterMs: Date.now() - HOUR_MS },
    })],
  ["a certificate that is not valid yet", UNTRUSTED, ({ ca }) =>
    ca.issueLeaf({
      service: "web",
      overrides: { notBeforeMs: Date.now() + HOUR_MS, notAfterMs: Date.now() + 2 * HOUR_MS },
    })],
  [
    "a certificate of another trust domain",
    /^identity_invalid$/,
    ({ ca }) =>
      ca.issueLeaf({ service: "web", uri: "spiffe://other.consul/ns/default/dc/dc1/svc/web" }),
  ],
  ["a certificate with two identities", /^identity_invalid$/, ({ ca }) => {
    const { uri } = ca.issueLeaf({ service: "web" });
    return ca.issueLeaf({
      service: "web",
      overrides: { uris: [uri, uri.replace("/web", "/admin")] },
    });
  }],
  [
    "a certificate with no identity",
    /^identity_invalid$/,
    ({ ca }) => ca.issueLeaf({ service: "web", overrides: { uris: [] } }),
  ],
  ["the identity of a gateway", /^identity_invalid$/, ({ ca, dbSnapshot }) =>
    ca.issueLeaf({
      service: "web",
      uri: `spiffe://${dbSnapshot.credentials.trustDomains[0]}/gateway/mesh/dc/dc1`,
    })],
  [
    "a service without an intention",
    /^intention_denied$/,
    ({ ca }) => ca.issueLeaf({ service: "batch" }),
  ],
];

function callAs(pair: PathPair, identity: Partial<ConnectionOptions>) {
  const socket = tlsConnect({
    host: "127.0.0.1",
    port: pair.db.port(),
    ca: pair.ca.rootPem,
    rejectUnauthorized: false,
    checkServerIdentity: () => undefined,
    ...identity,
  });
  const client = clientOf(socket);
  socket.on("secureConnect", () => socket.write("let me in"));
  return client;
}

for (const [name, code, make] of CALLERS) {
  test(`the public listener refuses ${name}`, async () => {
    await using echo = await startEcho();
    await using pair = await startPathPair({ localPort: echo.port });
    const identity = make(pair);
    await using client = callAs(
      pair,
      identity ? { cert: identity.certPem, key: identity.keyPem } : {},
    );
    await client.gone;
    const { fields } = await pair.line(({ fields }) => fields.code !== undefined);
    assert.match(String(fields.code), code, JSON.stringify(fields));
    assert.equal(echo.accepted, 0);
    await eventually("it is gone", () => {
      return pair.db.path.view({ connections: true }).connections.length === 0;
    });
  });
}

for (
  const [name, bytes] of [
    ["an HTTP request", new TextEncoder().encode("GET / HTTP/1.1\r\nHost: x\r\n\r\n")],
    ["100 KB of noise", randomBytes(100_000)],
    ["a cut ClientHello", Uint8Array.of(0x16, 0x03, 0x01, 0x02, 0x00, 0x01, 0x00)],
  ] as const
) {
  test(`the public listener refuses ${name} instead of TLS`, async () => {
    await using echo = await startEcho();
    await using pair = await startPathPair({ localPort: echo.port });
    await using client = await openClient(pair.db.port());
    client.socket.end(bytes);
    await client.gone;
    await pair.line(({ fields }) => fields.stage === "handshake");
    assert.equal(echo.accepted, 0);
  });
}

for (
  const [name, bytes] of [
    ["an HTTP request", "GET / HTTP/1.1\r\nHost: x\r\n\r\n"],
    ["the preface of HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"],
    ["half of that preface", "PRI * HTTP/2.0\r\n"],
    ["SSH's greeting", "SSH-2.0-OpenSSH_9.6\r\n"],
    ["a few zeros", "\0\0\0\0\0"],
  ] as const
) {
  test(`a caller that sends ${name} instead of TLS, and waits, is disconnected at once`, async () => {
    await using echo = await startEcho();
    await using pair = await startPathPair({
      localPort: echo.port,
      inbound: { handshakeTimeoutMs: 3_600_000 },
    });
    await using client = await openClient(pair.db.port());
    client.send(bytes);
    await client.gone;
    const { fields } = await pair.line(({ fields }) => fields.stage === "handshake");
    assert.equal(fields.code, "handshake_failed");
  });
}

for (const bytes of ["G", "\x16\x03\x01\x02"]) {
  test(`a caller that sends ${JSON.stringify(bytes)} as TLS is disconnected after the handshake timeout at most`, async () => {
    await using echo = await startEcho();
    await using pair = await startPathPair({
      localPort: echo.port,
      inbound: { handshakeTimeoutMs: 100 },
    });
    await using client = await openClient(pair.db.port());
    client.send(bytes);
    await client.gone;
    // rustls knows that TLS does not begin with a letter.
    await pair.line(({ fields }) => /^handshake_(timed_out|failed)$/.test(String(fields.code)));
  });
}

test("a peer that never shakes hands is dropped at the deadline", async () => {
  await using echo = await startEcho();
  await using pair = await startPathPair({
    localPort: echo.port,
    inbound: { handshakeTimeoutMs: 100 },
  });
  await using client = await openClient(pair.db.port());
  await client.gone;
  const { fields } = await pair.line(({ fields }) => fields.code === "handshake_timed_out");
  assert.equal(fields.stage, "handshake");
});

test("an expired identity of our own is not served from a wrong clock", async () => {
  await using echo = await startEcho();
  const future = Date.now() + 100 * 24 * HOUR_MS;
  await using pair = await startPathPair({
    localPort: echo.port,
    db: {
      clock: {
        now: () => future,
        monotonic: () => performance.now(),
        after(delayMs, fn) {
          const timer = setTimeout(fn, delayMs);
          return { cancel: () => clearTimeout(timer) };
        },
      },
    },
  });
  const web = pair.ca.issueLeaf({ service: "web" });
  await using client = callAs(pair, { cert: web.certPem, key: web.keyPem });
  await client.gone;
  const { fields } = await pair.line(({ fields }) => fields.code === "not_ready");
  assert.match(String(fields.reason), /our own certificate expired/);
});
