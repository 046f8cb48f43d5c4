import assert from "node:assert/strict";
import { test } from "node:test";
import * as commands from "../command_line/command_flags.ts";
import { ENVOY_FLAGS } from "../command_line/args_envoy.ts";
import { DATAPLANE_FLAGS } from "../consul_dataplane/flags.ts";
import { readFlagTable } from "./parse_flags.ts";
import { PROXY_FLAGS } from "./proxy_flags.ts";

for (
  const [row, want] of [
    ["-stale\n      Any server.", { name: "stale", kind: "switch", keys: [], help: "Any server." }],
    [
      "-login-meta KEY=VALUE ... {login.meta map}\n      May be\n      repeated. [$META1 to 9]",
      {
        name: "login-meta",
        kind: "list",
        value: "KEY=VALUE",
        keys: ["login.meta"],
        inFile: "map",
        help: "May be repeated. [$META1 to 9]",
      },
    ],
    [
      "-port PORT [$DP_PORT]\n      {a.port|b.port number} (default: 80, or a free one)\n      [host]:port.",
      {
        name: "port",
        kind: "text",
        value: "PORT",
        env: "DP_PORT",
        keys: ["a.port", "b.port"],
        inFile: "number",
        byDefault: "80, or a free one",
        help: "[host]:port.",
      },
    ],
    [
      "-on [$ON] (default: true)\n      It is on.",
      { name: "on", kind: "switch", env: "ON", keys: [], byDefault: "true", help: "It is on." },
    ],
  ] as const
) {
  test(`readFlagTable() reads ${row.split("\n")[0]}`, () => {
    assert.deepEqual(readFlagTable(`\nTitle (of a group)\n  ${row}\nNext\n  -x\n      X.\n`), [
      { title: "Title (of a group)", flags: [want] },
      { title: "Next", flags: [{ name: "x", kind: "switch", keys: [], help: "X." }] },
    ]);
  });
}

for (
  const [name, groups] of Object.entries({ ...commands, PROXY_FLAGS, DATAPLANE_FLAGS })
) {
  test(`every row of ${name} has a unique name and a help text`, () => {
    const flags = groups.flatMap(({ flags }) => flags);
    assert.equal(new Set(flags.map(({ name }) => name)).size, flags.length);
    for (const { name, help } of flags) {
      assert.match(name, /^[a-zA-Z][a-z-]*$/);
      assert.match(help, /^[^\s[{(].*\S$/);
    }
  });
}

test("ENVOY_FLAGS has 26 flags", () => assert.equal(ENVOY_FLAGS.length, 26));
