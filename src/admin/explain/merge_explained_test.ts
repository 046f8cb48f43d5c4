import assert from "node:assert/strict";
import { test } from "node:test";
import { explainedBy } from "../../../test/kit/admin/admin_view.ts";
import type { ExplainResult, Explanation } from "../../proxy/mod.ts";
import type { ExplanationView } from "./verdict.ts";
import { type AskMesh, mergeExplained } from "./merge_explained.ts";
import { explainText } from "./explain_text.ts";

const AT = "127.0.0.1:19000";
const PROXY_LINE = "proxy        web-proxy of service web, admin server 127.0.0.1:19000";
const NO_MESH: AskMesh = {
  proxy: { id: "web-proxy", service: "web" },
  callee: () => Promise.resolve(null),
  hasConsul: true,
  ownUri: "",
  sourceNote: () => Promise.resolve(""),
  unfollowed: () => [],
  refusing: () => [],
};

async function merged(
  all: readonly ExplainResult[],
  ask: Partial<AskMesh> = {},
): Promise<ExplanationView> {
  const shown = await mergeExplained(all, { ...NO_MESH, ...ask });
  assert.ok(shown && !("reason" in shown));
  return shown;
}

test("mergeExplained() adds up the workers' counts of an endpoint and keeps the worst state", async () => {
  const shown = await merged([0, 1].map(explainedBy));
  assert.deepEqual(shown.splits[0]?.targets[0]?.endpoints, [{
    id: "node-db",
    address: "10.0.0.9:8080",
    weight: 1,
    active: 3,
    failures: 1,
    lastFailure: "status 503",
    ejectedForMs: 9_000,
    lastResort: false,
    ejectedBy: 1,
    unreachable: "",
  }]);
  assert.deepEqual(shown.plugins.map(({ isBroken }) => isBroken), [true, false]);
});

test("mergeExplained() hides texts in a plugin's configuration, except of plain plugins", async () => {
  const [rules, retry] = (await merged([explainedBy(0)])).plugins;
  assert.deepEqual(rules?.config, { request: { set: { authorization: "(not shown)" } } });
  assert.deepEqual(retry?.routeConfig, { numRetries: 2, retryOn: ["5xx"] });
});

test("mergeExplained() lists configuration of the upstream, or of the service, that is not followed", async () => {
  const unfollowed = (upstream?: string) => [`${upstream ?? "service"} has x`];
  const mergedWith = async (change: Partial<Explanation>) => {
    const [explained] = [explainedBy(0)];
    assert.ok(explained?.kind === "answer");
    const explanation = { ...explained.explanation, ...change };
    return await merged([{ ...explained, explanation }], { unfollowed });
  };
  const db = await mergedWith({});
  assert.match(explainText(db, AT), /\nunfollowed +service:default\/default\/db has x\n/);
  assert.deepEqual((await mergedWith({ upstream: null, direction: "inbound" })).unfollowed, [
    "service has x",
  ]);
  assert.deepEqual((await mergedWith({ upstream: null })).unfollowed, [], "it leads nowhere");
});

test("mergeExplained() is undefined when no worker answers", async () => {
  assert.equal(await mergeExplained([], NO_MESH), undefined);
});

test("explainText() aligns every section", async () => {
  assert.equal(
    explainText(await merged([0, 1].map(explainedBy)), AT),
    `${PROXY_LINE}
request      PUT db/a
listener     service:default/default/db (outbound, http)
verdict      leaves this proxy; the last request was answered 503 by the other side
route        routes[0] (/a*) to db
plugins      guard  header_rules  broken: not run for a while
             retry  retry         on this route {"numRetries":2,"retryOn":["5xx"]}; skipped when it fails
to           100 % of the requests, maglev by header x-user
             sent as PUT db/new/a
             first db.default.dc1, connects within 2500 ms
               10.0.0.9:8080  node-db  weight 1  3 requests open  passes Consul's checks, ejected by 1 of 2 workers, last with status 503, takes connections
timeouts     request 15s, idle none, unless a plugin sets others
limits       connections  1 of 10
             pending      0 of 10
             requests     3 of 10
not known    header_rules: may answer.
`,
  );
});

for (
  const [name, config, routeConfig, ofSplits, want] of [
    ["of the listener", {}, undefined, [undefined], ["request 15s, idle none"]],
    ["of the plugin", { requestTimeoutMs: 4_000 }, undefined, [undefined], [
      "request 4s, idle none",
    ]],
    ["of the route", { requestTimeoutMs: 4_000 }, { requestTimeoutMs: 2_000 }, [undefined], [
      "request 2s, idle none",
    ]],
    ["that a route removes", { requestTimeoutMs: 4_000 }, { requestTimeoutMs: 0 }, [undefined], [
      "request none, idle none",
    ]],
    ["of a split", {}, { requestTimeoutMs: 2_000 }, [undefined, { idleTimeoutMs: 500 }], [
      "50 %: request 2s, idle none",
      "50 %: request 15s, idle 500 ms",
    ]],
  ] as const
) {
  test(`explainText() shows the timeout ${name}`, async () => {
    const [one] = [explainedBy(0)];
    assert.ok(one?.kind === "answer");
    const [split] = one.explanation.splits;
    const plugin = { phase: "filter", onFailure: "refuse", isBroken: false } as const;
    assert.ok(split);
    const explanation: Explanation = {
      ...one.explanation,
      plugins: [{ ...plugin, name: "timeout", config, routeConfig }],
      splits: ofSplits.map((timeout) => ({
        ...split,
        chance: 1 / ofSplits.length,
        plugins: timeout ? { timeout } : {},
      })),
    };
    const text = explainText(await merged([{ ...one, explanation }]), AT);
    assert.deepEqual(
      /^timeouts +(.*(?:\n {13}.*)*)$/m.exec(text)?.[1]?.split(/\n +/),
      want,
      text,
    );
  });
}

test("explainText() names the permission that decides and the unmet match of the others", async () => {
  const shown: ExplanationView = {
    ...await merged([explainedBy(0)]),
    source: "spiffe://a/shop",
    answer: { status: 403, grpcStatus: null, code: "intention_denied", reason: "permission 2" },
    rule: "shop => db (permission 2)",
    permissions: [
      { permission: 1, text: "allow GET /*", unmet: "method GET", decides: null },
      { permission: 2, text: "deny /admin*", unmet: null, decides: "deny" },
    ],
    plugins: [],
    splits: [],
    route: null,
    limits: null,
    unknown: [],
    local: null,
  };
  assert.equal(
    explainText(shown, AT),
    `${PROXY_LINE}
request      PUT db/a
listener     service:default/default/db (outbound, http)
source       spiffe://a/shop
verdict      refused with 403: permission 2
rule         shop => db (permission 2)
permissions  1  allow GET /*  does not cover it: it needs method GET
             2  deny /admin*  covers it: denies
timeouts     request 15s, idle none
`,
  );
});
