import assert from "node:assert/strict";
import test from "node:test";
import { type HeldAccount, HeldBytes, HeldShare } from "./held_bytes.ts";

/** An account with named exchanges, which records the stopped ones. */
class Connection {
  readonly account: HeldAccount;
  readonly #shares = new Map<string, HeldShare>();

  constructor(held: HeldBytes, caller: string, stopped: string[]) {
    this.account = held.open(caller, {
      stopOldest: (_, since) => {
        const all = [...this.#shares].filter(([, { bytes }]) => bytes > 0);
        const [oldest] = all.sort(([, a], [, b]) => a.progress - b.progress);
        if (!oldest || since !== undefined && oldest[1].progress > since) return false;
        stopped.push(`${caller} ${oldest[0]}`);
        oldest[1].release(oldest[1].bytes);
        return true;
      },
    });
  }

  share(name: string): HeldShare {
    const share = this.#shares.get(name) ?? new HeldShare(this.account);
    this.#shares.set(name, share);
    return share;
  }
}

function rig(limitBytes: number) {
  const held = new HeldBytes(limitBytes);
  const stopped: string[] = [];
  return { held, stopped, connection: (caller: string) => new Connection(held, caller, stopped) };
}

test("HeldBytes stops the exchange without progress on a connection that holds more than a half", async () => {
  const { held, stopped, connection } = rig(800);
  const [greedy, other] = [connection("greedy"), connection("other")];
  other.share("slow").hold(150);
  for (const name of ["a", "b", "c"]) greedy.share(name).hold(120);
  greedy.share("a").release(10);
  await Promise.resolve();
  assert.deepEqual(stopped, []);
  greedy.share("d").hold(60);
  // Nothing is stopped within the call that holds bytes.
  assert.deepEqual([stopped, held.bytes], [[], 560]);
  await Promise.resolve();
  assert.deepEqual([stopped, greedy.account.bytes, held.bytes], [["greedy b"], 290, 440]);
});

test("HeldAccount.lend() limits the octets lent to one connection, until takeBack()", () => {
  const held = new HeldBytes(1_600);
  const [one, other] = [held.open("one"), held.open("other")];
  assert.deepEqual([one.lend(100), one.lend(1), other.lend(100)], [true, false, true]);
  one.takeBack(100);
  other.hold(201);
  assert.equal(one.lend(1), false);
  other.release(1);
  assert.equal(one.lend(100), true);
});

test("HeldBytes stops exchanges of the largest connection of the caller with the most bytes", async () => {
  const { held, stopped, connection } = rig(1_000);
  const large = connection("large");
  for (const name of ["a", "b"]) large.share(name).hold(120);
  // Each connection is smaller than the one above; together they hold more.
  const many = Array.from({ length: 6 }, () => connection("many"));
  for (const [at, one] of many.entries()) one.share(`m${at}`).hold(110 + at);
  assert.deepEqual(stopped, []);
  connection("small").share("s").hold(100);
  await Promise.resolve();
  assert.deepEqual([stopped, held.bytes], [["many m5", "many m4"], 786]);
});

test("HeldBytes forgets callers whose bytes were released", async () => {
  const { held, stopped, connection } = rig(100);
  for (let turn = 0; turn < 100; turn++) {
    const share = connection(`caller ${turn}`).share("a");
    share.hold(24);
    share.release(24);
  }
  connection("last").share("a").hold(20);
  await Promise.resolve();
  assert.deepEqual([held.bytes, stopped], [20, []]);
});

test("HeldBytes is strained above a half, and then every account is tight", () => {
  const { held, connection } = rig(800);
  const accounts = ["a", "b", "c", "d"].map((name) => connection(name).account);
  const [first, , , last] = accounts;
  for (const account of accounts.slice(0, 3)) account.hold(100);
  assert.deepEqual([held.isStrained, first?.isLarge, first?.isTight], [false, false, false]);
  first?.hold(1);
  assert.deepEqual([first?.isLarge, first?.isTight, last?.isTight], [true, true, false]);
  accounts[1]?.hold(100);
  assert.deepEqual([held.isStrained, last?.isLarge, last?.isTight], [true, false, true]);
});

test("HeldAccount.endStuck() ends exchanges without progress, sooner if more is held", () => {
  for (
    const [name, bytes, turns, want] of [
      ["little, for long", 30, 20, []],
      ["much, for less than five turns", 60, 4, []],
      ["much, for five turns", 60, 5, ["caller a", "caller b"]],
      ["too much, for one turn", 80, 1, []],
      ["too much, for two turns", 80, 2, ["caller a"]],
    ] as const
  ) {
    const { held, stopped, connection } = rig(800);
    const it = connection("caller");
    for (const share of ["a", "b", "c"]) it.share(share).hold(bytes);
    for (let turn = 0; turn < turns; turn++) {
      held.turn();
      it.account.endStuck();
      it.share("c").release(1);
      it.share("c").hold(1);
    }
    assert.deepEqual(stopped, want, name);
  }
});

test("HeldShare.holdRead() collects garbage only while much is held", () => {
  let collected = 0;
  const held = new HeldBytes(800, () => void collected++);
  const share = new HeldShare(held.open("web"));
  for (let turn = 0; turn < 100; turn++) {
    share.holdRead(50);
    share.release(50);
  }
  assert.equal(collected, 0);
  share.hold(101);
  for (let turn = 0; turn < 10; turn++) {
    share.holdRead(50);
    share.release(50);
  }
  // The first collection is due at once: 5,000 bytes were read before.
  assert.equal(collected, 5);
});
