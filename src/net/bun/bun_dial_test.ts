import assert from "node:assert/strict";
import { test } from "node:test";
import type { BunConnection } from "./bun_connection.ts";
import { BunDial } from "./bun_dial.ts";
import type { BunSocket, BunTlsError } from "./bun_sockets.ts";
import type { PeerCheck } from "../port.ts";

const TCP = { kind: "tcp", host: "192.0.2.1", port: 1 } as const;
const LEAF = Uint8Array.of(1);

/** The socket closes at once, like Bun's. */
function setUp(
  { peerCheck, ticket, leaf = LEAF, address = TCP }: {
    readonly peerCheck?: PeerCheck;
    readonly ticket?: Uint8Array;
    readonly leaf?: Uint8Array | null;
    readonly address?: typeof TCP | { readonly kind: "unix"; readonly path: string };
  } = {},
) {
  const calls: string[] = [];
  const dialling = new BunDial({ address, peerCheck, ticket }, {
    onConnected: ({ remote }, peer) => calls.push(`connected ${remote} ${peer?.reason}`),
    onFailed: (stage, reason) => calls.push(`${stage}: ${reason}`),
  });
  const socket = {
    data: dialling as BunDial | BunConnection,
    setKeepAlive: () => calls.push("kept alive"),
    setSession: ([byte]: Uint8Array) => calls.push(`ticket ${byte}`),
    getPeerX509Certificate: () => leaf ? { raw: leaf } : undefined,
    terminate() {
      calls.push("terminated");
      this.data.closed(undefined);
    },
  };
  return { dialling, socket: socket as unknown as BunSocket, calls };
}

type Parts = ReturnType<typeof setUp>;

function tlsError(message: string, code: string): BunTlsError {
  return Object.assign(new Error(message), { code });
}

const CASES: readonly (readonly [
  name: string,
  options: Parameters<typeof setUp>[0],
  happens: (parts: Parts) => void,
  calls: readonly string[],
])[] = [
  [
    "a plain connection is reported once it is open",
    {},
    ({ dialling, socket }) => dialling.opened(socket),
    ["kept alive", "connected 192.0.2.1:1 undefined"],
  ],
  [
    "a unix socket has no keep-alive",
    { address: { kind: "unix", path: "/run/a.sock" } },
    ({ dialling, socket }) => dialling.opened(socket),
    ["connected unix:///run/a.sock undefined"],
  ],
  [
    "a TLS connection is reported after its handshake, with its ticket",
    { peerCheck: "checked", ticket: Uint8Array.of(9) },
    ({ dialling, socket }) => {
      dialling.opened(socket);
      dialling.handshaken(socket, true, null);
      dialling.connectFailed(new Error("too late"));
    },
    ["kept alive", "ticket 9", "connected 192.0.2.1:1 "],
  ],
  [
    "a certificate that Bun rejects is left to the owner's check",
    { peerCheck: "checked" },
    ({ dialling, socket }) => {
      dialling.opened(socket);
      dialling.handshaken(socket, false, tlsError("expired", "CERT_HAS_EXPIRED"));
    },
    ["kept alive", "connected 192.0.2.1:1 expired"],
  ],
  [
    "Bun's complaint about a certificate with the right name is reported, too",
    { peerCheck: "checked" },
    ({ dialling, socket }) => {
      dialling.opened(socket);
      dialling.handshaken(socket, true, tlsError("a stranger", "SELF_SIGNED_CERT_IN_CHAIN"));
    },
    ["kept alive", "connected 192.0.2.1:1 a stranger"],
  ],
  [
    "a broken handshake fails, even with a certificate",
    { peerCheck: "checked" },
    ({ dialling, socket }) => {
      dialling.opened(socket);
      dialling.handshaken(socket, false, tlsError("broken", "EPROTO"));
    },
    ["kept alive", "terminated", "handshake: broken"],
  ],
  [
    "a server without a certificate fails",
    { peerCheck: "ignored", leaf: null },
    ({ dialling, socket }) => {
      dialling.opened(socket);
      dialling.handshaken(socket, false, tlsError("no certificate", "CERT_REJECTED"));
    },
    ["kept alive", "terminated", "handshake: no certificate"],
  ],
  [
    "a refused connection fails",
    {},
    ({ dialling }) => dialling.connectFailed(tlsError("refused", "ECONNREFUSED")),
    ["connect: nothing there takes connections (ECONNREFUSED)"],
  ],
  ...([
    ["ends", (dialling) => dialling.peerEnded(), "the server closed the connection"],
    ["closes", (dialling) => dialling.closed(undefined), "the server closed the connection"],
    ["resets", (dialling) => dialling.closed(new Error("reset")), "reset"],
    ["breaks", (dialling) => dialling.broke(new Error("broken")), "broken"],
  ] as readonly (readonly [string, (dialling: BunDial) => void, string])[]).map((
    [name, happens, reason],
  ) =>
    [
      `a server that ${name} in the handshake is reported once, and keeps no socket`,
      { peerCheck: "checked" },
      ({ dialling, socket }: Parts) => {
        dialling.opened(socket);
        happens(dialling);
        dialling.handshaken(socket, true, null);
      },
      ["kept alive", "terminated", `handshake: ${reason}`],
    ] as const
  ),
  [
    "cancelled before it is open",
    {},
    ({ dialling, socket }) => {
      dialling.cancel();
      dialling.opened(socket);
    },
    ["terminated"],
  ],
  [
    "cancelled in the handshake",
    { peerCheck: "checked" },
    ({ dialling, socket }) => {
      dialling.opened(socket);
      dialling.cancel();
    },
    ["kept alive", "terminated"],
  ],
];

for (const [name, options, happens, calls] of CASES) {
  test(`BunDial: ${name}`, () => {
    const parts = setUp(options);
    happens(parts);
    assert.deepEqual(parts.calls, calls);
  });
}
