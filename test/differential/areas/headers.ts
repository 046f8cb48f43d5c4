/** Header changes of routes, as the application and the caller see them. */

import type { Json } from "../../kit/mesh/mixed_mesh.ts";
import { type Area, type Case, get } from "../case.ts";

type Row = readonly [
  name: string,
  destination: Json,
  asks: readonly (readonly string[])[],
  path?: string,
];

const ROWS: readonly Row[] = [
  ["add", { RequestHeaders: { Add: { "x-a": "new" } } }, [[], ["x-a: old"], ["x-a: 1", "x-a: 2"]]],
  ["set", { RequestHeaders: { Set: { "x-a": "new" } } }, [[], ["x-a: old"], ["x-a: 1", "x-a: 2"]]],
  ["remove", { RequestHeaders: { Remove: ["x-a", "X-B"] } }, [
    [],
    ["x-a: 1", "x-c: 3"],
    ["x-a: 1", "x-b: 2", "x-a: 3"],
  ]],
  ["upper case", { RequestHeaders: { Set: { "X-Upper": "A" }, Add: { "X-More": "B" } } }, [
    [],
    ["x-upper: 1", "x-more: 2"],
  ]],
  ["all of a request", {
    RequestHeaders: { Set: { "x-a": "set" }, Add: { "x-a": "add", "x-b": "b" }, Remove: ["x-c"] },
  }, [[], ["x-a: 1", "x-b: 2", "x-c: 3"]]],
  ["set what is removed", { RequestHeaders: { Set: { "x-a": "set" }, Remove: ["x-a"] } }, [
    [],
    ["x-a: 1"],
  ]],
  ["an empty value", { RequestHeaders: { Set: { "x-a": "" }, Add: { "x-b": "" } } }, [
    [],
    ["x-a: 1"],
  ]],
  ["operators", {
    RequestHeaders: {
      Set: {
        "x-method": "%REQ(:METHOD)%",
        "x-path": "%REQ(:PATH)% of %REQ(:AUTHORITY)%",
        "x-given": "a %REQ(X-Given?x-other)% b",
        "x-short": "%REQ(x-given):3%",
        "x-protocol": "%PROTOCOL%",
        "x-caller": "%DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT%",
        "x-per-cent": "100 %%",
        "x-year": "%START_TIME(%Y)%",
      },
      Add: { "x-added": "%REQ(x-given)%" },
    },
  }, [[], ["x-given: abcdef"], ["x-other: other"], ["x-added: before", "x-given: "]]],
  ["operators of a response", {
    ResponseHeaders: {
      Set: {
        "x-code": "%RESPONSE_CODE%",
        "x-request": "%REQ(:METHOD)% [%REQ(X-Given)%]",
        "x-type": "%RESP(content-type)% [%RESP(x-none)%]",
        "x-flags": "%RESPONSE_FLAGS%",
      },
    },
  }, [[], ["x-given: a"]]],
  ["user-agent", { RequestHeaders: { Set: { "user-agent": "mesh" }, Remove: ["accept"] } }, [
    ["user-agent: curl", "accept: */*"],
  ]],
  ["a cookie", { RequestHeaders: { Add: { cookie: "b=2" } } }, [["cookie: a=1"], []]],
  ["add to a response", { ResponseHeaders: { Add: { "x-app": "three", "x-b": "1" } } }, [[]]],
  ["set in a response", { ResponseHeaders: { Set: { "x-app": "three", "x-b": "1" } } }, [[]]],
  ["remove from a response", { ResponseHeaders: { Remove: ["x-app", "content-type"] } }, [[]]],
  ["all of a response", {
    ResponseHeaders: { Set: { "x-app": "set" }, Add: { "x-app": "add" }, Remove: ["x-c"] },
  }, [[]]],
  ["cookies of a response", { ResponseHeaders: { Add: { "set-cookie": "c=3" } } }, [[]], "own"],
  ["of both", {
    RequestHeaders: { Set: { "x-a": "1" } },
    ResponseHeaders: { Set: { "x-b": "2" } },
  }, [[]]],
  ["where a retry is", {
    RequestHeaders: { Add: { "x-a": "1" } },
    ResponseHeaders: { Add: { "x-b": "2" } },
    NumRetries: 1,
    RetryOn: ["5xx"],
  }, [["x-plan: 503 200"]]],
];

/** A response of the proxy itself has them, too. */
const OWN: readonly Row[] = [
  ["denied", { ResponseHeaders: { Add: { "x-b": "1" } } }, [[]], "denied"],
];

const pathOf = (name: string) => `/${name.replaceAll(" ", "-")}/`;

const ROUTED = {
  RequestHeaders: { Set: { "x-set": "route" }, Add: { "x-add": "route" }, Remove: ["x-c"] },
  ResponseHeaders: { Set: { "x-set": "route" }, Add: { "x-add": "route" } },
};
const SPLIT = {
  RequestHeaders: { Set: { "x-set": "split" }, Add: { "x-add": "split" }, Remove: ["x-d"] },
  ResponseHeaders: { Set: { "x-set": "split" }, Add: { "x-add": "split" }, Remove: ["x-app"] },
};
const FIELDS = ["x-set: 1", "x-add: 1", "x-c: 1", "x-d: 1"];

/** Response fields of a split, alone and under those of a route. */
const SPLITS: readonly Case[] = ["/alone", "/under-a-route"].flatMap((path) =>
  [[], FIELDS].map((fields): Case => ({
    name: `of a split, ${path} ${fields.join("; ")}`,
    to: "split",
    want: "200 other",
    ask: get(path, ...fields),
  }))
);

export const headers: Area = {
  name: "header changes",
  entries: (at) => [
    {
      Kind: "service-splitter",
      Name: at("split"),
      Splits: [{ Weight: 100, Service: "other", ...SPLIT }],
    },
    {
      Kind: "service-router",
      Name: at("split"),
      Routes: [{ Match: { HTTP: { PathPrefix: "/under" } }, Destination: ROUTED }],
    },
    { Kind: "service-resolver", Name: at("changed"), Redirect: { Service: at("http") } },
    {
      Kind: "service-router",
      Name: at("changed"),
      Routes: [...ROWS, ...OWN].map(([name, destination, , path]) => ({
        Match: {
          HTTP: path ? { PathExact: `/${path}` } : { PathPrefix: pathOf(name) },
        },
        Destination: destination,
      })),
    },
  ],
  cases: SPLITS.concat(
    [...ROWS, ...OWN].flatMap(([name, , asks, path]) =>
      asks.map((fields): Case => ({
        name: `${name}: ${fields.join("; ")}`,
        to: "changed",
        ask: get(path ? `/${path}` : pathOf(name), ...fields),
        want: name === "denied" ? "403" : name === "where a retry is" ? "200, 2 tries" : "200",
      }))
    ),
  ),
};
