import assert from "node:assert/strict";
import { test } from "node:test";
import { type Fields, HeldBytes, HeldShare } from "../../http/mod.ts";
import { RequestBody } from "./request_body.ts";
import type { RequestHandle } from "../upstream/upstream_request.ts";

const NOBODY = { bodyWanted() {}, bodyHeld() {} };

/** What one endpoint got. */
class Endpoint implements RequestHandle {
  readonly chunks: string[] = [];
  ended: Fields | true | undefined;

  send(chunk: Uint8Array): boolean {
    this.chunks.push(new TextDecoder().decode(chunk));
    // The bytes are whose who sends them on.
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

test("RequestBody goes to the next endpoint from its beginning, while all of it is kept", () => {
  const held = new HeldBytes(100);
  const share = new HeldShare(held.open("caller"));
  const body = new RequestBody(NOBODY, share);
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

test("RequestBody keeps nothing of what is longer than may be kept, or is answered", () => {
  const held = new HeldBytes(100);
  const share = new HeldShare(held.open("caller"));
  const body = new RequestBody(NOBODY, share);
  body.keep(3);
  body.passTo(new Endpoint());
  body.send(bytes("ab"));
  assert.deepEqual([body.isReplayable, held.bytes], [true, 2]);
  body.send(bytes("cd"));
  assert.deepEqual([body.isReplayable, held.bytes], [false, 0]);
  const answered = new RequestBody(NOBODY, share);
  answered.keep(100);
  answered.send(bytes("ab"));
  answered.forget();
  answered.send(bytes("cd"));
  assert.deepEqual([answered.isReplayable, held.bytes], [false, 0]);
});

test("RequestBody is passed on all the same where all bodies together keep too much", () => {
  const held = new HeldBytes(8);
  const account = held.open("caller");
  const [greedy, late] = [
    new RequestBody(NOBODY, new HeldShare(account)),
    new RequestBody(NOBODY, new HeldShare(account)),
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

test("RequestBody hands out a copy of what was kept, once all of it has come", () => {
  const body = new RequestBody(NOBODY, new HeldShare(new HeldBytes(100).open("caller")));
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

test("RequestBody counts what a plugin read until it sends something on, or drops it", async () => {
  const held = new HeldBytes(100);
  const share = new HeldShare(held.open("caller"));
  const body = new RequestBody(NOBODY, share);
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
  // The rest comes all the same, and goes nowhere.
  assert.equal(body.send(bytes("fgh")), true);
  body.end(undefined);
  body.abandon("over");
  assert.equal(held.bytes, 0);
});
