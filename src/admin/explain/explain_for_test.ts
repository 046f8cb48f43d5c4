import assert from "node:assert/strict";
import { test } from "node:test";
import type { Refusal } from "../../snapshot/mod.ts";
import { explainText } from "./explain_text.ts";
import { explainRefused, refusedText, refusedUpstream } from "./explain_for.ts";
import { exitCodeOf } from "./verdict.ts";

function refusal(id: string, name: string, port?: number): Refusal {
  const bind = port === undefined ? null : { kind: "tcp", host: "127.0.0.1", port } as const;
  return { what: `upstream ${id}`, reason: `no ${id}`, upstream: { id, name, bind } };
}

const DB = refusal("service:default/default/db", "db", 9_000);
const FAR = refusal("service:default/default/db?dc=dc2", "db", 9_005);
const NEAR = refusal("prepared_query:near", "near");
const OTHER: Refusal = { what: "exposed path /db", reason: "other" };

for (
  const [named, refused, want] of [
    ["db", [DB], DB],
    ["db:80", [DB], DB],
    ["db", [FAR], FAR],
    ["db", [FAR, DB], DB],
    ["db?dc=dc2", [DB, FAR], FAR],
    ["service:default/default/db?dc=dc2", [DB, FAR], FAR],
    ["127.0.0.1:9005", [DB, FAR], FAR],
    ["prepared_query:near", [NEAR], NEAR],
    ["near", [NEAR], NEAR],
    ["b", [DB], undefined],
    ["db?dc=2", [DB, FAR], undefined],
    ["exposed path /db", [OTHER], undefined],
    ["db", [FAR, refusal("service:default/default/db?dc=dc3", "db")], undefined],
  ] as const
) {
  const among = refused.map(({ what }) => what).join(", ");
  test(`refusedUpstream() finds ${want?.what ?? "nothing"} for ${named} among ${among}`, () => {
    assert.equal(refusedUpstream(refused, named), want);
  });
}

test("refusedText() lists refused upstreams with their local addresses", () => {
  assert.equal(
    refusedText([FAR, OTHER, NEAR]),
    "; refused: db?dc=dc2 (127.0.0.1:9005) prepared_query:near",
  );
  assert.equal(refusedText([OTHER]), "");
});

test("explainRefused() gives the refusal once and lists other configuration that is not followed", () => {
  const mesh = {
    hasConsul: true,
    unfollowed: () => [`${FAR.what} is refused: ${FAR.reason}`, 'Upstream "db" has x'],
  };
  const view = explainRefused(FAR, mesh);
  assert.equal(exitCodeOf(view), 1);
  assert.equal(
    explainText(view),
    `listener     service:default/default/db?dc=dc2 (outbound)
verdict      the connection is refused: nothing listens on 127.0.0.1:9005: the upstream is refused: no service:default/default/db?dc=dc2
unfollowed   Upstream "db" has x
`,
  );
});
