/** Messages about an address that is not that of the HTTP API. */
import assert from "node:assert/strict";
import { type AddressInfo, createServer } from "node:net";
import { test } from "node:test";
import { messageOf, systemClock } from "../../base/mod.ts";
import { runtimeEngine } from "../../net/mod.ts";
import { createAgentCarrier } from "./transport.ts";
import type { TlsFiles } from "./files.ts";
import { brokenWords, dialWords } from "./unreachable.ts";

const TLS: TlsFiles = {
  caFile: "",
  caPath: "",
  certFile: "",
  keyFile: "",
  serverName: "",
  verify: false,
};

/** The SETTINGS of HTTP/2: a gRPC server's first bytes. */
const SETTINGS = Uint8Array.of(0, 0, 0, 4, 0, 0, 0, 0, 0);

for (
  const [name, tls, pattern] of [
    [
      "plain HTTP",
      null,
      /does not speak HTTP\/1; is this the agent's gRPC port\? -http-addr.*8500/,
    ],
    [
      "HTTPS",
      TLS,
      /does not speak TLS; give the agent's HTTPS port, 8501 .* or, where it has none, write http:\/\//,
    ],
  ] as const
) {
  test(`the message names the gRPC port as the cause where ${name} fails`, async () => {
    const server = createServer((socket) => {
      socket.on("error", () => {});
      socket.once("data", () => socket.end(SETTINGS));
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const { port } = server.address() as AddressInfo;
    const address = { kind: "tcp", host: "127.0.0.1", port } as const;
    const carrier = createAgentCarrier({ address, tls }, {
      engine: runtimeEngine(),
      clock: systemClock,
    });
    const request = { method: "GET", path: "/v1/agent/self", headers: {}, repeatable: false };
    const failure = await carrier.send({ ...request, timeoutMs: 10_000, limitBytes: 99 })
      .then(() => "it answered", messageOf);
    carrier.close();
    server.close();
    assert.match(failure, pattern);
  });
}

const RESET = "the connection was reset";
const NO_HTTP = "answers HTTP/2 where Protocol says http";
const GONE = "the server closed the connection";
const REFUSED = "nothing there takes connections (ECONNREFUSED)";

for (
  const [port, describe, pattern] of [
    // The reactions of Consul 1.22 to another protocol.
    [
      8502,
      (place) => brokenWords("protocol", NO_HTTP, place),
      /^8502 is Consul's port for gRPC; -http-addr .* 8500 or 8501/,
    ],
    [
      8503,
      (place) => brokenWords("connection", RESET, place),
      /^8503 is Consul's port for gRPC over TLS;/,
    ],
    [
      8300,
      (place) => dialWords({ stage: "handshake", reason: GONE }, place),
      /^8300 is Consul's port for calls between servers;/,
    ],
    [8500, (place) => brokenWords("connection", RESET, place), /^the connection was reset$/],
    [
      8503,
      (place) => dialWords({ stage: "connect", reason: REFUSED }, place),
      /^connection refused; is the agent running/,
    ],
    [
      8500,
      (place) => dialWords({ stage: "connect", reason: "there is no such socket (ENOENT)" }, place),
      /^there is no such socket$/,
    ],
    [8500, (place) => brokenWords("protocol", "a bad header", place), /^a bad header$/],
  ] as readonly (readonly [number, (place: Parameters<typeof dialWords>[1]) => string, RegExp])[]
) {
  test(`the words for port ${port} begin with ${pattern.source.slice(1, 40)}`, () => {
    const address = { kind: "tcp", host: "127.0.0.1", port } as const;
    assert.match(describe({ address, peer: "agent", tls: null }), pattern);
  });
}

for (
  const [what, port, describe] of [
    [
      "a refused connection",
      8300,
      (place) => dialWords({ stage: "connect", reason: REFUSED }, place),
    ],
    ["a hang-up", 8503, (place) => brokenWords("connection", RESET, place)],
    ["another protocol", 18_502, (place) => brokenWords("protocol", NO_HTTP, place)],
  ] as readonly (readonly [string, number, (place: Parameters<typeof dialWords>[1]) => string])[]
) {
  test(`the words for ${what} of servers name the flags for servers`, () => {
    const address = { kind: "tcp", host: "192.0.2.1", port } as const;
    const words = describe({ address, peer: "server", tls: null });
    assert.doesNotMatch(words, /agent|-http-addr/);
    assert.match(words, /-http-port \(POSTERN_HTTP_PORT\) wants/);
  });
}
