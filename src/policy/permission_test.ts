import assert from "node:assert/strict";
import { before, test } from "node:test";
import { cpuMs } from "../../test/kit/process/cpu_time.ts";
import { prepareRegexes } from "../base/mod.ts";
import {
  compilePermission,
  type HeaderMatch,
  type JudgedRequest,
  needsRegexes,
  type PathMatch,
  type Permission,
  permissionFault,
} from "./permission.ts";

before(prepareRegexes);

const ANY: Permission = { action: "allow", methods: [], headers: [] };

function request(parts: Partial<JudgedRequest> = {}): JudgedRequest {
  return {
    method: "GET",
    scheme: "https",
    authority: "db.test",
    path: "/",
    upgrade: "",
    length: 0,
    saysLength: false,
    fields: [],
    ...parts,
  };
}

function header(name: string, match: Partial<HeaderMatch>): Permission {
  const full = { kind: "exact", value: "", ignoreCase: false, invert: false, ...match } as const;
  return { ...ANY, headers: [{ name, ...full }] };
}

function withValues(...values: readonly string[]): JudgedRequest {
  const fields = values.flatMap((value) => ["x-a", value, "X-A"]);
  return request({ fields: ["x-b", "one", "X-B", ...fields] });
}

for (
  const [kind, value, yes, no] of [
    ["exact", "/a", ["/a", "/a?b", "/a?", "/a?x=/b"], ["/a/", "/A", "/ab", "/b?/a", "/", ""]],
    ["exact", "/a;v=1", ["/a;v=1"], ["/a"]],
    // A query is not part of a path, whatever a rule says about it.
    ["exact", "/a?b", [], ["/a?b", "/a"]],
    ["prefix", "/a", ["/a", "/ab", "/a/b", "/a?x"], ["/", "/b/a", "/A", "/?/a"]],
    ["prefix", "/a?", [], ["/a?b", "/a"]],
    ["prefix", "/a/", ["/a/", "/a/b"], ["/a", "/a?/"]],
    ["regex", "/r[0-9]+", ["/r1", "/r12?x"], ["/r", "/r1/", "/x/r1", "/r1x", "/x?/r1"]],
    ["regex", "/a|/ab", ["/a", "/ab"], ["/abc"]],
    ["regex", "(?i)/admin(/.*)?", ["/Admin/x", "/ADMIN"], ["/admins"]],
    ["exact", "/é", ["/\u00c3\u00a9"], ["/\u00e9", "/%C3%A9"]],
    ["exact", "*", ["*"], ["/"]],
  ] as [PathMatch["kind"], string, string[], string[]][]
) {
  test(`compilePermission() path ${kind} ${value}`, () => {
    const { covers } = compilePermission({ ...ANY, path: { kind, value } });
    for (const path of yes) assert.equal(covers(request({ path })), true, path);
    for (const path of no) assert.equal(covers(request({ path })), false, path);
  });
}

test("compilePermission() denies methods in any letter case, and allows them in their own", () => {
  for (const [action, wanted] of [["allow", false], ["deny", true]] as const) {
    const { covers } = compilePermission({ ...ANY, action, methods: ["DELETE"] });
    assert.equal(covers(request({ method: "DELETE" })), true);
    assert.equal(covers(request({ method: "delete" })), wanted);
    assert.equal(covers(request({ method: "GET" })), false);
  }
});

/** Each row was asked of Envoy 1.40 with the same match. */
for (
  const [match, yes, no] of [
    [{ kind: "present" }, [["one"], [""], ["two", "three"]], [[]]],
    [{ kind: "present", invert: true }, [[]], [["one"], [""], ["a", "b"]]],
    [{ value: "one" }, [["one"], ["one", "two"], ["two", "one"]], [
      ["One"],
      [],
      ["two"],
      ["one,two"],
      [""],
    ]],
    [{ value: "one", invert: true }, [["One"], ["two"], ["two", "three"], [""], ["one,two"]], [
      ["one"],
      [],
      ["one", "two"],
      ["two", "one"],
    ]],
    [{ value: "oNe", ignoreCase: true }, [["one"], ["ONE"]], [["two"]]],
    [{ kind: "prefix", value: "on" }, [["one"], ["one,two"], ["two", "one"]], [["One"], []]],
    [{ kind: "prefix", value: "ON", ignoreCase: true }, [["one"]], [["no"]]],
    [{ kind: "suffix", value: "ne" }, [["one"]], [["One, two"], ["nee"]]],
    [{ kind: "contains", value: "n" }, [["one"], ["One"]], [["two"], []]],
    [{ kind: "contains", value: "n", invert: true }, [["two"], [""], ["two", "three"]], [
      ["one"],
      ["two", "one"],
      [],
    ]],
    [{ kind: "regex", value: "o.e" }, [["one"], ["two", "one"]], [["One"], ["ones"], []]],
    [{ kind: "regex", value: "o.e", invert: true }, [["One"], [""]], [["one"], ["two", "one"], []]],
    [{ kind: "regex", value: ".*" }, [["one"], [""], ["a\u00e9"]], [[]]],
    [{ kind: "regex", value: "." }, [["\u00e9"]], [["\u00c3\u00a9"]]],
    [{ value: "one,two" }, [["one,two"]], [["one", "two"]]],
    [{ value: "é" }, [["\u00c3\u00a9"]], [["\u00e9"]]],
    [{ value: "É", ignoreCase: true }, [["\u00c3\u0089"]], [["\u00c3\u00a9"]]],
  ] as [Partial<HeaderMatch>, string[][], string[][]][]
) {
  test(`compilePermission() header ${JSON.stringify(match)}`, () => {
    const { covers } = compilePermission(header("x-a", match));
    for (const values of yes) assert.equal(covers(withValues(...values)), true, `${values}`);
    for (const values of no) assert.equal(covers(withValues(...values)), false, `${values}`);
  });
}

for (
  const [name, match, parts, want] of [
    ["host", { value: "db.test" }, {}, true],
    ["host", { value: "DB.test" }, {}, false],
    ["host", { kind: "present" }, { authority: "" }, false],
    [":authority", { value: "db.test" }, {}, true],
    [":path", { kind: "suffix", value: "?q=1" }, { path: "/a?q=1" }, true],
    [":method", { kind: "regex", value: "GET|POST" }, {}, true],
    [":method", { value: "GET", invert: true }, {}, false],
    [":scheme", { value: "https" }, {}, true],
    ["content-length", { value: "3" }, { length: 3, saysLength: true }, true],
    ["content-length", { value: "0" }, { length: 0, saysLength: true }, true],
    ["content-length", { value: "0" }, { length: 0 }, false],
    ["content-length", { kind: "present" }, { length: -1 }, false],
    ["content-length", { kind: "present", invert: true }, { length: -1 }, true],
    ["upgrade", { value: "WebSocket" }, { upgrade: "websocket" }, true],
    ["upgrade", { kind: "regex", value: "Web.*" }, { upgrade: "websocket" }, true],
    ["upgrade", { kind: "present" }, {}, false],
  ] as [string, Partial<HeaderMatch>, Partial<JudgedRequest>, boolean][]
) {
  test(`compilePermission() ${name} ${JSON.stringify(match)} of ${JSON.stringify(parts)}`, () => {
    const { covers } = compilePermission(header(name, match));
    // A field of that name that the caller sent is ignored.
    const fields = [name, "db.test", name, name, "3", name];
    assert.equal(covers(request({ fields, ...parts })), want);
  });
}

test("compilePermission() requires all conditions", () => {
  const { covers } = compilePermission({
    action: "allow",
    path: { kind: "prefix", value: "/a" },
    methods: ["GET", "HEAD"],
    headers: [
      { name: "x-a", kind: "exact", value: "one", ignoreCase: false, invert: false },
      { name: "x-a", kind: "exact", value: "two", ignoreCase: false, invert: false },
    ],
  });
  const right = { ...withValues("two", "one"), path: "/a" };
  assert.equal(covers(right), true);
  assert.equal(covers({ ...right, path: "/b" }), false);
  assert.equal(covers({ ...right, method: "POST" }), false);
  assert.equal(covers({ ...right, method: "get" }), false);
  assert.equal(covers({ ...withValues("one"), path: "/a" }), false);
});

for (
  const [name, broken, reason] of [
    ["an open group", { path: { kind: "regex", value: "(" } }, /not one of RE2/],
    ["a look-ahead", { path: { kind: "regex", value: "/(?!admin).*" } }, /not one of RE2/],
    ["a large regex", { path: { kind: "regex", value: "(a{50}b{50}){20}" } }, /2000/],
    ["a long regex", { path: { kind: "regex", value: "a".repeat(1001) } }, /1001 characters/],
    [
      "a regex of a header",
      { headers: header("x-a", { kind: "regex", value: "[" }).headers },
      /RE2/,
    ],
    [
      "a header of one hop",
      { headers: header("connection", { value: "x" }).headers },
      /connection/,
    ],
    ["a part that was refused when it was read", { refused: "it asks for a JWT" }, /JWT/],
  ] as [string, Partial<Permission>, RegExp][]
) {
  test(`compilePermission() with ${name} denies the requests that its other conditions cover`, () => {
    const whole: Permission = { ...ANY, methods: ["PUT"], ...broken };
    assert.match(permissionFault(whole) ?? "", reason);
    const { action, covers, text } = compilePermission(whole);
    assert.equal(action, "deny");
    assert.match(text, /^allow PUT.*denies, since /);
    assert.equal(covers(request({ method: "PUT", path: "/any" })), true);
    assert.equal(covers(request({ path: "/any" })), false);
  });
}

for (
  const [name, parts] of [
    ["path", { path: { kind: "regex", value: "(a|b)*c" } }],
    ["header", { headers: header("x-a", { kind: "regex", value: "(a|b)*c" }).headers }],
    ["inverted header", {
      headers: header("x-a", { kind: "regex", value: "(a|b)*c", invert: true }).headers,
    }],
  ] as [string, Partial<Permission>][]
) {
  test(`compilePermission() decides against a request that is too long to match: ${name}`, () => {
    const long = `${"a".repeat(9_000)}c`;
    const asked = { ...withValues(long), path: long };
    assert.equal(compilePermission({ ...ANY, ...parts }).covers(asked), false);
    assert.equal(compilePermission({ ...ANY, ...parts, action: "deny" }).covers(asked), true);
  });
}

test("compilePermission() matches all values of a header together", () => {
  const match = header("x-a", { kind: "regex", value: "(a|b)*c" });
  const values = Array.from({ length: 10 }, () => "a".repeat(900));
  const asked = withValues(...values, "c");
  assert.equal(compilePermission(match).covers(asked), false);
  assert.equal(compilePermission({ ...match, action: "deny" }).covers(asked), true);
  assert.equal(compilePermission(match).covers(withValues(...values.slice(5), "c")), true);
});

test("compilePermission() limits the cost of one value by the size of its regex", () => {
  // Its automaton has states for 500 characters, which cannot be computed beforehand.
  const { covers } = compilePermission({ ...ANY, path: { kind: "regex", value: ".*a.{500}" } });
  let state = 1;
  const noise = Array.from({ length: 8_000 }, () => {
    state = state * 48_271 % 2_147_483_647;
    return state & 1 ? "a" : "b";
  }).join("");
  const startMs = cpuMs();
  assert.equal(covers(request({ path: noise })), false);
  covers(request({ path: noise.slice(0, 900) }));
  assert.ok(cpuMs() - startMs < 1_000);
});

for (const value of ["(a+)+b", "(a|a?)+c", "(.*.*.*)*d", "(a*)*b", "(x+x+)+y"]) {
  test(`compilePermission() takes linear time for ${value}`, () => {
    const { covers } = compilePermission({ ...ANY, path: { kind: "regex", value } });
    const startMs = cpuMs();
    for (const letter of ["a", "x"]) {
      assert.equal(covers(request({ path: letter.repeat(8_000) })), false);
    }
    assert.ok(cpuMs() - startMs < 1_000);
  });
}

for (
  const [permission, want] of [
    [{ ...ANY }, "allow"],
    [
      { ...ANY, action: "deny", methods: ["GET"], path: { kind: "prefix", value: "/admin" } },
      "deny GET /admin*",
    ],
    [
      { ...ANY, methods: ["GET", "PUT"], path: { kind: "regex", value: "/r.*" } },
      "allow GET|PUT ~/r.*",
    ],
    // The value may be a secret.
    [header("x-key", { value: "hunter2" }), "allow with x-key"],
  ] as [Permission, string][]
) {
  test(`compilePermission() describes it as "${want}"`, () => {
    assert.equal(compilePermission(permission).text, want);
  });
}

test("needsRegexes() is true of paths and headers with a regex", () => {
  assert.equal(needsRegexes([ANY, { ...ANY, path: { kind: "exact", value: "/" } }]), false);
  assert.equal(needsRegexes([ANY, { ...ANY, path: { kind: "regex", value: "/" } }]), true);
  assert.equal(needsRegexes([header("x-a", { kind: "regex", value: "a" })]), true);
});

/** Against the plainest reading of the rule, over what can be put together of little. */
test("compilePermission() of paths agrees with a naive implementation", () => {
  const pieces = ["/", "a", "b", "?", "/a", "."];
  const paths = pieces.flatMap((one) =>
    pieces.flatMap((two) => pieces.map((three) => `/${one}${two}${three}`))
  );
  const values = [...new Set(paths.map((path) => path.slice(0, 3)))];
  for (const value of values) {
    const escaped = value.replace(/[.?]/g, "\\$&");
    const naive: Record<PathMatch["kind"], (path: string) => boolean> = {
      exact: (path) => path === value,
      prefix: (path) => path.indexOf(value) === 0,
      regex: (path) => new RegExp(`^(?:${escaped}.*b)$`).test(path),
    };
    for (const kind of ["exact", "prefix", "regex"] as const) {
      const pattern = kind === "regex" ? `${escaped}.*b` : value;
      const { covers } = compilePermission({ ...ANY, path: { kind, value: pattern } });
      for (const path of paths) {
        const [bare = ""] = path.split("?");
        assert.equal(covers(request({ path })), naive[kind](bare), `${kind} ${pattern}: ${path}`);
      }
    }
  }
});
