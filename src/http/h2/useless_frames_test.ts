/** Floods of useless frames, from peers that read our answers and from peers that do not. @module */

import assert from "node:assert/strict";
import test from "node:test";
import { settle } from "../../../test/kit/clock/clock.ts";
import { http2ClientRig } from "../../../test/kit/wire/http2_client_rig.ts";
import { http2ServerRig } from "../../../test/kit/wire/http2_server_rig.ts";
import {
  ACK,
  frame,
  GET,
  headers,
  type Pairs,
  type RawPeer,
  repeat,
  settings,
  u32,
} from "../../../test/kit/wire/http2_wire.ts";
import type { HttpEnd } from "../exchange.ts";

const OK: Pairs = [[":status", "200"]];
/** More streams than the table of closed streams keeps. */
const CLOSED = 1_200;
/** Streams that the table of closed streams has forgotten. */
const FORGOTTEN = CLOSED - 64;
const BATCH = 1_000;
/** Far more frames than a flood may have. */
const BATCHES = 60;

interface Attacked {
  readonly peer: RawPeer;
  readonly ends: readonly HttpEnd[];
}

const id = (i: number) => 2 * i + 1;

/** A client that has a response to each of its requests. */
async function answered(): Promise<Attacked> {
  const { peer, ends, request, client } = await http2ClientRig([[3, 4_000]]);
  for (let i = 0; i < CLOSED; i++) {
    request();
    await peer.send(headers(id(i), OK));
  }
  assert.equal(client.active, 0);
  peer.take();
  return { peer, ends };
}

test("a client tolerates RST_STREAM after each complete response", async () => {
  // nginx does this when it responds before it has read the request (RFC 9113 8.1).
  const { peer, ends, request, client } = await http2ClientRig([[3, 4_000]]);
  for (let i = 0; i < 5 * BATCH; i++) {
    request();
    await peer.send(headers(id(i), OK), frame("RST_STREAM", 0, id(i), u32(0)));
  }
  assert.deepEqual([ends, client.active], [[], 0]);
});

/** A server that has answered all requests. */
async function answering(): Promise<Attacked> {
  const { peer, ends, requests, server } = await http2ServerRig();
  for (let i = 0; i < CLOSED; i++) {
    await peer.send(headers(id(i), GET));
    requests[i]?.exchange.respond({ status: 200, length: 0, fields: [] }, true);
  }
  assert.equal(server.active, 0);
  peer.take();
  return { peer, ends };
}

const ATTACKS: readonly (readonly [name: string, make: (i: number) => Uint8Array])[] = [
  ["DATA on streams that ended long ago", (i) => frame("DATA", 0, id(i % FORGOTTEN), [1])],
  ["HEADERS on streams that ended long ago", (i) => headers(id(i % FORGOTTEN), OK)],
  [
    "RST_STREAM on streams that ended long ago",
    (i) => frame("RST_STREAM", 0, id(i % FORGOTTEN), u32(8)),
  ],
  ["WINDOW_UPDATE on streams that ended", (i) => frame("WINDOW_UPDATE", 0, id(i % CLOSED), u32(1))],
  ["PRIORITY", (i) => frame("PRIORITY", 0, id(i % CLOSED), [0, 0, 0, 0, 1])],
  ["acknowledgements of SETTINGS", () => frame("SETTINGS", ACK, 0)],
  ["SETTINGS", () => settings([4, 65_535])],
  ["PING", () => frame("PING", 0, 0, new Uint8Array(8))],
  ["unsolicited answers to PING", () => frame("PING", ACK, 0, new Uint8Array(8))],
  ["PUSH_PROMISE", (i) => frame("PUSH_PROMISE", 4, id(i % CLOSED), [0, 0, 0, 2])],
  ["GOAWAY", () => frame("GOAWAY", 0, 0, [...u32(0x7fffffff), ...u32(0)])],
  ["unknown frames", () => frame(0x77, 0, 0, [1])],
];

for (const [side, open] of [["client", answered], ["server", answering]] as const) {
  for (const [name, make] of ATTACKS) {
    for (const reads of [true, false]) {
      test(`a ${side} ends a flood of ${name} from a peer that reads ${reads ? "all" : "nothing"}`, async () => {
        const { peer, ends } = await open();
        if (!reads) peer.stop();
        let sent = 0;
        while (ends.length === 0 && sent < BATCH * BATCHES) {
          await peer.send(...repeat(BATCH, (i) => make(sent + i)));
          sent += BATCH;
        }
        assert.equal(ends.length, 1, `${sent} frames were accepted`);
        assert.match(ends[0]?.kind ?? "", /flood|protocol|closed/);
      });
    }
  }
}

test("a server ends a client that keeps sending requests and reads no response", async () => {
  const { peer, ends, requests } = await http2ServerRig();
  peer.stop();
  let asked = 0;
  await floodOf(ends, async () => {
    await peer.send(...repeat(BATCH, (i) => headers(id(asked + i), GET)));
    for (; asked < requests.length; asked++) {
      const fields = ["x-large", "a".repeat(500), "x-large"];
      requests[asked]?.exchange.respond({ status: 403, length: 0, fields }, true);
    }
    await settle();
  });
  assert.deepEqual(ends.map(({ kind, detail }) => [kind, detail]), [
    ["flood", "frames that nobody reads"],
  ]);
  // The frames that wait for such a peer are dropped with the connection.
  assert.equal(peer.closed, "reset");
});

test("a client allows DATA on a reset stream up to its window, and no more", async () => {
  const { peer, ends, request } = await http2ClientRig();
  const { exchange } = request({}, false);
  await peer.send(headers(1, OK, 0));
  exchange.reset("cancelled");
  const full = frame("DATA", 0, 1, new Uint8Array(16_384));
  // Sent before the reset arrived.
  await peer.send(...repeat(4, () => full));
  assert.deepEqual(ends, []);
  await peer.send(full);
  assert.deepEqual(ends.map(({ kind, detail }) => [kind, detail]), [
    ["flood", "DATA on streams that were reset"],
  ]);
});

test("a client that resets many requests ignores their late responses", async () => {
  const { peer, ends, request } = await http2ClientRig([[3, 4_000]]);
  const asked = repeat(3_000, () => request({}, false));
  await settle();
  for (const { exchange } of asked) exchange.reset("cancelled");
  await peer.send(...repeat(3_000, (i) => headers(id(i), OK)));
  assert.deepEqual(ends, []);
});

async function floodOf(ends: readonly HttpEnd[], send: () => Promise<void>) {
  for (let batch = 0; ends.length === 0 && batch < BATCHES; batch++) await send();
}
