/** Which instances a request may come to: splits, subsets, redirects, failover, load balancing. */

import { type Area, type Case, get } from "../case.ts";
import type { Json } from "../../kit/mesh/mixed_mesh.ts";

const SUBSETS = {
  v1: { Filter: "Service.Meta.version == 1" },
  v2: { Filter: "Service.Meta.version == 2" },
  none: { Filter: "Service.Meta.version == 9" },
  passing: { OnlyPassing: true },
};
const V1 = "200 m1 | 200 m2";
const ALL = "200 m1 | 200 m2 | 200 m3";
/** So many that one of three is missed once in 10^8. */
const MANY = 48;

type Entry = (at: (name: string) => string) => Json;
type Row = readonly [name: string, entry: Entry, cases: readonly Omit<Case, "name" | "to">[]];

function resolver(name: string, more: Entry): Entry {
  return (at) => ({ Kind: "service-resolver", Name: at(name), ...more(at) });
}

const split = (name: string, ...splits: readonly (readonly [number, Json])[]): Entry => (at) => ({
  Kind: "service-splitter",
  Name: at(name),
  Splits: splits.map(([Weight, split]) => ({ Weight, Service: "other", ...split })),
});

const ROWS: readonly Row[] = [
  ["all", resolver("all", () => ({ Redirect: { Service: "many" } })), [
    // The service's own default subset.
    { want: V1, times: MANY, shares: { "200 m1": 0.5, "200 m2": 0.5 } },
  ]],
  ["redirect", resolver("redirect", () => ({ Redirect: { Service: "other" } })), [
    { want: "200 other" },
  ]],
  [
    "redirect-subset",
    resolver("redirect-subset", () => ({ Redirect: { Service: "many", ServiceSubset: "v2" } })),
    [{ want: "200 m3", times: 6 }],
  ],
  [
    "passing",
    resolver("passing", () => ({ Redirect: { Service: "many", ServiceSubset: "passing" } })),
    [{ want: ALL, times: MANY }],
  ],
  [
    "no-such",
    resolver("no-such", () => ({ Redirect: { Service: "many", ServiceSubset: "none" } })),
    [{ want: "503" }],
  ],
  ["failover", resolver("failover", () => ({ Failover: { "*": { Service: "other" } } })), [
    { want: "200 other", times: 6 },
  ]],
  [
    "failover-subset",
    resolver("failover-subset", () => ({
      Failover: { "*": { Service: "many", ServiceSubset: "v2" } },
    })),
    [{ want: "200 m3", times: 6 }],
  ],
  [
    "failover-targets",
    resolver("failover-targets", () => ({
      Failover: {
        "*": {
          Targets: [{ Service: "many", ServiceSubset: "none" }, { Service: "other" }],
        },
      },
    })),
    [{ want: "200 other", times: 6 }],
  ],
  ["failover-ill", resolver("failover-ill", () => ({ Redirect: { Service: "ill" } })), [
    { want: "200 other", times: 6 },
  ]],
  ["failover-dead", resolver("failover-dead", () => ({ Redirect: { Service: "dead" } })), [
    { want: "503", times: 6 },
  ]],
  ["by-status", resolver("by-status", () => ({ Redirect: { Service: "sick" } })), [
    { want: "200 s1 | 200 s2", times: MANY },
  ]],
  [
    "by-passing",
    resolver("by-passing", () => ({ Redirect: { Service: "sick", ServiceSubset: "passing" } })),
    [{ want: "200 s1", times: 6 }],
  ],
  ["patched", resolver("patched", () => ({ Redirect: { Service: "patchy" } })), [
    { want: "200 p1 | 503", times: MANY },
  ]],
  ["by-chance", resolver("by-chance", () => ({ Redirect: { Service: "random" } })), [
    { want: "200 a1 | 200 a2", times: MANY },
  ]],
  ["by-least", resolver("by-least", () => ({ Redirect: { Service: "least" } })), [
    { want: "200 l1 | 200 l2", times: MANY },
  ]],
  ["half", split("half", [50, {}], [50, { Service: "many", ServiceSubset: "v2" }]), [
    { want: "200 m3 | 200 other", times: 160, shares: { "200 m3": 0.5, "200 other": 0.5 } },
  ]],
  ["quarter", split("quarter", [75, {}], [25, { Service: "many", ServiceSubset: "v2" }]), [
    { want: "200 m3 | 200 other", times: 160, shares: { "200 m3": 0.25, "200 other": 0.75 } },
  ]],
  ["nothing", split("nothing", [100, {}], [0, { Service: "many" }]), [
    { want: "200 other", times: 20 },
  ]],
  [
    "three",
    split(
      "three",
      [33.33, {}],
      [33.33, { Service: "many", ServiceSubset: "v2" }],
      [33.34, { Service: "many", ServiceSubset: "v1" }],
    ),
    [{
      want: `${V1} | 200 m3 | 200 other`,
      times: 160,
      shares: { "200 other": 0.33, "200 m3": 0.33 },
    }],
  ],
  ["routed", (at) => ({
    Kind: "service-router",
    Name: at("routed"),
    Routes: [
      {
        Match: { HTTP: { PathPrefix: "/v2" } },
        Destination: { Service: "many", ServiceSubset: "v2" },
      },
      { Match: { HTTP: { PathPrefix: "/half" } }, Destination: { Service: at("half") } },
      { Match: { HTTP: { PathPrefix: "/nobody" } }, Destination: { Service: "none" } },
      { Match: { HTTP: { PathPrefix: "/lost" } }, Destination: { Service: "lost" } },
      { Match: { HTTP: { PathPrefix: "/" } }, Destination: { Service: "other" } },
    ],
  }), [
    { ask: get("/v2"), want: "200 m3", times: 6 },
    { ask: get("/half"), want: "200 m3 | 200 other", times: 60 },
    { ask: get("/nobody"), want: "503" },
    { ask: get("/lost"), want: "503" },
    { ask: get("/"), want: "200 other" },
  ]],
];

export const targets: Area = {
  name: "targets",
  entries: (at) => ROWS.map(([, entry]) => entry(at)),
  shared: [
    { Kind: "service-resolver", Name: "many", DefaultSubset: "v1", Subsets: SUBSETS },
    { Kind: "service-resolver", Name: "sick", Subsets: { passing: SUBSETS.passing } },
    ...["ill", "dead"].map((Name) => ({
      Kind: "service-resolver",
      Name,
      Failover: { "*": { Service: "other" } },
    })),
    { Kind: "service-resolver", Name: "random", LoadBalancer: { Policy: "random" } },
    {
      Kind: "service-resolver",
      Name: "least",
      LoadBalancer: { Policy: "least_request", LeastRequestConfig: { ChoiceCount: 2 } },
    },
  ],
  cases: ROWS.flatMap(([to, , cases]) =>
    cases.map((one): Case => ({ ...one, to, name: one.ask?.path ?? "any" }))
  ),
};
