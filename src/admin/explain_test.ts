import assert from "node:assert/strict";
import { test } from "node:test";
import { explainedBy } from "../../test/kit/admin_view.ts";
import type { Explained } from "../proxy/mod.ts";
import { mergeExplained, type Shown } from "./explain.ts";
import { explainText } from "./explain_text.ts";

function merged(all: readonly Explained[]): Shown {
  const shown = mergeExplained(all);
  assert.ok(shown && !("reason" in shown));
  return shown;
}

test("mergeExplained() sums what workers say of an endpoint, and keeps the worst of it", () => {
  const shown = merged([0, 1].map(explainedBy));
  assert.deepEqual(shown.splits[0]?.targets[0]?.endpoints, [{
    ...{ id: "node-db", address: "10.0.0.9:8080", weight: 1, active: 3, failures: 1 },
    ...{ ejectedForMs: 9_000, lastResort: false, ejectedBy: 1 },
  }]);
  assert.deepEqual(shown.plugins.map(({ isBroken }) => isBroken), [true, false]);
});

test("mergeExplained() shows no text that a plugin is told, but where none can be a key", () => {
  const [rules, retry] = merged([explainedBy(0)]).plugins;
  assert.deepEqual(rules?.config, { request: { set: { authorization: "(not shown)" } } });
  assert.deepEqual(retry?.routeConfig, { numRetries: 2, retryOn: ["5xx"] });
});

test("mergeExplained() says nothing where nobody answered", () => {
  assert.equal(mergeExplained([]), undefined);
});

test("explainText() has one aligned table for each thing", () => {
  assert.equal(
    explainText(merged([0, 1].map(explainedBy))),
    `request      PUT db/a
listener     service:default/default/db (outbound, http)
verdict      goes on
route        routes[0] (/a*) to db
plugins      guard  header_rules  configured {"request":{"set":{"authorization":"(not shown)"}}}; broken: not asked now
             retry  retry         on this route {"numRetries":2,"retryOn":["5xx"]}; passed by where it fails
to           100 % of the requests, maglev by header x-user
             header_rules is told {"request":{"set":{"a":"(not shown)"}}}
             first db.default.dc1, connects within 2500 ms
               10.0.0.9:8080  node-db  weight 1  3 open  ejected by 1 of 2 workers
timeouts     request 15s, idle none where no plugin says another
limits       connections  1 of 10
             pending      0 of 10
             requests     3 of 10
not known    header_rules: may answer.
`,
  );
});

test("explainText() says which permission decides, and what the others lack", () => {
  const shown: Shown = {
    ...merged([explainedBy(0)]),
    ...{
      source: "spiffe://a/shop",
      verdict: "deny",
      status: 403,
      rule: "shop => db (permission 2)",
    },
    permissions: [
      { permission: 1, text: "allow GET /*", unmet: "method GET" },
      { permission: 2, text: "deny /admin*", unmet: null },
    ],
    ...{ plugins: [], splits: [], route: null, limits: null, unknown: [], local: null },
  };
  assert.equal(
    explainText(shown),
    `request      PUT db/a
listener     service:default/default/db (outbound, http)
source       spiffe://a/shop
verdict      refused with 403
rule         shop => db (permission 2)
permissions  1  allow GET /*  does not hold: method GET
             2  deny /admin*  holds, and decides
timeouts     request 15s, idle none where no plugin says another
`,
  );
});
