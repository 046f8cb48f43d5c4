import { strict as assert } from "node:assert";
import { test } from "node:test";
import { parseCommand } from "./args.ts";
import { shownOptions } from "./shown_options.ts";

test("shownOptions() leaves the token out", () => {
  const command = parseCommand(
    ["proxy", "-sidecar-for", "web", "-token", "secret-1", "-http-addr", "127.0.0.1:8500"],
    {},
  );
  if (command.kind !== "proxy") assert.fail();
  const text = JSON.stringify(shownOptions(command.options));
  assert.ok(!text.includes("secret-1"));
  assert.match(text, /"httpAddr":"127.0.0.1:8500","tokenGiven":true/);
  assert.match(text, /"drainTimeoutMs":8000/);
});
