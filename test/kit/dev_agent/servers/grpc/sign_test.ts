import assert from "node:assert/strict";
import { test } from "node:test";
import { FakeClock } from "../../../clock/clock.ts";
import { SigningPace } from "./sign.ts";

test("SigningPace.turn() lets so many requests through in a second and refuses those that would wait over half of one", async () => {
  const clock = new FakeClock();
  const pace = new SigningPace(clock, 50);
  let through = 0;
  const refused: unknown[] = [];
  const turns = Array.from(
    { length: 300 },
    () => pace.turn().then(() => through++, (error) => refused.push(error)),
  );
  await clock.advance(99);
  assert.equal(through, 5);
  await clock.advance(401);
  await Promise.all(turns);
  assert.equal(through, 26);
  assert.equal(refused.length, 274);
  assert.match(String(refused[0]), /Rate limit reached, try again later/);
  await clock.advance(20);
  await pace.turn();
});
