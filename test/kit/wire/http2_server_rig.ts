/** Our HTTP/2 server and a client that is a test's own, byte by byte. @module */

import assert from "node:assert/strict";
import { Deadlines } from "../../../src/base/mod.ts";
import {
  DEFAULT_HTTP_LIMITS,
  HeldBytes,
  type HttpEnd,
  type HttpLimits,
  serveHttp2,
  type ServerConnection,
  type ServerExchange,
} from "../../../src/http/mod.ts";
import { memoryPair } from "../engine/memory_pair.ts";
import { FakeClock } from "../clock/clock.ts";
import { ExchangeRecorder } from "./http2_pair.ts";
import { frame, PREFACE, RawPeer, settings } from "./http2_wire.ts";

export interface Http2ServerRig {
  readonly peer: RawPeer;
  readonly server: ServerConnection;
  readonly clock: FakeClock;
  readonly requests: { readonly exchange: ServerExchange; readonly recorded: ExchangeRecorder }[];
  readonly invalid: string[];
  readonly ends: HttpEnd[];
}

/** A server that answers nothing by itself, with a client that has shaken hands. */
export async function http2ServerRig(
  limits: Partial<HttpLimits> = {},
  held: HeldBytes = new HeldBytes(1 << 24),
  windowBytes = 983_041,
): Promise<Http2ServerRig> {
  const [ours, theirs] = memoryPair();
  const peer = new RawPeer(ours);
  const clock = new FakeClock();
  const requests: Http2ServerRig["requests"] = [];
  const invalid: string[] = [];
  const ends: HttpEnd[] = [];
  const server = serveHttp2(theirs, {
    limits: { ...DEFAULT_HTTP_LIMITS, ...limits },
    clock,
    deadlines: new Deadlines(clock),
    account: held.open("peer"),
    events: {
      onRequest(exchange) {
        const recorded = new ExchangeRecorder();
        exchange.events = recorded;
        requests.push({ exchange, recorded });
      },
      onInvalid: (status, detail) => void invalid.push(`${status} ${detail}`),
      onClose: (end) => void ends.push(end),
    },
  });
  await peer.send(PREFACE, settings(), frame("SETTINGS", 1, 0));
  assert.deepEqual(peer.take(), ["SETTINGS 0", `WINDOW_UPDATE 0 ${windowBytes}`, "SETTINGS 0 ack"]);
  return { peer, server, clock, requests, invalid, ends };
}
