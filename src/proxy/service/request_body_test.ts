import assert from "node:assert/strict";
import { test } from "node:test";
import { type Fields, HeldBytes, HeldShare } from "../../http/mod.ts";
import { RequestBody } from "./request_body.ts";
import type { RequestHandle } from "../upstream/upstream_request.ts";

const NO_CALLBACKS = { bodyWanted() {}, bodyHeld() {} };

/** Records the body that one endpoint received. */
class Endpoint implements RequestHandle {
  readonly chunks: string[] = [];
  ended: Fields | true | undefined;

  send(chunk: Uint8Array): boolean {
    this.chunks.push(new TextDecoder().decode(chunk));
    // The receiver of a chunk may overwrite it.
    chunk.fill(0);
    return true;
  }

  end(trailers: Fields | undefined): void {
    this.ended = trailers ?? true;
  }

  pause(): void {}
  resume(): void {}
  tunnel(): undefined {}
  timedOut(): void {}
  leave(): void {}
}

const bytes = (text: string) => new TextEncoder().encode(text);

test("RequestBody replays a kept body to the next endpoint", () => {
  const held = new HeldBytes(100);
  const share = new HeldShare(held.open("caller"));
  const body = new RequestBody(NO_CALLBACKS, share);
  const [first, second] = [new Endpoint(), new Endpoint()];
  body.keep(4);
  body.passTo(first);
  body.send(bytes("ab"));
  body.hold();
  body.passTo(second);
  body.send(bytes("cd"));
  body.end(["a", "1"]);
  assert.deepEqual([first.chunks, first.ended], [["ab"], undefined]);
  assert.deepEqual([second.chunks, second.ended], [["ab", "cd"], ["a", "1"]]);
  assert.deepEqual([body.isReplayable, held.bytes], [true, 4]);
  body.abandon("over");
  assert.equal(held.bytes, 0);
});

test("RequestBody drops kept bytes above the limit, and once the request is answered", () => {
  const held = new HeldBytes(100);
  const share = new HeldShare(held.open("caller"));
  const body = new RequestBody(NO_CALLBACKS, share);
  body.keep(3);
  body.passTo(new Endpoint());
  body.send(bytes("ab"));
  assert.deepEqual([body.isReplayable, held.bytes], [true, 2]);
  body.send(bytes("cd"));
  assert.deepEqual([body.isReplayable, held.bytes], [false, 0]);
  const answered = new RequestBody(NO_CALLBACKS, share);
  answered.keep(100);
  answered.send(bytes("ab"));
  answered.forget();
  answered.send(bytes("cd"));
  assert.deepEqual([answered.isReplayable, held.bytes], [false, 0]);
});

test("RequestBody is passed on without being kept while the account is full", () => {
  const held = new HeldBytes(8);
  const account = held.open("caller");
  const [greedy, late] = [
    new RequestBody(NO_CALLBACKS, new HeldShare(account)),
    new RequestBody(NO_CALLBACKS, new HeldShare(account)),
  ];
  const endpoint = new Endpoint();
  for (const body of [greedy, late]) body.keep(100);
  greedy.send(bytes("ab"));
  late.passTo(endpoint);
  late.send(bytes("cd"));
  assert.deepEqual([endpoint.chunks, late.isReplayable, greedy.isReplayable], [
    ["cd"],
    false,
    true,
  ]);
  greedy.abandon("over");
  assert.equal(held.bytes, 0);
});

test("RequestBody.kept() is a copy of the body once it is complete", () => {
  const body = new RequestBody(NO_CALLBACKS, new HeldShare(new HeldBytes(100).open("caller")));
  body.keep(4);
  body.passTo(new Endpoint());
  body.send(bytes("ab"));
  assert.equal(body.kept(), undefined);
  body.send(bytes("cd"));
  body.end(undefined);
  assert.deepEqual(body.kept(), bytes("abcd"));
  body.forget();
  assert.equal(body.kept(), undefined);
});

test("RequestBody counts bytes that a plugin read until it sends some on or cancels", async () => {
  const held = new HeldBytes(100);
  const share = new HeldShare(held.open("caller"));
  const body = new RequestBody(NO_CALLBACKS, share);
  const reader = body.open().getReader();
  body.send(bytes("abc"));
  await reader.read();
  assert.deepEqual([share.bytes, held.bytes], [3, 3]);
  body.sentOn();
  assert.deepEqual([share.bytes, held.bytes], [0, 0]);
  body.send(bytes("de"));
  await reader.read();
  assert.equal(held.bytes, 2);
  await reader.cancel();
  assert.equal(held.bytes, 0);
  // The rest is discarded.
  assert.equal(body.send(bytes("fgh")), true);
  body.end(undefined);
  body.abandon("over");
  assert.equal(held.bytes, 0);
});
