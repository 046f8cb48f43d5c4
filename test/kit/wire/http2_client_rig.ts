/** Our HTTP/2 client and a server that is a test's own, byte by byte. @module */

import assert from "node:assert/strict";
import { Deadlines } from "../../../src/base/mod.ts";
import {
  type ClientConnection,
  type ClientExchange,
  DEFAULT_HTTP_LIMITS,
  type HttpEnd,
  openHttp2Client,
  type RequestHead,
} from "../../../src/http/mod.ts";
import type { KeepAliveOptions } from "../../../src/http/h2/client.ts";
import { memoryPair } from "../engine/memory_pair.ts";
import { FakeClock, settle } from "../clock/clock.ts";
import { ExchangeRecorder, requestHead } from "./http2_pair.ts";
import { frame, RawPeer, settings } from "./http2_wire.ts";

export interface Http2ClientRig {
  readonly peer: RawPeer;
  readonly client: ClientConnection;
  readonly clock: FakeClock;
  readonly ends: HttpEnd[];
  readonly capacities: number[];
  request(
    head?: Partial<RequestHead>,
    ends?: boolean,
  ): { recorded: ExchangeRecorder; exchange: ClientExchange };
}

/** A client, and its server that sent `said` in its settings; null: it sent none yet. */
export async function http2ClientRig(
  said: readonly (readonly [number, number])[] | null = [],
  keepAlive?: KeepAliveOptions,
): Promise<Http2ClientRig> {
  const [ours, theirs] = memoryPair();
  const peer = new RawPeer(theirs, { server: true });
  const clock = new FakeClock();
  const ends: HttpEnd[] = [];
  const capacities: number[] = [];
  const client = openHttp2Client(ours, {
    limits: DEFAULT_HTTP_LIMITS,
    clock,
    deadlines: new Deadlines(clock),
    ...keepAlive ? { keepAlive } : {},
    events: {
      onCapacity: () => void capacities.push(client.capacity),
      onClose: (end) => void ends.push(end),
    },
  });
  await settle();
  assert.deepEqual(peer.take(), ["SETTINGS 0", "WINDOW_UPDATE 0 983041"]);
  if (said) {
    await peer.send(settings(...said), frame("SETTINGS", 1, 0));
    assert.deepEqual(peer.take(), ["SETTINGS 0 ack"]);
  }
  return {
    peer,
    client,
    clock,
    ends,
    capacities,
    request(head = {}, end = true) {
      const recorded = new ExchangeRecorder();
      return { recorded, exchange: client.request(requestHead(head), end, recorded) };
    },
  };
}
