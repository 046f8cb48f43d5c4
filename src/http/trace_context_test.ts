import assert from "node:assert/strict";
import { test } from "node:test";
import type { Fields } from "./head.ts";
import { quickDecision, readTrace, TRACE_FORMS, writeTrace } from "./trace_context.ts";

const TRACE = "0af7651916cd43dd8448eb211c80319c";
const SPAN = "b7ad6b7169203331";

function fieldsOf(headers: Readonly<Record<string, string>>): Fields {
  return Object.entries(headers).flatMap(([name, value]) => [name, value, name]);
}

for (
  const [name, headers, wanted] of [
    ["W3C", { traceparent: `00-${TRACE}-${SPAN}-01` }, ["tracecontext", TRACE, SPAN, true]],
    ["flags other than sampled", { traceparent: `00-${TRACE}-${SPAN}-02` }, [
      "tracecontext",
      TRACE,
      SPAN,
      false,
    ]],
    ["a later version", { traceparent: `01-${TRACE}-${SPAN}-01-more` }, [
      "tracecontext",
      TRACE,
      SPAN,
      true,
    ]],
    ["version 00 with more", { traceparent: `00-${TRACE}-${SPAN}-01-more` }, undefined],
    ["version ff", { traceparent: `ff-${TRACE}-${SPAN}-01` }, undefined],
    ["capitals in W3C", { traceparent: `00-${TRACE.toUpperCase()}-${SPAN}-01` }, undefined],
    ["zeros", { traceparent: `00-${"0".repeat(32)}-${SPAN}-01` }, undefined],
    ["W3C before B3", { b3: `${SPAN}-${SPAN}-0`, traceparent: `00-${TRACE}-${SPAN}-01` }, [
      "tracecontext",
      TRACE,
      SPAN,
      true,
    ]],
    ["B3 after an invalid W3C", { b3: `${TRACE}-${SPAN}`, traceparent: "x" }, [
      "b3",
      TRACE,
      SPAN,
      undefined,
    ]],
    ["a debug flag of B3", { "x-b3-traceid": SPAN, "x-b3-spanid": SPAN, "x-b3-flags": "1" }, [
      "b3multi",
      "0".repeat(16) + SPAN,
      SPAN,
      true,
    ]],
    ["Datadog with its upper half", {
      "x-datadog-trace-id": "10",
      "x-datadog-parent-id": "11",
      "x-datadog-sampling-priority": "-1",
      "x-datadog-tags": "_dd.p.dm=-1,_dd.p.tid=640cfd8d00000000",
    }, ["datadog", "640cfd8d00000000000000000000000a", "000000000000000b", false]],
    ["Datadog beyond 64 bits", {
      "x-datadog-trace-id": "18446744073709551616",
      "x-datadog-parent-id": "11",
    }, undefined],
  ] as const
) {
  test(`readTrace() reads ${name}`, () => {
    const { parent } = readTrace(fieldsOf(headers), TRACE_FORMS);
    const read = parent && [parent.form, parent.traceId, parent.spanId, parent.isSampled];
    assert.deepEqual(read, wanted);
    const quick = quickDecision(fieldsOf(headers), TRACE_FORMS);
    if (quick !== undefined) assert.deepEqual([quick, read?.[3]], ["unsampled", false]);
  });
}

for (
  const [name, headers, forms, wanted] of [
    ["no trace header", { accept: "*/*", te: "trailers", "x-d": "1" }, TRACE_FORMS, "none"],
    [
      "a caller that does not sample",
      { traceparent: `00-${TRACE}-${SPAN}-00` },
      TRACE_FORMS,
      "unsampled",
    ],
    ["a caller that samples", { traceparent: `00-${TRACE}-${SPAN}-01` }, TRACE_FORMS, undefined],
    ["flags with a letter", { traceparent: `00-${TRACE}-${SPAN}-0b` }, TRACE_FORMS, undefined],
    [
      "a trace id of zeros",
      { traceparent: `00-${"0".repeat(32)}-${SPAN}-00` },
      TRACE_FORMS,
      undefined,
    ],
    [
      "another form beside it",
      { traceparent: `00-${TRACE}-${SPAN}-00`, b3: "1" },
      TRACE_FORMS,
      undefined,
    ],
    [
      "forms that do not begin with W3C",
      { traceparent: `00-${TRACE}-${SPAN}-00` },
      ["b3"],
      undefined,
    ],
  ] as const
) {
  test(`quickDecision() of ${name}: ${wanted}`, () => {
    assert.equal(quickDecision(fieldsOf(headers), forms), wanted);
  });
}

test("readTrace() takes no traceparent that occurs twice, and a decision without ids", () => {
  const one = fieldsOf({ traceparent: `00-${TRACE}-${SPAN}-01` });
  assert.equal(readTrace([...one, ...one], TRACE_FORMS).parent, undefined);
  const { parent, isSampled, carried } = readTrace(fieldsOf({ b3: "0" }), TRACE_FORMS);
  assert.deepEqual([parent, isSampled, carried], [undefined, false, ["b3"]]);
});

test("writeTrace() keeps other tags of Datadog, and an id of 64 bits as it was", () => {
  const fields = fieldsOf({ "x-datadog-tags": "_dd.p.dm=-1,_dd.p.tid=1111111111111111" });
  const traceId = "0".repeat(16) + SPAN;
  const position = { traceId, spanId: SPAN, parentId: "", isSampled: false };
  writeTrace(fields, position, ["datadog", "b3"]);
  assert.deepEqual(fields.filter((_, at) => at % 3 < 2), [
    "x-datadog-tags",
    "_dd.p.dm=-1",
    "x-datadog-trace-id",
    BigInt(`0x${SPAN}`).toString(),
    "x-datadog-parent-id",
    BigInt(`0x${SPAN}`).toString(),
    "x-datadog-sampling-priority",
    "0",
    "b3",
    `${SPAN}-${SPAN}-0`,
  ]);
});
