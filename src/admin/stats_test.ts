import { strict as assert } from "node:assert";
import { test } from "node:test";
import { FakeClock } from "../../test/kit/clock/clock.ts";
import { lineFilter } from "./stats.ts";

test("lineFilter() throws when it runs too long, and refuses a pattern that is too large", async () => {
  const clock = new FakeClock();
  const wanted = await lineFilter("(a|b)+$", clock);
  assert.equal(wanted?.("x{y=ab"), true);
  await clock.advance(501);
  assert.throws(() => wanted?.("x{y=ab"), /takes too long/);
  assert.equal(await lineFilter("(a{1,500}){1,100}", clock), undefined);
});
