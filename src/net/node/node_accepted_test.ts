import assert from "node:assert/strict";
import { EventEmitter } from "node:events";
import type { Socket } from "node:net";
import { test } from "node:test";
import { clientHello } from "../../../test/conformance/net/client_hello.ts";
import { NodeAccepted } from "./node_accepted.ts";
import type { ServerTls } from "../port.ts";

const HELLO = clientHello({ names: ["a.example"] });
const EARLY_LIMIT_BYTES = 64 * 1024;
const GONE = "gone: the connection was closed before the handshake was done";

class FakeSocket extends EventEmitter {
  readonly remoteAddress = "192.0.2.1";
  readonly remotePort = 5;
  readonly localAddress = "192.0.2.2";
  readonly localPort = 6;
  destroyed = false;
  readonly log: string[];
  constructor(log: string[]) {
    super();
    this.log = log;
  }
  end(alert: Uint8Array, done: () => void): void {
    this.log.push(`alert ${alert.at(-1)}`);
    done();
  }
  pause(): void {
    this.log.push("pause");
  }
  isPaused(): boolean {
    return false;
  }
  destroy(): void {
    this.log.push("destroy");
  }
  resetAndDestroy(): void {
    this.log.push("reset");
  }
}

function setUp(answer: ServerTls | undefined | Promise<ServerTls | undefined> = undefined) {
  const log: string[] = [];
  const socket = new FakeSocket(log);
  const accepted = new NodeAccepted(socket as unknown as Socket);
  const choose = () => {
    log.push("asked");
    return answer;
  };
  const secure = () =>
    accepted.secure({ kind: "chooser", choose }, (outcome) => {
      assert.ok(outcome.kind === "failed");
      log.push(`${outcome.gone ? "gone" : "failed"}: ${outcome.reason}`);
    });
  return { accepted, socket, secure, log };
}

const NEVER = new Promise<undefined>(() => {});

const CASES: readonly (readonly [
  name: string,
  answer: Parameters<typeof setUp>[0],
  happens: (parts: ReturnType<typeof setUp>) => void,
  log: readonly string[],
])[] = [
  ["that is gone already is reported at once", undefined, ({ socket, secure }) => {
    socket.destroyed = true;
    secure();
  }, [GONE]],
  ["without chosen settings is refused", undefined, ({ socket, secure }) => {
    secure();
    socket.emit("data", HELLO.subarray(0, 9));
    socket.emit("data", HELLO.subarray(9));
  }, ["asked", "alert 112", "destroy", 'failed: no certificate for "a.example"']],
  ["that speaks no TLS is refused", undefined, ({ socket, secure, log }) => {
    secure();
    socket.emit("data", Buffer.from("GET / HTTP/1.1\r\n\r\n"));
    assert.match(log.pop() ?? "", /^failed: /);
  }, ["alert 50", "destroy"]],
  ["that ends before it has spoken is gone", undefined, ({ socket, secure }) => {
    secure();
    socket.emit("end");
  }, [GONE, "destroy"]],
  ["that closes during the choice is gone", NEVER, ({ socket, secure }) => {
    secure();
    socket.emit("data", HELLO);
    socket.emit("close");
  }, ["asked", GONE, "destroy"]],
];

for (const [name, answer, happens, log] of CASES) {
  test(`Accepted: a client ${name}, and its events are ignored`, () => {
    const parts = setUp(answer);
    happens(parts);
    assert.deepEqual(parts.log, log);
    assert.deepEqual(parts.socket.eventNames(), ["error"]);
  });
}

test("Accepted holds 64 KiB while a choice is awaited, and calls the chooser once", () => {
  const { socket, secure, log } = setUp(NEVER);
  secure();
  socket.emit("data", HELLO);
  socket.emit("data", new Uint8Array(EARLY_LIMIT_BYTES - HELLO.length));
  assert.deepEqual(log, ["asked"]);
  socket.emit("data", new Uint8Array(1));
  assert.deepEqual(log, ["asked", "pause"]);
});

test("Accepted calls no handler after a reset, whatever the chooser returns then", async () => {
  const answer = Promise.resolve(undefined);
  const { accepted, socket, secure, log } = setUp(answer);
  secure();
  socket.emit("data", HELLO);
  accepted.reset();
  await new Promise<void>((resolve) => setImmediate(resolve));
  assert.deepEqual(log, ["asked", "reset"]);
});

test("Accepted has its addresses, and survives an error before its handshake", () => {
  const { accepted, socket } = setUp();
  socket.emit("error", new Error("broken"));
  assert.deepEqual([accepted.remote, accepted.local], ["192.0.2.1:5", "192.0.2.2:6"]);
});
