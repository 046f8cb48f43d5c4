/** What the agent's answer may ask for and nothing here gives: refused with where it is written. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { prepareRegexes } from "../../base/mod.ts";
import { resolveChain } from "../../chain/mod.ts";
import { readChain } from "../../consul/replies/discovery_chain.ts";
import { pluginsOfRoute } from "./route_plugins.ts";

const ID = "db.default.default.dc1";
const RESOLVER = `resolver:${ID}`;

/** Reasons why none of its routes is taken; empty: all are. */
async function refusals(nodes: Readonly<Record<string, unknown>>): Promise<readonly string[]> {
  await prepareRegexes();
  const chain = readChain({
    Chain: {
      ServiceName: "db",
      Protocol: "http",
      StartNode: Object.keys(nodes)[0],
      Nodes: { ...nodes, [RESOLVER]: { Type: "resolver", Resolver: { Target: ID } } },
      Targets: { [ID]: { ID, Service: "db", Datacenter: "dc1", SNI: "db" } },
    },
  });
  const resolved = resolveChain(chain, { datacenter: "dc1", partition: "" });
  assert.ok(resolved.kind === "resolved");
  return resolved.routes.flatMap((route) => {
    const asked = pluginsOfRoute(route);
    return asked.kind === "refused" ? [asked.reason] : [];
  });
}

function routed(definition: unknown) {
  const last = { Definition: { Match: { HTTP: { PathPrefix: "/" } } }, NextNode: RESOLVER };
  const first = { Definition: definition, NextNode: RESOLVER };
  return { "router:db": { Type: "router", Name: "db", Routes: [first, last] } };
}

function split(definition: unknown) {
  const one = { Definition: { Weight: 50 }, Weight: 50, NextNode: RESOLVER };
  const other = { ...one, Definition: definition };
  return { "splitter:db": { Type: "splitter", Name: "db.ns.ap", Splits: [one, other] } };
}

const matching = (HTTP: object) => routed({ Match: { HTTP } });
const leading = (Destination: object) => routed({ Destination });

const REFUSED: readonly (readonly [nodes: Readonly<Record<string, unknown>>, ...string[]])[] = [
  [matching({ PathRegex: "/(" }), '.Match.HTTP: the regex "/(" is not one of RE2'],
  [matching({ Header: [{ Name: "a", Regex: "[" }] }), '.Match.HTTP: the regex "[" is not one'],
  [
    matching({ QueryParam: [{ Name: "a", Regex: "(?=a)" }] }),
    '.Match.HTTP: the regex "(?=a)" is not',
  ],
  [matching({ PathTemplate: "/{a}" }), ".Match.HTTP.PathTemplate: is not known here"],
  [
    matching({ Header: [{ Name: "a" }, { Name: "b", Contains: "c" }] }),
    ".Match.HTTP.Header[1].Contains: is not known here",
  ],
  [
    matching({ QueryParam: [{ Name: "a", Exact: "b", Invert: true }] }),
    ".Match.HTTP.QueryParam[0].Invert: is not known here",
  ],
  [routed({ Match: { TCP: { Port: 1 } } }), ".Match.TCP: is not known here"],
  [routed({ Weight: 1 }), ".Weight: is not known here"],
  [leading({ HostRewrite: "a" }), ".Destination.HostRewrite: is not known here"],
  [leading({ PrefixRewrite: "a" }), '.Destination.PrefixRewrite: "a" must be a path'],
  [leading({ PrefixRewrite: "/a/../b" }), '.Destination.PrefixRewrite: "/a/../b" must be a path'],
  [leading({ PrefixRewrite: "/a b" }), '.Destination.PrefixRewrite: "/a b" must be a path'],
  [leading({ PrefixRewrite: "/a#b" }), '.Destination.PrefixRewrite: "/a#b" must be a path'],
  [leading({ PrefixRewrite: "/a%2" }), '.Destination.PrefixRewrite: "/a%2" must be a path'],
  [
    leading({ RetryOn: ["5xx", "luck"], RetryOnStatusCodes: [503, 99] }),
    '.Destination.RetryOn: "luck" is not known',
    ".Destination.RetryOnStatusCodes: 99 is no status",
  ],
  [
    leading({ RequestHeaders: { Set: { a: "%HOST%" }, Add: { b: "50%" } } }),
    '.Destination.RequestHeaders.Set["a"]: it has the operator HOST',
    '.Destination.RequestHeaders.Add["b"]: it has "%" without an operator',
  ],
  [
    leading({ ResponseHeaders: { Remove: ["host", "a b"], Set: { "content-length": "1" } } }),
    '.Destination.ResponseHeaders.Remove["host"]: it says what is asked for',
    '.Destination.ResponseHeaders.Remove["a b"]: it is no name of a field',
    '.Destination.ResponseHeaders.Set["content-length"]: it is of one connection',
  ],
  [
    leading({ RequestHeaders: { AddIfAbsent: { a: "b" } } }),
    ".Destination.RequestHeaders.AddIfAbsent: is not known here",
  ],
];

for (const [nodes, ...reasons] of REFUSED) {
  test(`pluginsOfRoute() refuses ${reasons.join(" and ")}`, async () => {
    const [reason = "", ...others] = await refusals(nodes);
    for (const wanted of reasons) {
      assert.ok(reason.includes(`service-router "db": Routes[0]${wanted}`), reason);
    }
    assert.deepEqual(others, []);
  });
}

for (
  const [definition, reason] of [
    [{ ResponseHeaders: { Set: { a: "%LUCK%" } } }, '.ResponseHeaders.Set["a"]: it has the op'],
    [{ RequestHeaders: { Merge: { a: "b" } } }, ".RequestHeaders.Merge: is not known here"],
    [{ Sticky: true }, ".Sticky: is not known here"],
  ] as const
) {
  test(`pluginsOfRoute() refuses a split's ${reason}`, async () => {
    const [refused = ""] = await refusals(split({ Weight: 50, ...definition }));
    assert.ok(refused.includes(`service-splitter "db.ns.ap": Splits[1]${reason}`), refused);
  });
}

test("pluginsOfRoute() takes what means nothing, and all that is known", async () => {
  const http = {
    PathPrefix: "/a",
    CaseInsensitive: true,
    Methods: ["GET"],
    PathTemplate: "",
    Header: [{ Name: "a", Suffix: "b", Invert: true, Contains: "" }],
    QueryParam: [{ Name: "q", Regex: "[0-9]+" }],
  };
  const destination = {
    Service: "db",
    ServiceSubset: "v1",
    Namespace: "default",
    Partition: "default",
    PrefixRewrite: "/b?c=",
    RequestTimeout: "3s",
    IdleTimeout: "-1s",
    NumRetries: 2,
    RetryOnConnectFailure: true,
    RetryOn: ["reset"],
    RetryOnStatusCodes: [503],
    RequestHeaders: { Add: { a: "%PROTOCOL%" }, Set: { b: "100%%" }, Remove: ["c"], More: {} },
    ResponseHeaders: null,
  };
  const nodes = routed({ Match: { HTTP: http, TCP: null }, Destination: destination });
  assert.deepEqual(await refusals(nodes), []);
});
