/**
 * Requests of HTTP/1.1: nothing is thrown, pieces do not matter, and a request that is read and written
 * again is read as the same, by itself.
 *
 * @module
 */

import assert from "node:assert/strict";
import { FIELD, fieldOf, openHttp1Client } from "../../src/http/mod.ts";
import {
  FUZZ_LIMITS,
  randomCuts,
  type Reading,
  type ReadRequest,
  readRequests,
  REQUESTS,
  SinkStream,
  WORDS,
} from "../kit/wire/http1_requests.ts";
import { latin1Bytes } from "../kit/wire/http1.ts";
import type { FuzzTarget } from "./fuzz.ts";

export const target: FuzzTarget = {
  name: "http1_requests",
  corpus: REQUESTS,
  dictionary: WORDS,
  limitBytes: 4_096,
  limitMs: 200,
  run(input, random) {
    const whole = readRequests(input, []);
    const pieces = readRequests(input, randomCuts(input.length, random));
    const [wholeSeen, piecesSeen] = [seen(whole), seen(pieces)];
    assert.deepEqual(piecesSeen, wholeSeen);
    // Bytes after a refused tunnel are read or not by when they come.
    if (!wholeSeen.some(mayBecomeTunnel)) {
      // Either one of two faults may be found first.
      assert.equal(pieces.refused > 0, whole.refused > 0);
      assert.equal(pieces.over, whole.over);
    }
    for (const request of whole.requests) if (request.complete) forward(request);
  },
};

function mayBecomeTunnel({ head }: ReadRequest): boolean {
  return head.upgrade !== "" || head.method === "CONNECT";
}

/** The requests that do not depend on pieces. */
function seen({ requests, refused }: Reading): readonly ReadRequest[] {
  const last = requests.at(-1);
  // More or less of a body that is broken off may have been delivered before.
  if (refused && last && !last.complete) last.body = "";
  const tunnel = requests.findIndex(mayBecomeTunnel);
  return tunnel < 0 ? requests : requests.slice(0, tunnel + 1);
}

/** Fields that a head may not have. */
const OWN =
  /^(?:host|content-length|transfer-encoding|connection|upgrade|expect|keep-alive|proxy-connection)$/;

function forward({ head, body, trailers }: ReadRequest): void {
  const { fields } = head;
  assert.equal(fields.length % FIELD, 0);
  for (let i = 0; i < fields.length; i += FIELD) {
    const [name = "", value = "", spelled = ""] = fields.slice(i, i + FIELD);
    assert.match(name, /^[!#$%&'*+.^_`|~0-9a-z-]+$/);
    assert.doesNotMatch(name, OWN);
    assert.equal(spelled.toLowerCase(), name);
    // deno-lint-ignore no-control-regex -- that none is there is what is asserted
    assert.doesNotMatch(value, /[\0-\x08\x0a-\x1f\x7f\u0100-\uffff]|^[ \t]|[ \t]$/);
  }
  assert.match(head.path, head.method === "CONNECT" ? /^$/ : /^(?:\/[!"$-~]*|\*)$/);
  // It is given a key of its own.
  if (head.upgrade === "websocket" && !fieldOf(fields, "sec-websocket-key")) return;
  const stream = new SinkStream();
  const client = openHttp1Client(stream, {
    limits: FUZZ_LIMITS,
    events: { onCapacity() {}, onClose() {} },
  });
  const ends = head.length === 0;
  const exchange = client.request(head, ends, {
    onInformational() {},
    onResponse() {},
    onData() {},
    onEnd() {},
    onDrain() {},
    onReset: (reason, detail) => assert.fail(`${reason}: ${detail}`),
  });
  if (!ends) {
    exchange.send(latin1Bytes(body));
    exchange.end(trailers);
  }
  const again = readRequests(latin1Bytes(stream.text), []);
  // An absolute target becomes a host, and a refused upgrade or HTTP/1.0 what every hop makes of it.
  const [first] = again.requests;
  // A length need not announce that there is no body, and with some methods does.
  const saysLength = head.length === 0 ? first?.head.saysLength : head.length > 0;
  const same = { ...head, scheme: "", version: "HTTP/1.1", saysLength };
  assert.deepEqual(again.requests, [{ head: same, body, trailers, complete: true }]);
  assert.equal(again.refused, 0);
}
