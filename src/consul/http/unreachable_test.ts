/** What is said where the address is not that of the agent's HTTP API. */
import assert from "node:assert/strict";
import { type AddressInfo, createServer } from "node:net";
import { test } from "node:test";
import { messageOf, systemClock } from "../../base/mod.ts";
import { PROXY_FLAGS } from "../flag_names.ts";
import type { TransportTls } from "./files.ts";
import { Transport } from "./transport.ts";
import { reasonOf } from "./unreachable.ts";

const TLS: TransportTls = {
  ...{ caPems: [], caName: "", certPem: "", keyPem: "", certName: "", serverName: "" },
  ...{ verify: false, names: PROXY_FLAGS },
};

/** What a gRPC server says first: the SETTINGS of HTTP/2. */
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
  test(`Transport says that ${name} was spoken to the gRPC port`, async () => {
    const server = createServer((socket) => {
      socket.on("error", () => {});
      socket.once("data", () => socket.end(SETTINGS));
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const { port } = server.address() as AddressInfo;
    const address = { kind: "tcp", host: "127.0.0.1", port } as const;
    const transport = new Transport({ address, tls, clock: systemClock });
    const request = { method: "GET", path: "/v1/agent/self", headers: {}, repeatable: false };
    const failure = await transport.send({ ...request, timeoutMs: 10_000, limitBytes: 99 })
      .then(() => "it answered", messageOf);
    transport.close();
    server.close();
    assert.match(failure, pattern);
  });
}

for (
  const [port, code, pattern] of [
    // As Consul 1.22 was seen to end what it cannot read.
    [8502, "HPE_INVALID_CONSTANT", /^8502 is Consul's port for gRPC; -http-addr .* 8500 or 8501/],
    [8503, "ECONNRESET", /^8503 is Consul's port for gRPC over TLS;/],
    [8300, "ECONNRESET", /^8300 is Consul's port for calls between servers;/],
    [8500, "ECONNRESET", /^the connection was reset$/],
    [8503, "ECONNREFUSED", /^connection refused; is the agent running/],
  ] as const
) {
  test(`reasonOf() knows port ${port} and ${code}`, () => {
    const error = Object.assign(new Error("socket hang up"), { code });
    const address = { kind: "tcp", host: "127.0.0.1", port } as const;
    assert.match(reasonOf(error, { address, tls: null }), pattern);
  });
}

for (
  const [code, port] of [
    ["ECONNREFUSED", 8300],
    ["ECONNRESET", 8503],
    ["HPE_INVALID_CONSTANT", 18_502],
    ["EPROTO", 18_500],
  ] as const
) {
  test(`reasonOf() tells of servers with their own flags: ${code}`, () => {
    const address = { kind: "tcp", host: "192.0.2.1", port } as const;
    const said = reasonOf({ code }, { address, tls: null, peer: "server" });
    assert.doesNotMatch(said, /agent|-http-addr/);
    assert.match(
      said,
      code === "EPROTO" ? /does the server/ : /-http-port \(POSTERN_HTTP_PORT\) wants/,
    );
  });
}
