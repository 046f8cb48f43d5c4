import assert from "node:assert/strict";
import { test } from "node:test";
import type { ServiceId } from "../identity/mod.ts";
import { authorize, type Intention, type IntentionAction, withoutTenancy } from "./intention.ts";

const WEB: ServiceId = {
  trustDomain: "td.consul",
  partition: "default",
  namespace: "default",
  datacenter: "dc1",
  service: "web",
};

function intention(
  action: IntentionAction,
  source: Partial<Intention["source"]>,
  precedence = 9,
): Intention {
  const full = { name: "web", namespace: "default", partition: "default", peer: "", ...source };
  return { rule: `${action} ${full.name}`, source: full, action, precedence };
}

for (
  const [name, intentions, defaultAction, want, rule] of [
    ["denies by default", [], "deny", "deny", "default deny"],
    ["allows by default where that is the default", [], "allow", "allow", "default allow"],
    ["allows what a rule allows", [intention("allow", {})], "deny", "allow", "allow web"],
    ["denies what a rule denies", [intention("deny", {})], "allow", "deny", "deny web"],
    [
      "lets the first match decide: an exact deny before a wildcard allow",
      [intention("deny", {}), intention("allow", { name: "*" }, 8)],
      "allow",
      "deny",
      "deny web",
    ],
    [
      "lets the first match decide: an exact allow before a wildcard deny",
      [intention("allow", {}), intention("deny", { name: "*" }, 8)],
      "deny",
      "allow",
      "allow web",
    ],
    [
      "keeps the given order, whatever the precedence",
      [intention("deny", { name: "*" }, 5), intention("allow", {}, 9)],
      "deny",
      "deny",
      "deny *",
    ],
    [
      "skips rules about other sources",
      [intention("deny", { name: "api" }), intention("allow", { name: "*" }, 8)],
      "deny",
      "allow",
      "allow *",
    ],
    [
      "ignores rules below the first match",
      [intention("permissions", {}), intention("allow", { name: "*" }, 8)],
      "allow",
      "deny",
      "permissions web",
    ],
    [
      "denies a source with permissions, also by default allow",
      [intention("permissions", {})],
      "allow",
      "deny",
      "permissions web",
    ],
    ["allows a name in its own letter case", [intention("allow", { name: "WEB" })], "deny", "deny"],
    [
      "allows a namespace in its own letter case",
      [intention("allow", { namespace: "Default" })],
      "deny",
      "deny",
    ],
    [
      "denies a name in any letter case",
      [intention("deny", { name: "WEB", namespace: "Default", partition: "DEFAULT" })],
      "allow",
      "deny",
      "deny WEB",
    ],
    ["does not match a prefix of a name", [intention("allow", { name: "we" })], "deny", "deny"],
    ["does not match a longer name", [intention("allow", { name: "web2" })], "deny", "deny"],
    ["takes a star inside a name literally", [intention("allow", { name: "w*" })], "deny", "deny"],
    [
      "compares the namespace",
      [intention("allow", { namespace: "other" })],
      "deny",
      "deny",
      "default deny",
    ],
    [
      "compares the namespace of a wildcard name",
      [intention("allow", { name: "*", namespace: "other" }, 8)],
      "deny",
      "deny",
    ],
    [
      "matches any namespace with a wildcard",
      [intention("allow", { name: "*", namespace: "*" }, 7)],
      "deny",
      "allow",
    ],
    ["compares the partition", [intention("allow", { partition: "east" })], "deny", "deny"],
    [
      "matches any partition with a wildcard",
      [intention("allow", { partition: "*" })],
      "deny",
      "allow",
    ],
    [
      "never applies a rule about a peer to a local source: allow",
      [intention("allow", { peer: "east" })],
      "deny",
      "deny",
      "default deny",
    ],
    [
      "never applies a rule about a peer to a local source: deny",
      [intention("deny", { name: "*", peer: "east" }), intention("allow", { name: "*" }, 8)],
      "deny",
      "allow",
      "allow *",
    ],
    [
      "never reads an empty name as a wildcard",
      [intention("allow", { name: "" })],
      "deny",
      "deny",
    ],
  ] as [string, Intention[], "allow" | "deny", "allow" | "deny", string?][]
) {
  test(`authorize() ${name}`, () => {
    const verdict = authorize({ id: WEB, uri: "" }, { intentions, defaultAction });
    assert.equal(verdict.kind, want);
    if (rule !== undefined) assert.equal(verdict.rule, rule);
  });
}

/**
 * Sources that claim a namespace or partition in a mesh that has none. Consul's authorize (1.22) and the RBAC
 * that it gives Envoy pin `ns/default` and no partition for every rule, so that the default decides. With
 * default allow, a denial of `web`, or of all sources, would not cover `ns/other`.
 */
for (
  const [name, rules, id, defaultAction, want] of [
    ["allow of all", [intention("allow", { name: "*" })], { namespace: "bar" }, "deny", "deny"],
    ["allow of all", [intention("allow", { name: "*" })], { partition: "foo" }, "deny", "deny"],
    ["allow", [intention("allow", {})], { namespace: "bar" }, "deny", "deny"],
    ["denial of all", [intention("deny", { name: "*" })], { namespace: "bar" }, "allow", "deny"],
    ["denial of all", [intention("deny", { name: "*" })], { partition: "foo" }, "allow", "deny"],
    ["denial", [intention("deny", {})], { namespace: "bar", partition: "foo" }, "allow", "deny"],
    ["denial", [intention("permissions", {})], { namespace: "bar" }, "allow", "deny"],
    [
      "denial of another",
      [intention("deny", { name: "api" })],
      { namespace: "b" },
      "allow",
      "allow",
    ],
    [
      "allow above a denial",
      [intention("allow", {}), intention("deny", { name: "*" }, 8)],
      { namespace: "bar" },
      "allow",
      "deny",
    ],
    ["denial in a peer", [intention("deny", { peer: "p" })], { namespace: "b" }, "allow", "allow"],
  ] as [string, Intention[], Partial<ServiceId>, "allow" | "deny", "allow" | "deny"][]
) {
  test(`withoutTenancy() decides for ${JSON.stringify(id)} by ${name}: ${want}`, () => {
    const policy = { intentions: withoutTenancy(rules), defaultAction };
    assert.equal(authorize({ id: { ...WEB, ...id }, uri: "" }, policy).kind, want);
  });
}

test("authorize() matches a source in another datacenter like a local one", () => {
  const policy = { intentions: [intention("allow", {})], defaultAction: "deny" } as const;
  assert.equal(authorize({ id: { ...WEB, datacenter: "dc2" }, uri: "" }, policy).kind, "allow");
});

for (
  const [name, pattern, uri, want] of [
    ["matches its URI", "spiffe://example.org/web", "spiffe://example.org/web", "allow"],
    ["matches no other URI", "spiffe://example.org/web", "spiffe://example.org/web2", "deny"],
    [
      "matches all URIs below a wildcard",
      "spiffe://example.org/ns/*",
      "spiffe://example.org/ns/a/b",
      "allow",
    ],
    [
      "matches no sibling of a wildcard",
      "spiffe://example.org/ns/*",
      "spiffe://example.org/nsx/a",
      "deny",
    ],
    ["does not match a source without a URI", "/*", "", "deny"],
  ] as const
) {
  test(`authorize() of a rule about a URI ${name}`, () => {
    const rule = intention("allow", { name: "*", uri: pattern });
    const policy = { intentions: [rule], defaultAction: "deny" } as const;
    assert.equal(authorize({ id: undefined, uri }, policy).kind, want);
  });
}

for (
  const [name, rule, uri, want] of [
    [
      "denies a source that is not a service by a wildcard rule",
      { name: "*" },
      "spiffe://a/web",
      "deny",
    ],
    ["denies a source without an identity by a wildcard rule", { name: "*" }, "", "deny"],
    [
      "does not apply a peer's wildcard rule to a local source",
      { name: "*", peer: "east" },
      "",
      "allow",
    ],
    ["does not apply a rule about a service to another source", { name: "web" }, "", "allow"],
    [
      "denies a URI in any letter case",
      { name: "a", uri: "spiffe://a.test/*" },
      "spiffe://A.test/Web",
      "deny",
    ],
  ] as const
) {
  test(`authorize() ${name}`, () => {
    for (const action of ["deny", "permissions"] as const) {
      const policy = { intentions: [intention(action, rule)], defaultAction: "allow" } as const;
      assert.equal(authorize({ id: undefined, uri }, policy).kind, want);
    }
  });
}

for (
  const [name, uris, want] of [
    ["the second of several", ["spiffe://b.test/x", "spiffe://a.test/web"], "deny"],
    ["a percent-encoded one", ["spiffe://b.test/x", "spiffe://a.test/%57e%62"], "deny"],
    ["none of several", ["spiffe://b.test/x", "spiffe://a.test/w%65"], "allow"],
    ["one that is not UTF-8", ["spiffe://b.test/x", "spiffe://a.test/web%ff"], "allow"],
  ] as const
) {
  test(`authorize() judges ${name} by a denial of a URI: ${want}`, () => {
    const rule = intention("deny", { name: "a", uri: "spiffe://a.test/web" });
    const policy = { intentions: [rule], defaultAction: "allow" } as const;
    const claims = uris.map((uri) => ({ id: undefined, uri }));
    assert.equal(authorize({ id: undefined, uri: "", claims }, policy).kind, want);
  });
}

test("authorize() applies a denial of a service to a certificate that has other names, too", () => {
  const policy = {
    intentions: [intention("deny", { name: "web" })],
    defaultAction: "allow",
  } as const;
  const claims = [{ id: undefined, uri: "a:b" }, { id: WEB, uri: "" }];
  assert.equal(authorize({ id: undefined, uri: "", claims }, policy).kind, "deny");
  assert.equal(authorize({ id: undefined, uri: "" }, policy).kind, "allow");
});

test("authorize() applies a denial of a URI to its percent-encoded spelling", () => {
  const rule = intention("deny", { name: "a", uri: "spiffe://a.test/*" });
  const policy = { intentions: [rule], defaultAction: "allow" } as const;
  assert.equal(authorize({ id: undefined, uri: "spiffe://%61.test/web" }, policy).kind, "deny");
});

test("authorize() allows no certificate by one URI of several", () => {
  const rules = [{ name: "a", uri: "spiffe://a.test/web" }, { name: "web" }];
  const intentions = rules.map((rule) => intention("allow", rule));
  const claims = [{ id: undefined, uri: "spiffe://a.test/web" }, { id: WEB, uri: "" }];
  const policy = { intentions, defaultAction: "deny" } as const;
  assert.equal(authorize({ id: undefined, uri: "", claims }, policy).kind, "deny");
});

test("authorize() allows a URI in its own letter case only", () => {
  const rule = intention("allow", { name: "a", uri: "spiffe://a.test/*" });
  const policy = { intentions: [rule], defaultAction: "deny" } as const;
  assert.equal(authorize({ id: undefined, uri: "spiffe://A.test/web" }, policy).kind, "deny");
});

test("authorize() allows only services by rules about services", () => {
  const policy = {
    intentions: [intention("allow", { name: "*" })],
    defaultAction: "deny",
  } as const;
  assert.equal(authorize({ id: undefined, uri: "spiffe://example.org/web" }, policy).kind, "deny");
});
