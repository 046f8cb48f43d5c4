import assert from "node:assert/strict";
import { test } from "node:test";
import { httpRules } from "../../../test/kit/engine/snapshots.ts";
import { exchangeRecord, requestHead } from "../../../test/kit/wire/exchange_records.ts";
import { addField, DENIED_BY, type Fields, fieldsOf } from "../../http/mod.ts";
import type { ShownDenials } from "../../snapshot/mod.ts";
import type { ListenerFacts, Session } from "../caller/session.ts";
import { dropDenial, ownDenial, takeDenial } from "./denials.ts";
import type { HttpListener } from "./stages.ts";

type Kind = "inbound" | "upstream" | "edge";

/** An edge, or an upstream whose callers speak TLS, is there for any caller. */
function listenerOf(kind: Kind, showDenials: ShownDenials = "code") {
  const facts = {
    direction: kind === "inbound" ? "inbound" : "outbound",
    callers: kind === "upstream" ? "own" : "strangers",
  };
  return {
    facts: facts as ListenerFacts,
    rules: () => httpRules("http", { showDenials }),
  } satisfies Pick<HttpListener, "facts" | "rules">;
}

function fieldsWith(...values: readonly string[]): Fields {
  const fields: Fields = [];
  addField(fields, "content-type", "text/plain");
  for (const value of values) addField(fields, DENIED_BY, value);
  return fields;
}

const CODE = "intention_denied";
const GRPC: Fields = ["content-type", "application/grpc", "content-type"];

for (
  const [name, kind, given, code, left] of [
    ["of an upstream", "upstream", {}, CODE, [CODE]],
    ["of an upstream, not for the application", "upstream", { show: "off" }, CODE, []],
    ["of an upstream that any may call", "edge", {}, CODE, []],
    ["of a local application", "inbound", { service: undefined }, undefined, []],
    [
      "of a local application with a success",
      "inbound",
      {
        service: undefined,
        status: 200,
      },
      undefined,
      [],
    ],
    ["of a server without a proven name", "upstream", { service: "" }, undefined, []],
    ["of a plugin", "upstream", { details: "direct_response" }, undefined, []],
    ["with an unknown code", "upstream", { values: ["a_new_code"] }, undefined, []],
    ["that is there twice", "upstream", { values: [CODE, "rate_limited"] }, undefined, []],
    ["in a success", "upstream", { status: 200 }, undefined, [CODE]],
    ["in a success, at an edge", "edge", { status: 200 }, undefined, []],
    ["in a gRPC status", "upstream", { status: 200, request: GRPC, ends: true }, CODE, [CODE]],
    ["in a gRPC response with messages", "upstream", { status: 200, request: GRPC }, undefined, [
      CODE,
    ]],
  ] as const satisfies readonly (readonly [string, Kind, object, string | undefined, unknown])[]
) {
  test(`takeDenial() judges the field ${name}`, () => {
    const { show, service, status, details, values, request, ends } = {
      show: "code" as ShownDenials,
      service: "db",
      status: 403,
      details: "via_upstream",
      values: [CODE] as readonly string[],
      request: [] as Fields,
      ends: false,
      ...given,
    };
    const record = exchangeRecord();
    record.details = details;
    record.upstream = { local: "", ...service !== undefined && { service } };
    const head = { status, length: 0, fields: fieldsWith(...values) };
    takeDenial(head, listenerOf(kind, show), {
      record,
      request: requestHead({ fields: request }),
      ends,
    });
    assert.equal(record.denial?.code, code);
    assert.deepEqual(fieldsOf(head.fields, DENIED_BY), left);
    assert.deepEqual(fieldsOf(head.fields, "content-type"), ["text/plain"]);
  });
}

const VERIFIED = { verified: true } as Session["peer"];

for (
  const [name, kind, peer, show, code, want] of [
    ["code", "inbound", VERIFIED, "code", CODE, { code: CODE, rule: "" }],
    ["code and rule", "inbound", VERIFIED, "rule", CODE, { code: CODE, rule: "deny web" }],
    ["code of another refusal", "inbound", VERIFIED, "rule", "rate_limited", {
      code: "rate_limited",
      rule: "",
    }],
    ["nothing if it is off", "inbound", VERIFIED, "off", CODE, undefined],
    ["nothing to a caller without TLS", "inbound", undefined, "code", CODE, undefined],
    ["nothing to an unverified caller", "inbound", { verified: false }, "rule", CODE, undefined],
    ["nothing to the local application", "upstream", undefined, "code", "no_endpoint", undefined],
    ["nothing at an edge", "edge", VERIFIED, "code", "no_endpoint", undefined],
  ] as const
) {
  test(`ownDenial() tells ${name}`, () => {
    const record = { rule: "deny web" };
    const listener = listenerOf(kind, show);
    const denial = ownDenial(code, { listener, record, peer: peer as Session["peer"] });
    assert.deepEqual(denial, want);
  });
}

test("dropDenial() leaves what goes to the local application", () => {
  const left = (kind: Kind) => {
    const fields = fieldsWith(CODE);
    dropDenial(fields, listenerOf(kind));
    return fieldsOf(fields, DENIED_BY).length;
  };
  assert.deepEqual([left("upstream"), left("edge"), left("inbound")], [1, 0, 0]);
});
