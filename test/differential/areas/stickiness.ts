/** Requests that are to stay with one instance, by an attribute of theirs. */

import { type Area, type Case, get } from "../case.ts";

/** Load balancing policies, by service. */
const POLICIES = { ring: "ring_hash", maglev: "maglev", lone: "ring_hash" };
const HASHED = [
  { Field: "header", FieldValue: "X-User", Terminal: true },
  { Field: "query_parameter", FieldValue: "user", Terminal: true },
  { Field: "cookie", FieldValue: "place", CookieConfig: { TTL: "90s", Path: "/" } },
];
const TIMES = 12;

const KEYS: readonly (readonly [name: string, ...ask: Parameters<typeof get>])[] = [
  ...["a", "b", "c", "d", "e", "f"].map((user) =>
    [`header ${user}`, "/", `x-user: ${user}`] as const
  ),
  ["several headers", "/", "x-user: a", "x-user: b"],
  ["an empty header", "/", "x-user: "],
  ["parameter", "/?user=a"],
  ["another parameter", "/?a=b&user=b"],
  ["header before parameter", "/?user=b", "x-user: a"],
  ["cookie", "/", "cookie: place=here"],
  ["one of several cookies", "/", "cookie: a=b; place=there; c=d"],
];

export const stickiness: Area = {
  name: "stickiness",
  shared: Object.entries(POLICIES).map(([Name, Policy]) => ({
    Kind: "service-resolver",
    Name,
    LoadBalancer: {
      Policy,
      HashPolicies: HASHED,
      ...(Policy === "ring_hash"
        ? { RingHashConfig: { MinimumRingSize: 1024, MaximumRingSize: 65_536 } }
        : {}),
    },
  })),
  entries: (at) =>
    Object.keys(POLICIES).map((Service) => ({
      Kind: "service-resolver",
      Name: at(`by-${Service}`),
      Redirect: { Service },
    })),
  cases: [
    ...["by-ring", "by-maglev"].flatMap((to) =>
      KEYS.map(([name, ...ask]): Case => ({
        name,
        to,
        ask: get(...ask),
        times: TIMES,
        isSticky: true,
        want: "one",
      }))
    ),
    { name: "a cookie is given", to: "by-lone", ask: get("/"), want: "200 lone" },
    {
      name: "none is given to who has one",
      to: "by-lone",
      want: "200 lone",
      ask: get("/", "cookie: place=here"),
    },
  ],
};
