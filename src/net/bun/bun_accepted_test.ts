import assert from "node:assert/strict";
import { test } from "node:test";
import { BunAccepted, type BunTls } from "./bun_accepted.ts";
import type { BunConnection } from "./bun_connection.ts";
import type { BunSocket, BunTlsError } from "./bun_sockets.ts";
import type { ServerTls, ServerTlsChooser } from "../port.ts";

const TLS = { kind: "server", peerCheck: "checked", options: {} } as unknown as ServerTls & BunTls;
const GONE = "gone: the connection was closed before the handshake was done";

/** A socket whose descriptor cannot be watched. `close` and `reset` close it at once, as in Bun. */
function setUp({ upgrade = "succeeds" }: { readonly upgrade?: "succeeds" | "throws" } = {}) {
  const calls: string[] = [];
  class FakeSocket {
    readonly name: string;
    data: BunAccepted | BunConnection | undefined;
    readonly fd = -1;
    readonly remoteAddress = "192.0.2.1";
    readonly remotePort = 5;
    readonly localAddress = "192.0.2.2";
    readonly localPort = 6;
    constructor(name: string) {
      this.name = name;
    }
    upgradeTLS(): readonly [FakeSocket, FakeSocket] {
      if (upgrade === "throws") throw new Error("no such cipher");
      secured.data = accepted;
      return [this, secured];
    }
    getPeerX509Certificate() {
      return { raw: Uint8Array.of(1) };
    }
    pause() {
      calls.push(`${this.name} paused`);
    }
    write(bytes: Uint8Array, _offset: number, length: number) {
      calls.push(`alert ${bytes[length - 1]}`);
    }
    end() {
      calls.push(`${this.name} ended`);
      accepted.rawClosed(null);
    }
    terminate() {
      calls.push(`${this.name} terminated`);
      if (this === secured) this.data?.closed(undefined);
      else accepted.rawClosed(null);
    }
  }
  const raw = new FakeSocket("raw");
  const secured = new FakeSocket("secured");
  const accepted = new BunAccepted(
    raw as unknown as BunSocket,
    () => calls.push("a chooser decides"),
  );
  const secure = (tls: ServerTls & BunTls | ServerTlsChooser = TLS) =>
    accepted.secure(tls, (outcome) => {
      if (outcome.kind === "failed") {
        calls.push(`${outcome.gone ? "gone" : "failed"}: ${outcome.reason}`);
      } else calls.push(`secured ${outcome.connection.remote} ${outcome.peer.accepted}`);
    });
  return { accepted, secured: secured as unknown as BunSocket, secure, calls };
}

const CHOOSER: ServerTlsChooser = { kind: "chooser", choose: () => assert.fail("asked") };

function error(message: string, code?: string): BunTlsError {
  return Object.assign(new Error(message), code === undefined ? {} : { code });
}

const CASES: readonly (readonly [
  name: string,
  happens: (parts: ReturnType<typeof setUp>) => void,
  calls: readonly string[],
])[] = [
  ["is paused before its handshake", ({ accepted }) => accepted.handedOut(), ["raw paused"]],
  ["is not paused after a reset", ({ accepted }) => {
    accepted.reset();
    accepted.handedOut();
  }, ["raw terminated"]],
  ["is secured once", ({ accepted, secure, secured }) => {
    secure();
    accepted.handedOut();
    accepted.handshaken(secured, true, null);
    accepted.closed(undefined);
    accepted.handshaken(secured, true, null);
  }, ["secured 192.0.2.1:5 true"]],
  ["is not accepted if Bun rejects its certificate", ({ accepted, secure, secured }) => {
    secure();
    accepted.handshaken(secured, true, error("expired"));
  }, ["secured 192.0.2.1:5 false"]],
  ["is accepted without a certificate that is ignored", ({ accepted, secure, secured }) => {
    secure({ ...TLS, peerCheck: "ignored" });
    accepted.handshaken(secured, true, error("nothing shown"));
  }, ["secured 192.0.2.1:5 true"]],
  ["fails once", ({ accepted, secure, secured }) => {
    secure();
    accepted.handshaken(secured, false, error("broken"));
    accepted.broke(error("again"));
    accepted.handshaken(secured, true, null);
  }, ["failed: broken"]],
  ["may be reset in the handshake", ({ accepted, secure, secured }) => {
    secure(TLS);
    accepted.handshaken(secured, false, error("reset", "ECONNRESET"));
  }, ["gone: reset"]],
  ["may end in the handshake", ({ accepted, secure }) => {
    secure();
    accepted.peerEnded();
  }, [GONE]],
  ["may close in the handshake", ({ accepted, secure }) => {
    secure();
    accepted.closed(error("broken pipe"));
  }, ["gone: broken pipe"]],
  ["may break in the handshake", ({ accepted, secure }) => {
    secure();
    accepted.broke(error("broken"));
  }, ["failed: broken"]],
  ["is reported by its TLS socket once the handshake began", ({ accepted, secure }) => {
    secure();
    accepted.rawClosed(null);
  }, []],
  ["is not reported after its reset", ({ accepted, secure, secured }) => {
    secure();
    accepted.reset();
    accepted.handshaken(secured, true, null);
  }, ["secured terminated"]],
  [
    "is refused with an alert if its first message cannot be awaited",
    ({ secure }) => secure(CHOOSER),
    [
      "a chooser decides",
      "raw paused",
      "alert 80",
      "raw ended",
      "failed: Cannot read the client's first message: this system does not let us wait for it",
    ],
  ],
];

for (const [name, happens, calls] of CASES) {
  test(`Accepted: a client ${name}`, () => {
    const parts = setUp();
    happens(parts);
    assert.deepEqual(parts.calls, calls);
  });
}

test("Accepted fails if Bun rejects the TLS settings", () => {
  const { secure, calls } = setUp({ upgrade: "throws" });
  secure();
  assert.deepEqual(calls, ["failed: no such cipher"]);
});

test("Accepted has its addresses", () => {
  const { accepted } = setUp();
  assert.deepEqual([accepted.remote, accepted.local], ["192.0.2.1:5", "192.0.2.2:6"]);
});
