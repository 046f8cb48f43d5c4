import { strict as assert } from "node:assert";
import { test } from "node:test";
import { warmingShown } from "../source/parts/own_credentials.ts";
import { withWarming } from "./merge.ts";

const BOUND = {
  name: "inbound",
  direction: "inbound",
  address: "0.0.0.0:21000",
  protocol: "tcp",
  state: "listening",
  error: "",
  fault: "",
  warnings: [],
  connections: 1,
} as const;

/** Texts as the snapshot source writes them. */
function warmingOf(...keys: readonly string[]): readonly string[] {
  return warmingShown({
    certificates: {},
    validations: {},
    ownCredentials: {},
    warming: new Map(keys.map((key) => [key, ["a (b)", "c"]])),
  });
}

for (
  const [name, warming, want] of [
    ["adds a listener that warms", warmingOf("service:default/default/db"), [
      ["inbound", "listening"],
      ["service:default/default/db", "warming"],
    ]],
    ["does not add a listener that is bound", warmingOf("inbound"), [["inbound", "listening"]]],
    ["adds the first word of an unknown text", ["credentials (x)"], [
      ["inbound", "listening"],
      ["credentials", "warming"],
    ]],
    ["adds nothing when nothing warms", [], [["inbound", "listening"]]],
  ] as const
) {
  test(`withWarming() ${name}`, () => {
    const shown = withWarming([BOUND], warming).map((listener) => [listener.name, listener.state]);
    assert.deepEqual(shown, want);
  });
}
