import assert from "node:assert/strict";
import { test } from "node:test";
import type { Refusal } from "../../snapshot/mod.ts";
import { explainText } from "./explain_text.ts";
import {
  calleeAsker,
  explainRefused,
  refusedText,
  refusedUpstream,
  sourceNote,
} from "./explain_for.ts";
import { exitCodeOf } from "./verdict.ts";
import { createAuthority } from "../../../test/kit/certs/certificates.ts";
import { explainedBy } from "../../../test/kit/admin/admin_view.ts";
import { intention, snapshotOf } from "../../../test/kit/engine/snapshots.ts";
import { ProxyError } from "../../base/mod.ts";
import type { SplitView, TargetView } from "../../proxy/mod.ts";
import type { MeshQuestions } from "../view.ts";

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
    proxy: { id: "/etc/web.json", service: "web" },
    hasConsul: true,
    unfollowed: () => [`${FAR.what} is refused: ${FAR.reason}`, 'Upstream "db" has x'],
  };
  const view = explainRefused(FAR, mesh);
  assert.equal(exitCodeOf(view), 1);
  assert.equal(
    explainText(view, "[::1]:1"),
    `proxy        /etc/web.json of service web, admin server [::1]:1
listener     service:default/default/db?dc=dc2 (outbound)
verdict      the connection is refused: nothing listens on 127.0.0.1:9005: the upstream is refused: no service:default/default/db?dc=dc2
unfollowed   Upstream "db" has x
`,
  );
});

const local = { kind: "tcp", host: "127.0.0.1", port: 8080 } as const;
const SNAPSHOT = snapshotOf({ ca: createAuthority(), service: "web", local });
const DOMAIN = SNAPSHOT.credentials?.trustDomains[0] ?? "";

function mesh(change: Partial<MeshQuestions>): MeshQuestions {
  return {
    askIntentions: () => Promise.resolve([intention("web", "deny")]),
    askInCatalog: () => Promise.resolve(false),
    ...change,
  };
}

function asked(trustDomain: string): readonly [SplitView, TargetView] {
  const explained = explainedBy(0);
  assert.ok(explained.kind === "answer");
  const [split] = explained.explanation.splits;
  const [target] = split?.targets ?? [];
  assert.ok(split && target);
  const uri = `spiffe://${trustDomain}/ns/default/dc/dc1/svc/db`;
  return [split, { ...target, spiffeUris: [uri] }];
}

for (
  const [name, questions, domain, want] of [
    ["an intention that denies", mesh({}), DOMAIN, /^deny .*web/],
    [
      "one that allows",
      mesh({ askIntentions: () => Promise.resolve([intention("web", "allow")]) }),
      DOMAIN,
      /^allow .*web/,
    ],
    [
      "none",
      mesh({ askIntentions: () => Promise.resolve([]) }),
      DOMAIN,
      /^deny default deny$/,
    ],
    [
      "those that the token may not read",
      mesh({
        askIntentions: () =>
          Promise.reject(new ProxyError("agent_forbidden", "lacks permission intentions:read")),
      }),
      DOMAIN,
      /^unknown lacks permission intentions:read$/,
    ],
    ["those of another cluster", mesh({}), "other.consul", /^unknown it is in another cluster/],
    ["unknown without Consul", undefined, DOMAIN, /^unknown there is no Consul/],
  ] as [string, MeshQuestions | undefined, string, RegExp][]
) {
  test(`calleeAsker() gives the verdict of the callee's intentions: ${name}`, async () => {
    const callee = await calleeAsker(SNAPSHOT, questions)(...asked(domain));
    assert.equal(callee?.service, "db");
    assert.match(`${callee.verdict} ${callee.reason}`, want);
  });
}

for (
  const [name, isThere, want] of [
    ["a source that is there", () => Promise.resolve(true), /^$/],
    ["one that is not", () => Promise.resolve(false), /^no service "db" is in the catalog of dc1/],
    ["one that may not be read", () => Promise.resolve(undefined), /the token may not read it$/],
    ["a Consul that is away", () => Promise.reject(new Error("away")), /not known: away$/],
  ] as [string, MeshQuestions["askInCatalog"], RegExp][]
) {
  test(`sourceNote() of ${name}`, async () => {
    const uri = `spiffe://${DOMAIN}/ns/default/dc/dc1/svc/db`;
    assert.match(await sourceNote(uri, SNAPSHOT, mesh({ askInCatalog: isThere })), want);
  });
}
