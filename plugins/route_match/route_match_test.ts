import assert from "node:assert/strict";
import { test } from "node:test";
import { compileRegex, prepareRegexes } from "../../src/base/mod.ts";
import { addField, type Fields, type RequestHead } from "../../src/http/head.ts";
import type { FindRoute, Host, Route, RouteMatch, ValueMatch } from "../../src/plugin/api.ts";
import { PluginRequest } from "../../src/plugin/mod.ts";
import routeMatch from "./route_match.ts";

const ANY: RouteMatch = { path: null, ignoreCase: false, methods: [], headers: [], query: [] };

type Given = Partial<Omit<RouteMatch, "path">> & {
  readonly exact?: string;
  readonly prefix?: string;
  readonly regex?: string;
};

function matchOf({ exact, prefix, regex, ...rest }: Given): RouteMatch {
  const paths: RouteMatch["path"][] = [
    exact === undefined ? null : { kind: "exact", value: exact },
    prefix === undefined ? null : { kind: "prefix", value: prefix },
    regex === undefined ? null : { kind: "regex", value: regex },
  ];
  return { ...ANY, ...rest, path: paths.find((path) => path !== null) ?? null };
}

function value(name: string, kind: ValueMatch["kind"], text = "", rest: Partial<ValueMatch> = {}) {
  return { name, kind, value: text, ignoreCase: false, invert: false, ...rest };
}

async function finderOf(...matches: readonly (Given | null)[]): Promise<FindRoute> {
  await prepareRegexes();
  const host = {
    regex(pattern: string) {
      const compiled = compileRegex(pattern);
      if (compiled.kind === "refused") return Promise.reject(new Error(compiled.reason));
      return Promise.resolve((text: string) => compiled.regex.test(text));
    },
  } as unknown as Host;
  const routes = matches.map((match, index): Route => ({
    name: String(index),
    service: "",
    match: match && matchOf(match),
  }));
  const plugin = routeMatch.create(host);
  const find = await plugin.onRoutes?.(routes);
  assert.ok(find);
  return find;
}

function request(path: string, fields: Fields = [], method = "GET"): PluginRequest {
  const head: Partial<RequestHead> = { method, path, fields, authority: "db", scheme: "http" };
  return new PluginRequest(head as RequestHead, null);
}

test("route_match matches an announced content-length", async () => {
  const find = await finderOf({ headers: [value("Content-Length", "exact", "2")] });
  const post = request("/", [], "POST");
  const [two, three] = ["ab", "abc"].map((body) => post.with({ body }));
  const found = [post, two, three].map((sent) => sent && find(sent) !== undefined);
  assert.deepEqual(found, [false, true, false]);
});

/** Parses `x-a:1 x-b:2`. */
function fieldsOf(text: string): Fields {
  const fields: Fields = [];
  for (const field of text.split(" ")) {
    const [name = "", value = ""] = field.split(":");
    addField(fields, name, value);
  }
  return fields;
}

for (
  const [name, given, wanted, others] of [
    ["an exact path", { exact: "/a" }, ["/a", "/a?x", "/a#y"], ["/a/", "/A", "/b", "/"]],
    ["a prefix of bytes", { prefix: "/a" }, ["/a", "/ab", "/a/b?c"], ["/", "/b/a", "/?/a"]],
    ["an exact path in any case", { exact: "/Ab", ignoreCase: true }, ["/aB", "/Ab"], ["/abc"]],
    ["a prefix in any case", { prefix: "/Ab", ignoreCase: true }, ["/aBc", "/AB"], ["/a"]],
    ["all of a path by a regex", { regex: "/v[0-9]+" }, ["/v1", "/v22?q"], [
      "/v1/x",
      "/v",
      "/a/v1",
    ]],
    [
      "a regex case-sensitively, despite ignoreCase",
      { regex: "/v", ignoreCase: true },
      ["/v"],
      ["/V"],
    ],
    [
      "a present parameter",
      { query: [value("a", "present")] },
      ["/?a", "/?a=", "/?b&a=1"],
      ["/", "/?b=a", "/a", "/?aa"],
    ],
    [
      "the raw value of the first parameter of a name",
      { query: [value("a", "exact", "1")] },
      ["/?a=1", "/?a=1&a=2", "/?a=1#f"],
      ["/?a=2&a=1", "/?a", "/?a=%31"],
    ],
    [
      "all of a parameter by a regex",
      { query: [value("a", "regex", "[0-9]+")] },
      ["/?a=12"],
      ["/?a=1b", "/?a="],
    ],
    [
      "all conditions together",
      { prefix: "/a", query: [value("b", "present")] },
      ["/a?b"],
      ["/a", "/?b"],
    ],
  ] as [string, Given, string[], string[]][]
) {
  test(`route_match matches ${name}`, async () => {
    const find = await finderOf(given);
    for (const path of wanted) assert.equal(find(request(path))?.name, "0", path);
    for (const path of others) assert.equal(find(request(path)), undefined, path);
  });
}

for (
  const [name, match, wanted, others] of [
    ["is present", value("X-A", "present"), ["x-a:", "x-a:1"], ["x-b:1"]],
    ["is absent", value("x-a", "present", "", { invert: true }), ["x-b:1"], ["x-a:"]],
    ["is equal", value("x-a", "exact", "b"), ["x-a:b"], ["x-a:bb", "x-a:B", "x-b:b"]],
    ["has the prefix", value("x-a", "prefix", "b"), ["x-a:bc"], ["x-a:cb"]],
    ["has the suffix", value("x-a", "suffix", "b"), ["x-a:cb"], ["x-a:bc"]],
    ["contains the text", value("x-a", "contains", "b"), ["x-a:cbc"], ["x-a:c"]],
    ["matches a regex as a whole", value("x-a", "regex", "b+"), ["x-a:bb"], ["x-a:bbc", "x-a:"]],
    ["is equal in any case", value("x-a", "exact", "B", { ignoreCase: true }), ["x-a:b"], [
      "x-a:c",
    ]],
    ["is present and not equal", value("x-a", "exact", "b", { invert: true }), ["x-a:c"], [
      "x-a:b",
      "x-b:c",
    ]],
    ["is one of several", value("x-a", "prefix", "b"), ["x-a:b x-a:c", "x-a:c x-a:bd"], ["x-a:c"]],
    ["is one field with commas, not several fields", value("x-a", "exact", "b,c"), ["x-a:b,c"], [
      "x-a:b x-a:c",
    ]],
    [
      "is several fields, none equal",
      value("x-a", "exact", "b", { invert: true }),
      ["x-a:c x-a:d"],
      [
        "x-a:c x-a:b",
      ],
    ],
    ["is Host", value("Host", "exact", "db"), ["x-b:1"], []],
    ["is the method", value(":method", "exact", "GET"), ["x-b:1"], []],
  ] as [string, ValueMatch, string[], string[]][]
) {
  test(`route_match matches a header that ${name}`, async () => {
    const find = await finderOf({ headers: [match] });
    const found = (text: string) => find(request("/", fieldsOf(text)))?.name;
    for (const text of wanted) assert.equal(found(text), "0", text);
    for (const text of others) assert.equal(found(text), undefined, text);
  });
}

test("route_match matches one of several methods", async () => {
  const find = await finderOf({ methods: ["GET", "PUT"] });
  const found = (method: string) => find(request("/", [], method)) !== undefined;
  assert.deepEqual(["GET", "PUT", "POST", "get"].map(found), [true, true, false, false]);
});

test("route_match picks the first matching route, whatever its kind", async () => {
  const header = { headers: [value("x-a", "present")] };
  const find = await finderOf(
    { prefix: "/a/b", ...header },
    { regex: "/a/.*", methods: ["PUT"] },
    { exact: "/a/b/c", methods: ["POST"] },
    { prefix: "/A", ignoreCase: true, methods: ["DELETE"] },
    { prefix: "/a" },
    { exact: "/a/b/c" },
    { prefix: "/a/b" },
    null,
    { exact: "/never" },
  );
  const found = (path: string, method = "GET", fields: Fields = []) =>
    find(request(path, fields, method))?.name;
  assert.deepEqual(
    [
      found("/a/b/c", "PUT", fieldsOf("x-a:")),
      found("/a/b/c", "PUT"),
      found("/a/b/c", "POST"),
      found("/a/b/c", "DELETE"),
      found("/a/b/c"),
      found("/b"),
      found("/never"),
    ],
    ["0", "1", "2", "3", "4", "7", "7"],
  );
});

test("route_match finds no route if none matches", async () => {
  assert.equal((await finderOf({ exact: "/a" }))(request("/b")), undefined);
});

test("route_match agrees with a linear search", async () => {
  const words = ["/", "/a", "/a/b", "/ab", "/b", "/b/a"];
  const given = Array.from({ length: 60 }, (_, index): Given => {
    const path = words[index * 7 % words.length] ?? "";
    const methods = index % 3 === 0 ? [] : [["GET", "PUT", "POST"][index % 7 % 3] ?? ""];
    return index % 2 === 0 ? { exact: path, methods } : { prefix: path, methods };
  }).slice(12);
  const find = await finderOf(...given);
  for (const path of [...words, "/a/b/c", "/c"]) {
    for (const method of ["GET", "PUT", "POST", "HEAD"]) {
      const slow = given.findIndex(({ exact, prefix = "-", methods = [] }) =>
        (exact === path || path.startsWith(prefix)) &&
        (methods.length === 0 || methods.includes(method))
      );
      assert.equal(
        find(request(path, [], method))?.name ?? "-1",
        String(slow),
        `${method} ${path}`,
      );
    }
  }
});

test("route_match refuses an invalid regex", async () => {
  await assert.rejects(finderOf({ regex: "(" }), /not one of RE2/);
});
