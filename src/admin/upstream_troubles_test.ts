import assert from "node:assert/strict";
import { test } from "node:test";
import { createAuthority } from "../../test/kit/certs/certificates.ts";
import { fakeAdminView } from "../../test/kit/admin/admin_view.ts";
import { httpRules, snapshotOf, targetOf } from "../../test/kit/engine/snapshots.ts";
import type { EndpointView } from "../proxy/mod.ts";
import type { Refusal, Snapshot } from "../snapshot/mod.ts";
import { createAdmin } from "./admin.ts";
import {
  endpointSamples,
  pastFailureTexts,
  recentTexts,
  refusingTexts,
  troubleTexts,
  upstreamTroubles,
} from "./upstream_troubles.ts";

const LACK = 'nobody is registered as "cache" in dc1';
const SNAPSHOT: Snapshot = snapshotOf({
  ca: createAuthority(),
  service: "web",
  local: { kind: "tcp", host: "127.0.0.1", port: 8_080 },
  upstreams: [{ name: "pay", http: httpRules("http") }, { name: "db" }, { name: "cache" }],
  targets: [
    targetOf({ name: "pay", uris: [], ports: [1, 2] }),
    targetOf({ name: "db", uris: [], ports: [3] }),
    targetOf({ name: "cache", uris: [], ports: [], overrides: { lack: LACK } }),
  ],
});
const FAR: Refusal = {
  what: "upstream service:default/default/db?dc=dc2",
  reason: "no gateways",
  upstream: { id: "service:default/default/db?dc=dc2", name: "db", bind: null },
};

function endpoint(target: string, change: Partial<EndpointView> = {}): EndpointView {
  return {
    target,
    id: `dc1/node/${target}`,
    address: "10.0.0.1:1",
    weight: 1,
    active: 0,
    failures: 0,
    lastFailure: "",
    ejectedForMs: 0,
    lastResort: false,
    ...change,
  };
}

const FAILED = { failures: 3, lastFailure: "status 503" };
const PAY =
  "upstream pay keeps failing: the last 3 requests failed, the last of them was answered " +
  "503 by the other side";
const CACHE = `upstream cache has no healthy instance: ${LACK}`;

for (
  const [name, endpoints, want] of [
    ["an upstream without an instance", [], [CACHE]],
    ["instances that all keep failing", [endpoint("pay", FAILED)], [PAY, CACHE]],
    ["one that answers beside one that fails", [
      endpoint("pay", FAILED),
      endpoint("pay", { id: "2" }),
    ], [CACHE]],
    ["a failure or two", [endpoint("pay", { ...FAILED, failures: 2 })], [CACHE]],
    ["one that is ejected", [endpoint("pay", { ejectedForMs: 9, lastFailure: "status 500" })], [
      "upstream pay keeps failing: the last request was answered 500 by the other side",
      CACHE,
    ]],
    ["one that is ejected and answered since", [endpoint("pay", { ejectedForMs: 9 })], [CACHE]],
    ["one that failed a while ago", [endpoint("pay", { ...FAILED, failedAgoMs: 40_000 })], [CACHE]],
    ["connections that are ended at once", [endpoint("db", { lastFailure: "refused_by_peer" })], [
      "upstream db keeps failing: the last connection failed on the other side: refused_by_peer",
      CACHE,
    ]],
  ] as const
) {
  test(`upstreamTroubles() of ${name}`, () => {
    const view = { ...fakeAdminView(), snapshot: () => SNAPSHOT, refused: () => [] };
    assert.deepEqual(upstreamTroubles(view, endpoints).map(({ text }) => text), want);
  });
}

test("pastFailureTexts() has the age of a failure after which nothing was tried", () => {
  const failed = { ejectedForMs: 20_000, lastFailure: "status 503", failedAgoMs: 40_000 };
  assert.deepEqual(pastFailureTexts(SNAPSHOT, [endpoint("pay", failed)]), [
    "upstream pay: the last request, 40s ago, was answered 503 by the other side",
  ]);
  for (const change of [{ failedAgoMs: 9 }, { lastFailure: "" }]) {
    assert.deepEqual(pastFailureTexts(SNAPSHOT, [endpoint("pay", { ...failed, ...change })]), []);
  }
});

test("upstreamTroubles() names refused upstreams and those without an answer of Consul", () => {
  const base = fakeAdminView();
  const source = base.source() ?? assert.fail();
  const pending = ["service:default/default/late", "service:default/default/db"];
  const view = {
    ...base,
    snapshot: () => SNAPSHOT,
    refused: () => [FAR],
    source: () => ({ ...source, pending }),
  };
  assert.deepEqual(upstreamTroubles(view, []).map(({ text }) => text), [
    "upstream service:default/default/db?dc=dc2: no gateways",
    "upstream service:default/default/late: Consul has not answered about it yet",
    CACHE,
  ]);
});

const CANARY = "canary.api.default.default.dc1";
const STABLE = "v1.api.default.default.dc1";
const NO_CANARY = 'nobody is registered as "api" in dc1 where Service.Meta.v == canary';

for (
  const [name, routes, want] of [
    ["of a split", [["default", 80, 20]], [
      `upstream api has no instance for 20 % of the requests to subset canary: ${NO_CANARY}`,
    ]],
    ["of a route", [["routes[0]", 0, 100], ["routes[1]", 50, 25], ["default", 1, 0]], [
      `upstream api has no instance for requests of route routes[0] (/a*) to subset canary: ${NO_CANARY}`,
      "upstream api has no instance for 33.33 % of the requests of route routes[1] (/a*) to subset " +
      `canary: ${NO_CANARY}`,
    ]],
  ] as const
) {
  test(`upstreamTroubles() has the share ${name} that has no instance`, () => {
    const one = snapshotOf({
      ca: createAuthority(),
      service: "web",
      local: { kind: "tcp", host: "127.0.0.1", port: 8_080 },
      upstreams: [{ name: "api", http: httpRules("http") }],
      targets: [
        targetOf({ name: "api", uris: [], ports: [1], overrides: { key: STABLE } }),
        targetOf({ name: "api", uris: [], ports: [], overrides: { key: CANARY, lack: NO_CANARY } }),
      ],
    });
    const [[key, chain] = ["", undefined]] = Object.entries(one.chains);
    const [resolver] = Object.values(chain?.resolvers ?? {});
    const [route] = chain?.routes ?? [];
    assert.ok(chain && resolver && route);
    const snapshot: Snapshot = {
      ...one,
      chains: {
        [key]: {
          ...chain,
          resolvers: {
            stable: { ...resolver, targets: [STABLE] },
            canary: { ...resolver, targets: [CANARY] },
          },
          routes: routes.map(([name, stable, canary]) => ({
            ...route,
            name,
            match: name === "default" ? null : {
              path: { kind: "prefix", value: "/a" },
              ignoreCase: false,
              methods: [],
              headers: [],
              query: [],
            },
            splits: [{ weight: stable, resolver: "stable" }, { weight: canary, resolver: "canary" }]
              .filter(({ weight }) => weight > 0),
          })),
        },
      },
    };
    const view = { ...fakeAdminView(), snapshot: () => snapshot, refused: () => [] };
    assert.deepEqual(upstreamTroubles(view, []).map(({ text }) => text), want);
  });
}

const REFUSING = {
  upstream: "api",
  caller: "web",
  code: "intention_denied",
  deniedBy: "api",
  unit: "requests",
  count: 18,
  at: 0,
  last: { method: "GET", path: "/admin/x&y", endpoint: "10.0.0.1:1" },
} as const;

test("refusingTexts() have the command for the instance that refused last", () => {
  const said = "api refuses web (intention_denied), 18 requests in the last minute; on its host: " +
    "postern explain ";
  const known = [endpoint("api", { id: "dc1/node/api-2-sidecar-proxy" })];
  assert.deepEqual(refusingTexts([REFUSING], known), [
    `${said}-sidecar-for api-2 -inbound -source web GET '/admin/x&y'`,
  ]);
  assert.deepEqual(refusingTexts([REFUSING], []), [`${said}-inbound -source web`]);
});

test("recentTexts() name the last refused request", () => {
  assert.deepEqual(recentTexts([REFUSING]), [
    "18 requests to api in the last minute were refused by it (intention_denied), " +
    "the last: GET /admin/x&y",
  ]);
});

test("troubleTexts() names twenty upstreams and counts the others", () => {
  const texts = troubleTexts(Array.from({ length: 23 }, (_, at) => ({ id: "", text: String(at) })));
  assert.deepEqual(texts.slice(-2), ["19", "and 3 more upstreams, see /clusters"]);
});

test("admin / and /ready show unusable upstreams; only /ready?upstreams is not ready for them", async () => {
  const base = fakeAdminView();
  const [data] = await base.data();
  assert.ok(data);
  const endpoints = [endpoint("pay", FAILED)];
  const refusing = [
    {
      upstream: "db",
      caller: "web",
      code: "intention_denied",
      deniedBy: "db",
      unit: "requests",
      count: 23,
      at: 0,
    } as const,
  ];
  const view = {
    ...base,
    snapshot: () => SNAPSHOT,
    refused: () => [FAR],
    data: () => Promise.resolve([{ ...data, endpoints, refusing }]),
    endpoints: () => Promise.resolve([{ endpoints, refusing }, { endpoints, refusing }]),
  };
  const app = createAdmin(view, { boundHost: "127.0.0.1" });
  const ask = async (path: string) => {
    const reply = await app.request(path, { headers: { host: "127.0.0.1" } }, { peer: "::1" });
    return `${reply.status} ${await reply.text()}`;
  };
  const troubles = [`${FAR.what}: ${FAR.reason}`, PAY, CACHE];
  const refused = (count: number) =>
    `db refuses web (intention_denied), ${count} requests in the last minute; ` +
    "on its host: postern explain -inbound -source web";
  const warnings = [...troubles, refused(46)].map((text) => `warning: ${text}\n`).join("");
  assert.equal(await ask("/ready"), `200 LIVE\n${warnings}`);
  assert.equal(
    await ask("/ready?upstreams"),
    `503 UPSTREAMS_NOT_USABLE\n${troubles.join("\n")}\nwarning: ${refused(46)}\n`,
  );
  const page = await ask("/");
  for (const text of [...troubles, refused(23)]) {
    const escaped = text.replaceAll('"', "&quot;");
    assert.equal(page.split(escaped).length, 2, `the page shows it once: ${text}`);
  }
  assert.match(page, /<td>4, 3 of them not usable<\/td>/);
  const metrics = await ask("/stats/prometheus?filter=upstream_usable");
  for (const [name, usable] of [["db?dc=dc2", 0], ["pay", 0], ["db", 1], ["cache", 0]] as const) {
    const line = `postern_upstream_usable{listener="service:default/default/${name}"} ${usable}\n`;
    assert.ok(metrics.includes(line), line + metrics);
  }
});

test("endpointSamples() counts the endpoints of each target, and the ejected ones", () => {
  const samples = endpointSamples([
    endpoint("pay", { ejectedForMs: 9 }),
    endpoint("pay", { id: "2" }),
    endpoint("pay", { id: "2", lastResort: true }),
    endpoint("db"),
  ]);
  assert.deepEqual(
    samples.map(({ name, labels, value }) => `${name} ${labels["target"]} ${value}`),
    ["endpoints pay 2", "endpoints_ejected pay 1", "endpoints db 1", "endpoints_ejected db 0"],
  );
});
