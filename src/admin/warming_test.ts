import { strict as assert } from "node:assert";
import { test } from "node:test";
import { warmingShown } from "../source/parts/own_credentials.ts";
import { withWarming } from "./warming.ts";

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

/** In the words of the source itself. */
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
    ["lists what waits", warmingOf("service:default/default/db"), [
      ["inbound", "listening"],
      ["service:default/default/db", "warming"],
    ]],
    ["leaves out what listens already", warmingOf("inbound"), [["inbound", "listening"]]],
    ["takes a text that it does not know", ["credentials (x)"], [
      ["inbound", "listening"],
      ["credentials", "warming"],
    ]],
    ["adds nothing where nothing waits", [], [["inbound", "listening"]]],
  ] as const
) {
  test(`withWarming() ${name}`, () => {
    const shown = withWarming([BOUND], warming).map((listener) => [listener.name, listener.state]);
    assert.deepEqual(shown, want);
  });
}
