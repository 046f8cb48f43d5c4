import assert from "node:assert/strict";
import { before, test } from "node:test";
import { prepareRegexes } from "../../base/mod.ts";
import { parseFileConfig } from "./file_config.ts";
import { intentionsOf, mayHaveRegex } from "./file_intentions.ts";

before(prepareRegexes);

const BASE = {
  service: "web",
  trustDomain: "mesh.example",
  credentials: { certFile: "a", keyFile: "b", rootsFile: "c" },
  inbound: { bind: ":20000", local: "127.0.0.1:8080", protocol: "http" },
};
const OPTIONS = { file: "/etc/postern/web.json", env: {} };

function parse(intention: object) {
  return parseFileConfig(JSON.stringify({ ...BASE, intentions: [intention] }), OPTIONS);
}

function problems(intention: object): readonly string[] {
  const parsed = parse(intention);
  return parsed.kind === "valid"
    ? []
    : parsed.problems.map(({ path, message }) => `${path} ${message}`);
}

const permit = (http: unknown, more = {}) => ({
  source: "shop",
  permissions: [{ action: "allow", http, ...more }],
});

test("intentionsOf() makes of permissions what Consul's reply would be read as", () => {
  const parsed = parse({
    source: "shop",
    permissions: [
      {
        action: "allow",
        http: {
          pathExact: "/a",
          methods: ["get", "PROPFIND"],
          header: [
            { name: "X-A", present: true, invert: true },
            { name: "x-b", contains: "c", ignoreCase: true },
          ],
        },
      },
      { action: "deny", http: { pathRegex: "/r[0-9]+" } },
      { action: "allow", http: { pathPrefix: "/" } },
    ],
  });
  assert.ok(parsed.kind === "valid");
  const [intention] = intentionsOf(parsed.config);
  assert.equal(intention?.rule, "shop => web (configuration file, permissions)");
  assert.equal(intention?.action, "permissions");
  assert.deepEqual(intention?.permissions, [
    {
      action: "allow",
      path: { kind: "exact", value: "/a" },
      methods: ["GET", "PROPFIND"],
      headers: [
        { name: "x-a", kind: "present", value: "", ignoreCase: false, invert: true },
        { name: "x-b", kind: "contains", value: "c", ignoreCase: true, invert: false },
      ],
    },
    { action: "deny", path: { kind: "regex", value: "/r[0-9]+" }, methods: [], headers: [] },
    { action: "allow", path: { kind: "prefix", value: "/" }, methods: [], headers: [] },
  ]);
});

const AT = "intentions\\[0\\]";
const HTTP = `${AT}\\.permissions\\[0\\]\\.http`;

for (
  const [name, intention, want] of [
    [
      "neither action nor permissions",
      { source: "a" },
      `${AT}.action is missing, or "permissions"`,
    ],
    [
      "both",
      { ...permit({ pathPrefix: "/" }), action: "allow" },
      `${AT}.action is one too many beside "permissions"`,
    ],
    ["no permissions", { source: "a", permissions: [] }, `${AT}.permissions must not be empty`],
    ["no condition", permit({}), `${HTTP} must not be empty`],
    ["no HTTP", permit(undefined), `${HTTP} is missing`],
    ["an unknown condition", permit({ pathGlob: "/*" }), `${HTTP}.pathGlob is not known here`],
    [
      "a JWT, which nobody checks",
      permit({ pathPrefix: "/" }, { jwt: {} }),
      `${AT}.permissions\\[0\\].jwt is not known here`,
    ],
    ["two paths", permit({ pathExact: "/a", pathRegex: "/b" }), `${HTTP} has more than one path`],
    [
      "a path without a slash",
      permit({ pathPrefix: "a" }),
      `${HTTP}.pathPrefix must begin with "/"`,
    ],
    ["an empty path", permit({ pathExact: "" }), `${HTTP}.pathExact must `],
    ["a regex that is none", permit({ pathRegex: "(" }), `${HTTP} cannot be judged: .* RE2`],
    [
      "a regex of a header",
      permit({ header: [{ name: "a", regex: "(?=b)" }] }),
      `${HTTP} cannot be judged: .* RE2`,
    ],
    ["a method", permit({ methods: ["GET PUT"] }), `${HTTP}.methods\\[0\\] is no HTTP method`],
    [
      "a header without a match",
      permit({ header: [{ name: "a", present: false }] }),
      `${HTTP}.header\\[0\\] must have exactly one of`,
    ],
    [
      "a header with two",
      permit({ header: [{ name: "a", exact: "b", prefix: "c" }] }),
      `${HTTP}.header\\[0\\] must have exactly one of`,
    ],
    [
      "letter case of a regex",
      permit({ header: [{ name: "a", regex: "b", ignoreCase: true }] }),
      `${HTTP}.header\\[0\\] has ignoreCase`,
    ],
    [
      "a header of one hop",
      permit({ header: [{ name: "Connection", present: true }] }),
      `${HTTP} cannot be judged: "connection"`,
    ],
  ] as const
) {
  test(`parseFileConfig() refuses an intention with ${name}`, () => {
    const found = problems(intention);
    assert.equal(found.length, 1, found.join("\n"));
    assert.match(found[0] ?? "", new RegExp(`^${want}`));
  });
}

test("parseFileConfig() refuses permissions of a service that speaks no HTTP", () => {
  const intentions = [permit({ pathPrefix: "/" })];
  const inbound = { ...BASE.inbound, protocol: "tcp" };
  const parsed = parseFileConfig(JSON.stringify({ ...BASE, inbound, intentions }), OPTIONS);
  assert.ok(parsed.kind === "invalid");
  const [problem, ...others] = parsed.problems;
  assert.equal(problem?.path, "intentions[0].permissions");
  assert.match(problem?.message ?? "", /^needs "protocol": "http"/);
  assert.deepEqual(others, []);
});

test("mayHaveRegex() sees the word also where letters are escaped", () => {
  assert.equal(mayHaveRegex('{"pathExact": "/"}'), false);
  assert.equal(mayHaveRegex('{"pathRegex": "/"}'), true);
  assert.equal(mayHaveRegex('{"\\u0072egex": "/"}'), true);
});
