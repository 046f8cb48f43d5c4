/**
 * Responses of HTTP/1.1: nothing is thrown, pieces do not matter, and a connection that may be used
 * again has no bytes left.
 *
 * @module
 */

import assert from "node:assert/strict";
import { type Fields, openHttp1Client, type ResponseHead } from "../../src/http/mod.ts";
import { FUZZ_LIMITS, randomCuts, SinkStream, WORDS } from "../kit/wire/http1_requests.ts";
import { latin1Bytes, latin1Text, requestHead } from "../kit/wire/http1.ts";
import type { FuzzTarget } from "./fuzz.ts";

interface ReadResponse {
  readonly heads: ResponseHead[];
  body: string;
  trailers: Fields | undefined;
  state: string;
  capacity: number;
  over: boolean;
}

const HEADS = [
  requestHead(),
  requestHead({ method: "HEAD" }),
  requestHead({ method: "CONNECT", authority: "db:80" }),
  requestHead({ upgrade: "echo" }),
];

function readResponse(input: Uint8Array, cuts: readonly number[], asked: number): ReadResponse {
  const stream = new SinkStream();
  const client = openHttp1Client(stream, {
    limits: FUZZ_LIMITS,
    events: { onCapacity() {}, onClose() {} },
  });
  const response: ReadResponse = {
    heads: [],
    body: "",
    trailers: undefined,
    state: "open",
    capacity: 0,
    over: false,
  };
  const exchange = client.request(HEADS[asked] ?? requestHead(), true, {
    onInformational: (head) => void response.heads.push(head),
    onResponse(head, ends) {
      response.heads.push(head);
      if (ends) response.state = "complete";
      if (head.status !== 101 && !(asked === 2 && head.status >= 200 && head.status < 300)) return;
      response.state = "tunnel";
      const tunnel = exchange.tunnel();
      tunnel.events = {
        onData: (chunk) => void (response.body += latin1Text(chunk)),
        onEnd() {},
        onDrain() {},
        onClose() {},
      };
    },
    onData: (chunk) => void (response.body += latin1Text(chunk)),
    onEnd(trailers) {
      response.trailers = trailers;
      response.state = "complete";
    },
    onDrain() {},
    onReset: (reason) => void (response.state = reason),
  });
  let at = 0;
  for (const cut of [...cuts, input.length]) {
    stream.events.onData(input.slice(at, cut));
    at = cut;
  }
  response.capacity = client.capacity;
  response.over = stream.over;
  return response;
}

export const target: FuzzTarget = {
  name: "http1_responses",
  corpus: [
    "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nA: b\r\n\r\nhello",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n1;a\r\nx\r\n0\r\nX: y\r\n\r\n",
    "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n",
    "HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n",
    "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 0\r\n\r\n",
    "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nuntil the end",
    "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\nhello",
  ].map(latin1Bytes),
  dictionary: [...WORDS, "HTTP/1.1 100 \r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"],
  limitBytes: 4_096,
  limitMs: 200,
  run(input, random) {
    const asked = Math.floor(random() * HEADS.length);
    const whole = readResponse(input, [], asked);
    const pieces = readResponse(input, randomCuts(input.length, random), asked);
    // A part of a broken response may have been delivered.
    if (whole.state === "protocol" || whole.state === "overflow") {
      assert.match(pieces.state, /^(?:protocol|overflow)$/);
    } else assert.deepEqual(pieces, whole);
    assert.equal(whole.capacity === 1, whole.state === "complete" && !whole.over);
    for (const { status } of whole.heads) assert.ok(status >= 100 && status <= 999);
  },
};
