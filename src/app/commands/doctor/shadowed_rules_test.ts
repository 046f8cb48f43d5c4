import { strict as assert } from "node:assert";
import { test } from "node:test";
import type { Intention, IntentionAction, Permission } from "../../../policy/mod.ts";
import { withoutTenancy } from "../../../policy/mod.ts";
import { shadowedRules } from "./shadowed_rules.ts";

function rule(
  source: string,
  destination: string,
  action: IntentionAction,
  permissions?: readonly Permission[],
): Intention {
  return {
    rule: `default/${source} => default/${destination}`,
    source: { name: source, namespace: "default", partition: "default", peer: "" },
    action,
    ...permissions && { permissions },
    precedence: 9,
  };
}

const GET: Permission = { action: "allow", methods: ["GET"], headers: [] };
const ALL: Permission = { action: "allow", methods: [], headers: [] };
const DENY_ADMIN: Permission = {
  action: "deny",
  path: { kind: "prefix", value: "/admin" },
  methods: [],
  headers: [],
};
const EXACT: Permission = { ...DENY_ADMIN, path: { kind: "exact", value: "/admin/keys" } };
const BY_HEADER: Permission = {
  ...ALL,
  headers: [{ name: "x-a", kind: "exact", value: "1", ignoreCase: false, invert: false }],
};

for (
  const [name, intentions, want] of [
    ["another source", [rule("web", "db", "allow"), rule("shop", "db", "deny")], []],
    ["a source of any destination after any source of this one", [
      rule("*", "db", "allow"),
      rule("batch", "*", "deny"),
    ], [["default/batch => default/*", "default/* => default/db", true]]],
    ["the same outcome", [rule("*", "db", "deny"), rule("batch", "*", "deny")], [
      ["default/batch => default/*", "default/* => default/db", false],
    ]],
    [
      "a narrow permission after a wide one",
      [rule("web", "db", "permissions", [ALL, DENY_ADMIN])],
      [
        [
          "permission 2 (deny /admin*) of default/web => default/db",
          "permission 1 (allow) of default/web => default/db",
          true,
        ],
      ],
    ],
    ["an exact path below a prefix", [rule("web", "db", "permissions", [DENY_ADMIN, EXACT])], [
      [
        "permission 2 (deny /admin/keys) of default/web => default/db",
        "permission 1 (deny /admin*) of default/web => default/db",
        false,
      ],
    ]],
    ["a wide permission after narrow ones", [
      rule("web", "db", "permissions", [DENY_ADMIN, GET, BY_HEADER, ALL]),
    ], []],
    ["methods and headers that the earlier one lacks", [
      rule("web", "db", "permissions", [BY_HEADER, GET, DENY_ADMIN]),
    ], []],
  ] as const
) {
  test(`shadowedRules() of ${name}`, () => {
    const found = shadowedRules(withoutTenancy(intentions))
      .map(({ rule, by, changesOutcome }) => [rule, by, changesOutcome]);
    assert.deepEqual(found, want);
  });
}
