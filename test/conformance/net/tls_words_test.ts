/**
 * The contract of how a failed handshake is reported: in words that name the side and the fault, by both
 * engines, also where the handshake was done on one side only.
 *
 * @module
 */

import assert from "node:assert/strict";
import { connect, createServer } from "node:net";
import { test } from "node:test";
import type { TlsMaterial } from "../../../src/net/mod.ts";

import { clientHello } from "./client_hello.ts";
import { dial, engine, SecureServer, webMaterial } from "./kit.ts";

const isBun = engine.name.startsWith("bun");

const NO_TLS = /^the peer does not speak TLS$/;
/** One engine can tell the most common mistake from the others. */
const HTTP = isBun ? /^the peer spoke HTTP to a port that takes TLS only$/ : NO_TLS;

for (
  const [name, bytes, words] of [
    ["HTTP", Buffer.from("GET / HTTP/1.1\r\nHost: db\r\n\r\n"), HTTP],
    ["SSH", Buffer.from("SSH-2.0-OpenSSH_9.6\r\n"), NO_TLS],
    ["TLS 1.1", clientHello({ version: 0x0302 }), /^no TLS version in common/],
    ["RC4 only", clientHello({ version: 0x0303, suites: [0x0005] }), /^no cipher suite in common/],
  ] as const
) {
  test(`secure() reports a client that speaks ${name}`, async () => {
    await using server = await SecureServer.start();
    const client = connect({ port: server.port, host: "127.0.0.1" });
    client.on("error", () => {});
    client.write(bytes);
    const outcome = await server.outcome();
    client.destroy();
    assert.match(outcome.kind === "failed" ? outcome.reason : "secured", words);
  });
}

/** Alerts that a server sends before any other message (RFC 8446 6.2). */
for (
  const [name, alert, words] of [
    ["bad_certificate", 42, /^the peer does not accept our certificate$/],
    ["certificate_expired", 45, /^the peer holds our certificate for expired/],
    ["unknown_ca", 48, /^the peer does not trust the CA that signed our certificate$/],
    ["protocol_version", 70, /^the peer takes no TLS version/],
    ["unrecognized_name", 112, /^the peer has no certificate for the name/],
    ["certificate_required", 116, /^the peer asks for a certificate and was shown none$/],
  ] as const
) {
  test(`dial() explains the alert ${name}`, async () => {
    assert.match(await toldBy(Uint8Array.of(0x15, 3, 3, 0, 2, 2, alert)), words);
  });
}

test("dial() reports a server that speaks no TLS", async () => {
  assert.match(await toldBy(Buffer.from("HTTP/1.1 400 Bad Request\r\n\r\n")), NO_TLS);
});

/** Why a dial failed whose server answers the first message with `bytes`. */
async function toldBy(bytes: Uint8Array): Promise<string> {
  const server = createServer((socket) => {
    socket.on("error", () => {});
    socket.once("data", () => socket.end(bytes));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = server.address();
  const result = await dial(typeof address === "object" && address ? address.port : 0).result();
  server.close();
  return result.kind === "failed" ? result.reason : result.kind;
}

test("the close reports an alert after the handshake, in words", async () => {
  await using server = await SecureServer.start();
  const material: TlsMaterial = {
    ...webMaterial,
    certPem: "",
    keyPem: "",
    minVersion: "TLSv1.3",
  };
  // In TLS 1.3 it is connected before the server has looked at its certificate.
  const side = await dial(server.port, { material }).side();
  await side.over();
  assert.equal(side.alert, "the peer asks for a certificate and was shown none");
  const outcome = await server.outcome();
  const reason = outcome.kind === "failed" ? outcome.reason : "secured";
  assert.equal(reason, "the peer showed no certificate");
});
