/** Header changes of routes, as the application and the caller see them. */

import type { Json } from "../../kit/mixed_mesh.ts";
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
    ...{ NumRetries: 1, RetryOn: ["5xx"] },
  }, [["x-plan: 503 200"]]],
];

/** What a proxy answers itself has them, too. */
const OWN: readonly Row[] = [
  ["denied", { ResponseHeaders: { Add: { "x-b": "1" } } }, [[]], "denied"],
];

const pathOf = (name: string) => `/${name.replaceAll(" ", "-")}/`;

export const headers: Area = {
  name: "header changes",
  entries: (at) => [
    { Kind: "service-resolver", Name: at("changed"), Redirect: { Service: at("http") } },
    {
      ...{ Kind: "service-router", Name: at("changed") },
      Routes: [...ROWS, ...OWN].map(([name, destination, , path]) => ({
        Match: {
          HTTP: path ? { PathExact: `/${path}` } : { PathPrefix: pathOf(name) },
        },
        Destination: destination,
      })),
    },
  ],
  cases: [...ROWS, ...OWN].flatMap(([name, , asks, path]) =>
    asks.map((fields): Case => ({
      ...{ name: `${name}: ${fields.join("; ")}`, to: "changed" },
      ask: get(path ? `/${path}` : pathOf(name), ...fields),
      want: name === "denied" ? "403" : name === "where a retry is" ? "200, 2 tries" : "200",
    }))
  ),
};
