/** Which route of a service-router takes a request: every kind of match, and their order. */

import { type Area, type Case, get } from "../case.ts";
import type { WrittenRequest } from "../../kit/wire/send_request.ts";
import type { Json } from "../../kit/mesh/mixed_mesh.ts";

/** Requests that it takes, and some that it leaves to the last route. */
type Row = readonly [
  name: string,
  match: Json,
  taken: readonly Partial<WrittenRequest>[],
  left: readonly Partial<WrittenRequest>[],
];

const paths = (...all: readonly string[]) => all.map((path) => get(path));
const put = (path: string): Partial<WrittenRequest> => ({ path, method: "PUT" });

/** Each kind of match of a header, on a path of its own. */
function header(
  name: string,
  match: Json,
  taken: readonly (readonly string[])[],
  left: readonly (readonly string[])[],
): Row {
  const path = `/header/${name.replaceAll(" ", "-")}/`;
  const asks = (all: readonly (readonly string[])[]) =>
    all.map((values) => get(path, ...values.map((value) => `x-a: ${value}`)));
  return [
    `header ${name}`,
    { PathPrefix: path, Header: [{ Name: "x-a", ...match }] },
    asks(taken),
    asks(left),
  ];
}

const ROWS: readonly Row[] = [
  [
    "PathExact",
    { PathExact: "/exact" },
    paths("/exact", "/exact?q=1", "/exact?"),
    paths("/exact/", "/Exact", "/exac", "/%65xact", "//exact", "/exact;v=1", "/x/../exact"),
  ],
  [
    "PathPrefix",
    { PathPrefix: "/prefix" },
    paths("/prefix", "/prefix/", "/prefixed", "/prefix?q", "/prefix/../x"),
    paths("/Prefix", "/a/prefix", "//prefix", "/prefi"),
  ],
  ["PathPrefix with an end", { PathPrefix: "/dir/" }, paths("/dir/", "/dir/a"), paths("/dir")],
  [
    "PathRegex",
    { PathRegex: "/regex/[0-9]+(/.*)?" },
    paths("/regex/1", "/regex/12/a", "/regex/1?q=2"),
    paths("/regex/a", "/regex/", "/x/regex/1", "/regex/1a"),
  ],
  [
    "PathRegex with alternatives",
    { PathRegex: "/either|/or/.+" },
    paths("/either", "/or/a"),
    paths("/either/a", "/or/", "/x/or/a"),
  ],
  [
    "CaseInsensitive exact",
    { PathExact: "/CaSe", CaseInsensitive: true },
    paths("/case", "/CASE"),
    paths("/case/"),
  ],
  [
    "CaseInsensitive prefix",
    { PathPrefix: "/aNy/", CaseInsensitive: true },
    paths("/any/a", "/ANY/"),
    paths("/any"),
  ],
  ["Methods", { PathPrefix: "/methods", Methods: ["PUT", "DELETE"] }, [
    put("/methods"),
    { path: "/methods", method: "DELETE" },
  ], [get("/methods"), { path: "/methods", method: "POST" }]],
  header("Present", { Present: true }, [["1"], [""], ["1", "2"]], [[]]),
  header("Present Invert", { Present: true, Invert: true }, [[]], [["1"], [""]]),
  header("Exact", { Exact: "one" }, [["one"], [" one "], ["one", "two"], ["two", "one"]], [
    ["One"],
    ["oneone"],
    [],
    [""],
    ["two", "three"],
  ]),
  header("Exact with a comma", { Exact: "one,two" }, [["one,two"]], [["one", "two"], ["one"]]),
  header("Regex over several", { Regex: "one.+two" }, [["one,two"]], [["one", "two"]]),
  header("Prefix of several", { Prefix: "one" }, [["one", "two"], ["two", "one"]], [["two"]]),
  header("Suffix of several", { Suffix: "two" }, [["one", "two"], ["two", "one"]], [["one"]]),
  header("Exact Invert", { Exact: "one", Invert: true }, [["two"], [""], ["two", "three"]], [
    ["one"],
    [],
    ["one", "two"],
    ["two", "one"],
  ]),
  header("Prefix", { Prefix: "on" }, [["one"], ["on"]], [["One"], ["xon"], []]),
  header("Prefix Invert", { Prefix: "on", Invert: true }, [["two"]], [["one"], []]),
  header("Suffix", { Suffix: "ne" }, [["one"], ["ne"]], [["nee"], []]),
  header("Suffix Invert", { Suffix: "ne", Invert: true }, [["two"]], [["one"], []]),
  header("Regex", { Regex: "o.e|[0-9]{3}" }, [["one"], ["123"]], [["xone"], ["1234"], []]),
  header("Regex Invert", { Regex: "o.e", Invert: true }, [["two"], ["xone"]], [["one"], []]),
  [
    "two headers",
    {
      PathPrefix: "/both",
      Header: [{ Name: "x-a", Exact: "1" }, { Name: "X-B", Present: true }],
    },
    [get("/both", "x-a: 1", "x-b: 2")],
    [get("/both", "x-a: 1"), get("/both", "x-b: 2")],
  ],
  [
    "the authority as a header",
    {
      PathPrefix: "/authority",
      Header: [{ Name: ":authority", Exact: "app.test" }],
    },
    paths("/authority"),
    [],
  ],
  [
    "host as a header",
    {
      PathPrefix: "/host",
      Header: [{ Name: "host", Prefix: "app." }],
    },
    paths("/host"),
    [],
  ],
  [
    "the method as a header",
    {
      PathPrefix: "/pseudo",
      Header: [{ Name: ":method", Exact: "PUT" }],
    },
    [put("/pseudo")],
    paths("/pseudo"),
  ],
  [
    "a cookie as a header",
    {
      PathPrefix: "/cookie",
      Header: [{ Name: "cookie", Regex: ".*b=2.*" }],
    },
    [get("/cookie", "cookie: a=1; b=2")],
    [get("/cookie", "cookie: a=1")],
  ],
  [
    "QueryParam Present",
    { PathPrefix: "/query/present", QueryParam: [{ Name: "q", Present: true }] },
    paths("/query/present?q", "/query/present?q=", "/query/present?a&q=1"),
    paths("/query/present", "/query/present?a=q", "/query/present?Q=1"),
  ],
  [
    "QueryParam Exact",
    { PathPrefix: "/query/exact", QueryParam: [{ Name: "q", Exact: "a b" }] },
    [],
    paths("/query/exact?q=a%20b", "/query/exact?q=a", "/query/exact?q=a+b", "/query/exact?q"),
  ],
  [
    "QueryParam Exact of several",
    { PathPrefix: "/query/first", QueryParam: [{ Name: "q", Exact: "1" }] },
    paths("/query/first?q=1&q=2"),
    paths("/query/first?q=2&q=1", "/query/first?q=%32"),
  ],
  [
    "QueryParam Exact escaped",
    { PathPrefix: "/query/escaped", QueryParam: [{ Name: "q", Exact: "%31" }] },
    paths("/query/escaped?q=%31"),
    paths("/query/escaped?q=1"),
  ],
  [
    "QueryParam Regex",
    { PathPrefix: "/query/regex", QueryParam: [{ Name: "q", Regex: "[0-9]+" }] },
    paths("/query/regex?q=12"),
    paths("/query/regex?q=1b", "/query/regex?q=", "/query/regex"),
  ],
  [
    "two parameters and a method",
    {
      PathPrefix: "/query/all",
      QueryParam: [{ Name: "a", Exact: "1" }, { Name: "b", Present: true }],
      Methods: ["PUT"],
    },
    [put("/query/all?b&a=1")],
    [put("/query/all?a=1"), get("/query/all?b&a=1")],
  ],
];

/** Where several match, the first is taken, whatever its kind. */
const ORDER: readonly (readonly [match: Json, service: string, ask?: Partial<WrittenRequest>])[] = [
  [{ PathExact: "/a/b/c" }, "here", get("/a/b/c")],
  [{ PathPrefix: "/a/b/" }, "other", get("/a/b/d")],
  [{ PathRegex: "/a/.*" }, "here", get("/a/c")],
  [{ PathExact: "/a/c" }, "other"],
  [{ PathPrefix: "/a", Header: [{ Name: "x-a", Present: true }] }, "other", get("/a", "x-a: 1")],
  [{ PathPrefix: "/" }, "here", get("/a")],
  [{ PathExact: "/never" }, "other", get("/never")],
];
/** A route without one is the chain's own service. */
const HERE = { here: "200", other: "200 other" } as const;

const rows = ROWS.flatMap(([name, , taken, left]) =>
  [["200 other", taken], ["200", left]].flatMap(([want, asks]) =>
    (asks as readonly Partial<WrittenRequest>[]).map((ask): Case => ({
      name: `${name}: ${ask.method ?? "GET"} ${ask.path} ${(ask.fields ?? []).join("; ")}`,
      to: "matches",
      ask,
      want: want as string,
    }))
  )
);

export const routes: Area = {
  name: "routes",
  entries: (at) => [
    { Kind: "service-resolver", Name: at("matches"), Redirect: { Service: at("http") } },
    { Kind: "service-resolver", Name: at("order"), Redirect: { Service: at("http") } },
    {
      Kind: "service-router",
      Name: at("matches"),
      Routes: ROWS.map(([, match]) => ({
        Match: { HTTP: match },
        Destination: { Service: "other" },
      })),
    },
    {
      Kind: "service-router",
      Name: at("order"),
      Routes: ORDER.map(([match, service]) => ({
        Match: { HTTP: match },
        ...(service === "here" ? {} : { Destination: { Service: service } }),
      })),
    },
  ],
  cases: [
    ...rows,
    {
      name: "WebSocket",
      to: "matches",
      want: "101",
      ask: { path: "/exact", upgrade: true },
    },
    {
      name: "WebSocket to the last route",
      to: "matches",
      want: "101",
      ask: { path: "/", upgrade: true },
    },
    {
      name: "an absolute target",
      to: "matches",
      want: "200 other",
      ask: get("http://app.test/exact?q"),
    },
    { name: "over HTTP/2", to: "matches", wire: "2", want: "200 other", ask: get("/exact?q") },
    {
      name: "several headers over HTTP/2",
      to: "matches",
      wire: "2",
      want: "200 other",
      ask: get("/header/Prefix-of-several/", "x-a: one"),
    },
    ...ORDER.flatMap(([, service, ask], index): Case[] =>
      ask
        ? [{
          name: `order, ${ask.path}`,
          to: "order",
          ask,
          want: index === 6 ? "200" : HERE[service as keyof typeof HERE],
        }]
        : []
    ),
  ],
};
