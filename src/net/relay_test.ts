import assert from "node:assert/strict";
import { test } from "node:test";
import { settle } from "../../test/kit/clock/clock.ts";
import { type MemoryConnection, memoryPair } from "../../test/kit/engine/memory_pair.ts";
import { Relay, type RelayEnd } from "./relay.ts";

class Peer {
  readonly connection: MemoryConnection;
  readonly events: string[] = [];
  size = 0;

  constructor(connection: MemoryConnection) {
    this.connection = connection;
    connection.events = {
      onData: (chunk) => {
        this.size += chunk.length;
        this.events.push(new TextDecoder().decode(chunk.subarray(0, 20)));
      },
      onEnd: () => this.events.push("(end)"),
      onDrain: () => this.events.push("(drain)"),
      onClose: (reset) => this.events.push(reset ? "(reset)" : "(close)"),
    };
  }

  write(text: string): boolean {
    return this.connection.write(new TextEncoder().encode(text));
  }
}

function setUp(capacityBytes = 1_000) {
  const [client, downstream] = memoryPair({ capacityBytes });
  const [upstream, server] = memoryPair({ capacityBytes });
  const ticker = { tick: 5 };
  const over: RelayEnd[] = [];
  const relay = new Relay(downstream, upstream, { ticker, onOver: (end) => over.push(end) });
  return {
    client: new Peer(client),
    server: new Peer(server),
    downstream,
    upstream,
    relay,
    ticker,
    over,
  };
}

test("Relay passes bytes both ways and counts them", async () => {
  const { client, server, relay, over } = setUp();
  client.write("question");
  server.write("answer!");
  await settle();
  assert.deepEqual(server.events, ["question"]);
  assert.deepEqual(client.events, ["answer!"]);
  assert.equal(relay.receivedBytes, 8);
  assert.equal(relay.sentBytes, 7);
  assert.deepEqual(over, []);
});

test("Relay notes the tick of the downstream's first byte, not of later ones", async () => {
  const { client, server, relay, ticker } = setUp();
  ticker.tick = 6;
  server.write("unasked");
  await settle();
  assert.equal(relay.firstTick, 5);
  for (ticker.tick = 7; ticker.tick < 9; ticker.tick++) {
    client.write("question");
    await settle();
    assert.equal(relay.firstTick, 7);
  }
  assert.equal(relay.activeTick, 8);
});

test("Relay notes the tick of the last byte either way, not of other events", async () => {
  const { client, server, relay, ticker } = setUp();
  assert.equal(relay.activeTick, 5);
  ticker.tick = 6;
  await settle();
  assert.equal(relay.activeTick, 5);
  client.write("x");
  await settle();
  assert.equal(relay.activeTick, 6);
  ticker.tick = 7;
  server.write("x");
  await settle();
  assert.equal(relay.activeTick, 7);
  ticker.tick = 8;
  client.connection.end();
  await settle();
  assert.equal(relay.activeTick, 7);
});

for (const first of ["downstream", "upstream"] as const) {
  const sides = (all: ReturnType<typeof setUp>) =>
    first === "downstream"
      ? { near: all.client, far: all.server }
      : { near: all.server, far: all.client };

  test(`Relay keeps the other half open when the ${first} ends first`, async () => {
    const all = setUp();
    const { near, far } = sides(all);
    near.write("last");
    near.connection.end();
    await settle();
    assert.deepEqual(far.events, ["last", "(end)"]);
    far.write("more");
    await settle();
    assert.deepEqual(near.events, ["more"]);
    assert.deepEqual(all.over, []);
    far.connection.end();
    await settle();
    assert.deepEqual(near.events, ["more", "(end)", "(close)"]);
    assert.deepEqual(far.events, ["last", "(end)", "(close)"]);
    assert.deepEqual(all.over, [{ kind: "ended", first }]);
  });

  test(`Relay passes a reset by the ${first} on as a reset, once`, async () => {
    const all = setUp();
    const { near, far } = sides(all);
    near.write("x");
    await settle();
    near.connection.reset();
    await settle();
    assert.deepEqual(far.events, ["x", "(reset)"]);
    assert.deepEqual(all.over, [{ kind: "reset", by: first, first, alert: "" }]);
  });

  test(`Relay passes a reset by the ${first} on after its half had ended`, async () => {
    const all = setUp();
    const { near, far } = sides(all);
    near.connection.end();
    await settle();
    near.connection.reset();
    await settle();
    assert.deepEqual(far.events, ["(end)", "(reset)"]);
    assert.deepEqual(all.over, [{ kind: "reset", by: first, first, alert: "" }]);
  });

  test(`Relay stops the ${first} when the other side does not read`, async () => {
    const all = setUp(1_000);
    const { near, far } = sides(all);
    far.connection.pause();
    let sent = 0;
    for (let wrote = true; wrote && sent < 100_000; sent += 100) {
      wrote = near.write("x".repeat(100));
      await settle();
    }
    // Two buffers and the chunks that filled them.
    assert.ok(sent <= 2_300, `${sent} bytes were taken`);
    const { downstream, upstream } = all;
    assert.equal((first === "downstream" ? downstream : upstream).paused, true);
    assert.equal(far.size, 0);
    far.connection.resume();
    await settle();
    assert.equal(far.size, sent);
    assert.equal((first === "downstream" ? downstream : upstream).paused, false);
    assert.equal(near.events.at(-1), "(drain)");
  });

  test(`Relay sends the ${first}'s last bytes before its end to a slow reader`, async () => {
    const all = setUp(10);
    const { near, far } = sides(all);
    far.connection.pause();
    near.write("0123456789abcdef");
    near.write("and more");
    near.connection.end();
    await settle();
    assert.deepEqual(far.events, []);
    far.connection.resume();
    await settle();
    assert.deepEqual(far.events, ["0123456789abcdef", "and more", "(end)"]);
  });

  test(`Relay treats a clean close of the ${first} without an end as its end`, async () => {
    const all = setUp();
    const { near, far } = sides(all);
    const closed = first === "downstream" ? all.downstream : all.upstream;
    near.write("last");
    await settle();
    const { events } = closed;
    events.onClose(false, "");
    await settle();
    assert.deepEqual(far.events, ["last", "(end)"]);
    assert.equal(all.relay.endTick, 5);
    assert.deepEqual(all.over, []);
    far.connection.close();
    near.connection.close();
    await settle();
    assert.deepEqual(all.over, [{ kind: "ended", first }]);
  });

  test(`Relay reports the TLS alert that the ${first} broke with, not a later close`, () => {
    const all = setUp();
    const [own, other] = first === "downstream"
      ? [all.downstream.events, all.upstream.events]
      : [all.upstream.events, all.downstream.events];
    own.onClose(true, "the peer denies us access");
    other.onClose(true, "");
    const want = { kind: "reset", by: first, first, alert: "the peer denies us access" };
    assert.deepEqual(all.over, [want]);
  });

  test(`Relay resets both when the ${first} closed and the other still writes`, async () => {
    const all = setUp();
    const { near, far } = sides(all);
    near.connection.close();
    await settle();
    assert.deepEqual(far.events, ["(end)"]);
    far.write("dropped by the reset");
    await settle();
    assert.deepEqual(far.events, ["(end)", "(reset)"]);
    assert.deepEqual(all.over, [{ kind: "reset", by: first, first, alert: "" }]);
  });
}

for (const [how, want] of [["close", "(end)"], ["reset", "(reset)"]] as const) {
  test(`Relay stop("${how}") ends both sides and calls no callback`, async () => {
    const { client, server, relay, over } = setUp();
    client.write("before");
    await settle();
    relay.stop(how);
    await settle();
    assert.deepEqual(server.events, ["before", want]);
    assert.deepEqual(client.events, [want]);
    client.connection.end();
    server.connection.end();
    await settle();
    assert.deepEqual(over, []);
  });
}
