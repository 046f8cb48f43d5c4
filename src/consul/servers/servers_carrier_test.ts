import assert from "node:assert/strict";
import { test } from "node:test";
import { ProxyError } from "../../base/mod.ts";
import { FakeClock } from "../../../test/kit/clock/clock.ts";
import type { Server } from "./types.ts";
import {
  AskAgain,
  NoReply,
  type WireReply,
  type WireRequest,
  type WireTransport,
} from "../http/carrier.ts";
import { ServersCarrier } from "./servers_carrier.ts";

/** Servers that the test changes, and transports whose requests it answers. */
class Scene {
  readonly clock = new FakeClock();
  readonly left: string[] = [];
  readonly transports: ScriptedTransport[] = [];
  readonly #moves = new Set<(server: Server) => void>();
  readonly #downs = new Set<() => void>();
  readonly #servers = {
    current: undefined as Server | undefined,
    status: { lastFailure: "" },
    isDown: false,
    onDown: (fn: () => void) => {
      this.#downs.add(fn);
      return () => this.#downs.delete(fn);
    },
    leave: (server: Server) => {
      if (server !== this.#servers.current) return;
      this.left.push(server.host);
      this.#servers.current = undefined;
    },
    onMove: (fn: (server: Server) => void) => {
      this.#moves.add(fn);
      return () => this.#moves.delete(fn);
    },
  };
  readonly carrier: ServersCarrier = new ServersCarrier({
    clock: this.clock,
    servers: this.#servers,
    createTransport: (server) => {
      const transport = new ScriptedTransport(server.host);
      this.transports.push(transport);
      return transport;
    },
  });

  set lastFailure(reason: string) {
    this.#servers.status.lastFailure = reason;
  }

  goDown(): void {
    this.#servers.isDown = true;
    for (const fn of [...this.#downs]) fn();
  }

  constructor(host?: string) {
    if (host) this.#servers.current = { host };
  }

  moveTo(host: string): void {
    const server = { host };
    this.#servers.current = server;
    for (const fn of this.#moves) fn(server);
  }

  async at(index: number): Promise<ScriptedTransport> {
    await this.clock.advance(0);
    const transport = this.transports[index];
    assert.ok(transport, `server ${index} is asked`);
    return transport;
  }
}

class ScriptedTransport implements WireTransport {
  readonly where: string;
  readonly asked: {
    readonly request: WireRequest;
    readonly reply: PromiseWithResolvers<WireReply>;
  }[] = [];
  closed = false;
  renewals = 0;

  constructor(where: string) {
    this.where = where;
  }

  send(request: WireRequest): Promise<WireReply> {
    const reply = Promise.withResolvers<WireReply>();
    this.asked.push({ request, reply });
    const end = () => reply.reject(new ProxyError("closed", "given up"));
    if (request.signal?.aborted || this.closed) end();
    request.signal?.addEventListener("abort", end);
    return reply.promise;
  }

  answer(at: number): void {
    this.asked[at]?.reply.resolve({ status: 200, headers: {}, body: this.where });
  }

  breakOff(at: number): void {
    this.asked[at]?.reply.reject(new ProxyError("agent_unreachable", "connection refused"));
  }

  close(): void {
    this.closed = true;
    for (const { reply } of this.asked) reply.reject(new ProxyError("closed", "given up"));
  }

  renew(): void {
    this.renewals++;
  }

  dropIdle(): void {}
}

const READ = {
  method: "GET",
  path: "/",
  headers: {},
  timeoutMs: 30_000,
  limitBytes: 99,
  repeatable: true,
};
const WAIT = { ...READ, repeatable: false, waits: true };
const WRITE = { ...READ, repeatable: false, method: "PUT" };

test("a read whose connection broke is sent to the next server", async () => {
  const scene = new Scene("a");
  const reply = scene.carrier.send(READ);
  (await scene.at(0)).breakOff(0);
  await scene.clock.advance(0);
  assert.deepEqual(scene.left, ["a"], "its server is left");
  scene.moveTo("b");
  (await scene.at(1)).answer(0);
  assert.equal((await reply).body, "b");
});

test("a wait that a move ended fails with AskAgain, and no server is left", async () => {
  const scene = new Scene("a");
  const reply = scene.carrier.send(WAIT);
  await scene.at(0);
  scene.moveTo("b");
  await assert.rejects(reply, AskAgain);
  assert.deepEqual(scene.left, []);
  assert.equal(scene.transports.length, 1, "it is not sent again unchanged");
});

test("a write whose connection broke is not sent again", async () => {
  const scene = new Scene("a");
  const reply = scene.carrier.send(WRITE);
  (await scene.at(0)).breakOff(0);
  await assert.rejects(reply, { code: "agent_unreachable" });
});

test("a read fails after three servers, with the failure of the last", async () => {
  const scene = new Scene("a");
  const reply = scene.carrier.send(READ);
  reply.catch(() => {});
  for (const [at, next] of ["b", "c", "d"].entries()) {
    (await scene.at(at)).breakOff(0);
    await scene.clock.advance(0);
    scene.moveTo(next);
  }
  await assert.rejects(reply, { code: "agent_unreachable", message: "connection refused" });
  assert.deepEqual(scene.left, ["a", "b", "c"]);
});

for (
  const [timeoutMs, left] of [[10_000, []], [30_000, ["a"]]] as const
) {
  test(`no reply within ${timeoutMs} ms: ${left.length} servers left`, async () => {
    const scene = new Scene("a");
    const reply = scene.carrier.send({ ...READ, repeatable: false, timeoutMs });
    (await scene.at(0)).asked[0]?.reply.reject(new NoReply("no reply"));
    await assert.rejects(reply, { code: "agent_unreachable" });
    assert.deepEqual(scene.left, left);
  });
}

test("a request without a server fails after three seconds with the last failure", async () => {
  const scene = new Scene();
  scene.lastFailure = "a port 8503: refused";
  const reply = scene.carrier.send(READ);
  reply.catch(() => {});
  await scene.clock.advance(2_999);
  const second = scene.carrier.send(READ);
  await scene.clock.advance(1);
  await assert.rejects(reply, {
    code: "agent_unreachable",
    message: "Cannot ask a Consul server: none can be used: a port 8503: refused",
  });
  scene.moveTo("a");
  (await scene.at(0)).answer(0);
  assert.equal((await second).body, "a");
  assert.equal(scene.clock.pending, 0);
});

test("requests fail at once where every server is down at the start", async () => {
  const scene = new Scene();
  scene.lastFailure = "a port 8503: refused";
  const failures: string[] = [];
  const ask = () =>
    void scene.carrier.send(READ).catch((error) => failures.push((error as Error).message));
  ask();
  await scene.clock.advance(100);
  assert.deepEqual(failures, []);
  scene.goDown();
  await scene.clock.advance(0);
  const message = "Cannot ask a Consul server: none can be used: a port 8503: refused";
  assert.deepEqual(failures, [message]);
  ask();
  await scene.clock.advance(0);
  assert.deepEqual(failures, [message, message], "the next request does not wait either");
});

test("a replaced token ends waits with AskAgain, and no other requests", async () => {
  const scene = new Scene("a");
  const wait = scene.carrier.send(WAIT);
  const read = scene.carrier.send(READ);
  const at = await scene.at(0);
  scene.carrier.endWaits("The token was replaced");
  await assert.rejects(wait, AskAgain);
  at.answer(1);
  assert.equal((await read).body, "a");
  assert.deepEqual(scene.left, []);
  const again = scene.carrier.send(WAIT);
  await scene.clock.advance(0);
  at.answer(2);
  assert.equal((await again).body, "a");
});

test("an aborted wait fails as closed although the server was left, too", async () => {
  const scene = new Scene("a");
  const owner = new AbortController();
  const reply = scene.carrier.send({ ...WAIT, signal: owner.signal });
  await scene.at(0);
  owner.abort();
  scene.moveTo("b");
  await assert.rejects(reply, (error) => !(error instanceof AskAgain));
});

test("reloadFiles() ends waits with AskAgain, and lets other requests finish on the old connection", async () => {
  const scene = new Scene("a");
  const wait = scene.carrier.send(WAIT);
  const read = scene.carrier.send(READ);
  const before = await scene.at(0);
  scene.carrier.reloadFiles();
  await assert.rejects(wait, AskAgain);
  assert.deepEqual([before.renewals, before.closed], [1, false]);
  before.answer(1);
  assert.equal((await read).body, "a");
  scene.carrier.close();
});

test("close() fails requests that wait for a server", async () => {
  const scene = new Scene();
  const reply = scene.carrier.send(READ);
  await scene.clock.advance(0);
  scene.carrier.close();
  await assert.rejects(reply, { code: "closed" });
});
