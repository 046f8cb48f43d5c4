import assert from "node:assert/strict";
import { test } from "node:test";
import { Acl } from "./acl.ts";
import { parseRules } from "./acl_rules.ts";

function bearer(rules: string, defaultPolicy: "allow" | "deny" = "deny") {
  const acl = new Acl({ defaultPolicy });
  acl.addPolicy("these", rules);
  acl.add({ secretId: "s" }, ["these"]);
  const authorizer = acl.authorizer("s");
  if (!authorizer) throw new Error("the token is unknown");
  return authorizer;
}

for (
  const [rules, resource, access, segment, want] of [
    ['service "web" { policy = "write" }', "service", "read", "web", true],
    ['service "web" { policy = "read" }', "service", "write", "web", false],
    ['service "web" { policy = "write" }', "service", "read", "web2", false],
    ['service_prefix "w" { policy = "read" }', "service", "read", "web", true],
    // The longest prefix decides, an exact name before any prefix.
    [
      'service_prefix "" { policy = "read" }\nservice_prefix "we" { policy = "deny" }',
      "service",
      "read",
      "web",
      false,
    ],
    [
      'service_prefix "" { policy = "deny" }\nservice "web" { policy = "read" }',
      "service",
      "read",
      "web",
      true,
    ],
    ['service "web" { policy = "read" }', "intention", "read", "web", true],
    ['service "web" { policy = "write" }', "intention", "write", "web", false],
    ['service "web" { policy = "read" intentions = "write" }', "intention", "write", "web", true],
    ['service "web" { policy = "write" intentions = "deny" }', "intention", "read", "web", false],
    ['service "web" { policy = "read" }', "intention", "read", "*", true],
    ['operator = "write"', "operator", "read", "", true],
    ['mesh = "read"', "mesh", "write", "", false],
    ['node_prefix "" { policy = "read" }', "node", "read", "n1", true],
  ] as const
) {
  test(`a token with ${rules.replaceAll("\n", " ")} may ${want ? "" : "not "}${resource}:${access} "${segment}"`, () => {
    assert.equal(bearer(rules).allows(resource, access, segment), want);
  });
}

test("without a rule the default policy decides; an unknown token has no rights at all", () => {
  assert.equal(bearer("", "allow").allows("service", "write", "web"), true);
  assert.equal(bearer("", "deny").allows("service", "read", "web"), false);
  assert.equal(new Acl({ defaultPolicy: "allow" }).authorizer("nobody"), undefined);
});

test("parseRules() refuses unknown rules", () => {
  for (const text of ['service web { policy = "read" }', 'service "web" { policy = "all" }', "x"]) {
    assert.throws(() => parseRules(text), /Failed to parse ACL rules/);
  }
});
