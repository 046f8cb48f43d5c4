/** Headers that carry a trace: whatever a caller sends, what is written afterwards reads as one valid position. */

import assert from "node:assert/strict";
import { type Fields, readTrace, TRACE_FORMS, writeTrace } from "../../src/http/mod.ts";
import type { FuzzTarget } from "./fuzz.ts";

const encode = (text: string) => new TextEncoder().encode(text);

export const target: FuzzTarget = {
  name: "trace_context",
  corpus: [
    "traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    "b3: 80f198ee56343ba864fe8b2a57d3eff7-e457b5a2e4d86bd1-1-05e3ac9a4f6e3b90",
    "x-b3-traceid: e457b5a2e4d86bd1\nx-b3-spanid: e457b5a2e4d86bd1\nx-b3-sampled: 1",
    "x-datadog-trace-id: 18446744073709551615\nx-datadog-parent-id: 7\nx-datadog-tags: _dd.p.tid=640cfd8d00000000,a=b",
  ].map(encode),
  dictionary: ["traceparent: ", "b3: ", "x-b3-flags: 1", "-", "00", "ff", "0", "\n", "d"],
  limitBytes: 2_000,
  run(input) {
    const text = Array.from(input, (octet) => String.fromCharCode(octet)).join("");
    const fields: Fields = text.split("\n").flatMap((line) => {
      const [name = "", ...value] = line.split(": ");
      return [name, value.join(": "), name];
    });
    const { parent } = readTrace(fields, TRACE_FORMS);
    if (parent) {
      assert.match(parent.traceId, /^(?!0{32})[0-9a-f]{32}$/);
      assert.match(parent.spanId, /^(?!0{16})[0-9a-f]{16}$/);
    }
    const traceId = parent?.traceId ?? "1".repeat(32);
    const position = { traceId, spanId: "2".repeat(16), parentId: "", isSampled: true };
    writeTrace(fields, position, TRACE_FORMS);
    for (const form of TRACE_FORMS) {
      const { parent: read } = readTrace(fields, [form]);
      assert.deepEqual(read, { form, traceId, spanId: position.spanId, isSampled: true }, form);
    }
  },
};
