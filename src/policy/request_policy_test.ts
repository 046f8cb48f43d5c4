import assert from "node:assert/strict";
import { before, test } from "node:test";
import { prepareRegexes } from "../base/mod.ts";
import type { ServiceId } from "../identity/mod.ts";
import {
  authorize,
  type Intention,
  type IntentionPolicy,
  type Source,
  withoutTenancy,
} from "./intention.ts";
import type { JudgedRequest, Permission } from "./permission.ts";
import { compilePolicy, policyNeedsRegexes } from "./request_policy.ts";

before(prepareRegexes);

const WEB: ServiceId = {
  trustDomain: "td.consul",
  partition: "default",
  namespace: "default",
  datacenter: "dc1",
  service: "web",
};
const SOURCE: Source = { id: WEB, uri: "" };

function intention(name: string, said: Partial<Intention>): Intention {
  const precedence = name === "*" ? 8 : 9;
  const { action = "permissions" } = said;
  return {
    rule: `default/${name} => default/db (precedence ${precedence}, ${action})`,
    source: { name, namespace: "default", partition: "default", peer: "" },
    precedence,
    ...said,
    action,
  };
}

function permission(action: Permission["action"], prefix: string, more = {}): Permission {
  const path = { kind: "prefix", value: prefix } as const;
  return { action, path, methods: [], headers: [], ...more };
}

function get(path: string): JudgedRequest {
  const plain = { scheme: "https", authority: "db", upgrade: "", length: 0, fields: [] };
  return { method: "GET", path, saysLength: false, ...plain };
}

const LAYERED = intention("web", {
  permissions: [
    permission("allow", "/admin/health"),
    permission("deny", "/admin", { methods: ["GET"] }),
    permission("allow", "/"),
  ],
});

for (
  const [name, intentions, defaultAction, path, want, rule] of [
    ["default", [], "allow", "/", "allow", "default allow"],
    ["default", [], "deny", "/", "deny", "default deny"],
    [
      "intention without permissions",
      [intention("web", { action: "deny" }), intention("*", { action: "allow" })],
      "allow",
      "/",
      "deny",
      "default/web => default/db (precedence 9, deny)",
    ],
    [
      "first permission",
      [LAYERED],
      "deny",
      "/admin/health",
      "allow",
      "default/web => default/db (precedence 9, permission 1: allow /admin/health*)",
    ],
    [
      "second permission",
      [LAYERED],
      "deny",
      "/admin/x",
      "deny",
      "default/web => default/db (precedence 9, permission 2: deny GET /admin*)",
    ],
    ["last permission", [LAYERED], "deny", "/x", "allow", undefined],
    [
      "default deny after permissions, not by the next intention",
      [
        intention("web", { permissions: [permission("allow", "/a")] }),
        intention("*", { action: "allow" }),
      ],
      "deny",
      "/b",
      "deny",
      "default/web => default/db (precedence 9, no permission: default deny)",
    ],
    [
      "default allow after permissions, not by the next intention",
      [
        intention("web", { permissions: [permission("deny", "/a")] }),
        intention("*", { action: "deny" }),
      ],
      "allow",
      "/b",
      "allow",
      "default/web => default/db (precedence 9, no permission: default allow)",
    ],
    [
      "intention about other sources is skipped",
      [
        intention("api", { action: "deny" }),
        intention("*", { permissions: [permission("allow", "/a")] }),
      ],
      "deny",
      "/a",
      "allow",
      undefined,
    ],
    [
      "permissions missing from stored state",
      [intention("web", {})],
      "allow",
      "/",
      "deny",
      undefined,
    ],
    [
      "demand that cannot be checked",
      [intention("web", { action: "allow", refused: "it asks for a JWT" })],
      "allow",
      "/",
      "deny",
      "default/web => default/db (precedence 9, allow): denies, since it asks for a JWT",
    ],
    [
      "demand of a permission that cannot be checked",
      [
        intention("web", {
          permissions: [permission("allow", "/a", { refused: "it asks for a JWT" })],
        }),
      ],
      "allow",
      "/a",
      "deny",
      "default/web => default/db (precedence 9, permission 1: allow /a*; denies, since it asks for a JWT)",
    ],
    [
      "$& in a path",
      [intention("web", { permissions: [permission("allow", "/$&$1")] })],
      "deny",
      "/$&$1",
      "allow",
      "default/web => default/db (precedence 9, permission 1: allow /$&$1*)",
    ],
  ] as [string, Intention[], "allow" | "deny", string, string, string | undefined][]
) {
  test(`compilePolicy() decides by ${name}: ${want}`, () => {
    const judge = compilePolicy({ intentions, defaultAction }).forSource(SOURCE);
    const verdict = judge.decide(get(path));
    assert.equal(verdict.kind, want);
    if (rule !== undefined) assert.equal(verdict.rule, rule);
    // A request allocates no result of its own.
    assert.equal(judge.decide(get(path)), verdict);
  });
}

test("compilePolicy() names the deciding permission", () => {
  const judge = compilePolicy({ intentions: [LAYERED], defaultAction: "deny" }).forSource(SOURCE);
  assert.equal(judge.kind, "per_request");
  const numbers = ["/admin/health", "/admin", "/", "*"].map((path) =>
    judge.decide(get(path)).permission
  );
  assert.deepEqual(numbers, [1, 2, 3, 0]);
});

/** A source that rules match only in part is denied by their denials, and allowed nothing. */
for (
  const [name, source] of [
    ["another letter case", { id: { ...WEB, service: "WEB" }, uri: "" }],
    ["an unexpected namespace", { id: { ...WEB, namespace: "bar" }, uri: "" }],
    ["an unexpected partition", { id: { ...WEB, partition: "foo" }, uri: "" }],
    ["one claim of several", { id: undefined, uri: "", claims: [{ id: WEB, uri: "" }] }],
  ] as [string, Source][]
) {
  test(`compilePolicy() allows nothing by permissions to ${name}`, () => {
    const rules = [LAYERED, intention("*", { action: "allow" })];
    const policy: IntentionPolicy = { intentions: withoutTenancy(rules), defaultAction: "allow" };
    assert.equal(authorize(source, policy).kind, "deny");
    const judge = compilePolicy(policy).forSource(source);
    assert.equal(judge.decide(get("/x")).kind, "deny");
    assert.match(judge.rule, /^default\/web => /);
  });
}

test("compilePolicy() keeps permissions with the rules that withoutTenancy() adds", () => {
  const policy: IntentionPolicy = { intentions: withoutTenancy([LAYERED]), defaultAction: "deny" };
  assert.equal(compilePolicy(policy).forSource(SOURCE).decide(get("/x")).kind, "allow");
  assert.equal(authorize(SOURCE, policy).kind, "deny");
});

test("policyNeedsRegexes() is true for a permission with a regex", () => {
  const regex = permission("allow", "", { path: { kind: "regex", value: "/.*" } });
  const policy = { intentions: [LAYERED], defaultAction: "deny" } as const;
  assert.equal(policyNeedsRegexes(policy), false);
  const other = intention("*", { permissions: [regex] });
  assert.equal(policyNeedsRegexes({ ...policy, intentions: [LAYERED, other] }), true);
});

const OKTA = [{ provider: "okta", claims: [{ path: ["role"], value: "admin" }] }];
const ADMIN = new Map([["okta", { role: "admin" }]]);
const DEMANDING = intention("web", {
  permissions: [
    permission("deny", "/denied", { tokens: OKTA }),
    permission("allow", "/open"),
    permission("allow", "/token", { tokens: OKTA }),
    permission("allow", "/"),
  ],
});

for (
  const [what, rule, claims, path, want] of [
    ["an allowance with its token", DEMANDING, ADMIN, "/token", "allow permission 3"],
    ["none without, whatever comes after it", DEMANDING, undefined, "/token", "deny permission 3"],
    ["none with another's", DEMANDING, new Map([["a", {}]]), "/token", "deny permission 3"],
    ["one that asks for none", DEMANDING, undefined, "/open", "allow permission 2"],
    ["a denial, whatever token it names", DEMANDING, undefined, "/denied", "deny permission 1"],
    [
      "an intention with its token",
      { ...DEMANDING, tokens: OKTA },
      ADMIN,
      "/open",
      "allow permission 2",
    ],
    ["no intention without", { ...DEMANDING, tokens: OKTA }, undefined, "/open", "deny"],
    [
      "an action with its token",
      intention("web", { action: "allow", tokens: OKTA }),
      ADMIN,
      "/",
      "allow",
    ],
    [
      "no action without",
      intention("web", { action: "allow", tokens: OKTA }),
      new Map(),
      "/",
      "deny",
    ],
  ] as const
) {
  for (const defaultAction of ["allow", "deny"] as const) {
    test(`compilePolicy() checks tokens with default ${defaultAction}: ${what}`, () => {
      const judge = compilePolicy({ intentions: [rule], defaultAction }).forSource(SOURCE);
      const { kind, permission, rule: by, isUnjudged } = judge.decide(get(path), claims);
      assert.equal(`${kind}${permission === 0 ? "" : ` permission ${permission}`}`, want);
      assert.equal(isUnjudged, false);
      assert.equal(
        /without a token of okta with role\)?$/.test(by),
        want !== "deny permission 1" && kind === "deny",
        by,
      );
      assert.equal(judge.kind, "per_request");
    });
  }
}

test("compilePolicy() denies by a denying intention, whatever token it names", () => {
  const policy: IntentionPolicy = {
    intentions: [intention("web", { action: "deny", tokens: OKTA })],
    defaultAction: "allow",
  };
  const judge = compilePolicy(policy).forSource(SOURCE);
  assert.deepEqual([judge.kind, judge.decide(get("/"), ADMIN).kind], ["deny", "deny"]);
});
