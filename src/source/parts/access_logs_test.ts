import assert from "node:assert/strict";
import { test } from "node:test";
import type { AccessLogSettings } from "../../consul/mod.ts";
import type { Refusal } from "../../snapshot/mod.ts";
import { accessLogPart, accessLogSampling } from "./access_logs.ts";

const SETTINGS: AccessLogSettings = {
  disableListenerLogs: false,
  type: "",
  path: "",
  jsonFormat: "",
  textFormat: "",
};
const DEFAULT = { to: { kind: "stdout" }, format: { kind: "default" }, listeners: true };

function read(settings: Partial<AccessLogSettings> | undefined) {
  const refused: Refusal[] = [];
  const part = accessLogPart(settings && { ...SETTINGS, ...settings }, {
    previous: undefined,
    version: 3,
    refused,
  });
  if (!part) return { part, refused };
  const { version, ...content } = part;
  assert.equal(version, 3);
  return { part: content, refused };
}

for (
  const [name, settings, want] of [
    ["nothing where none is wanted", undefined, null],
    ["what Consul gives where nothing is said", {}, DEFAULT],
    ["stderr", { type: "stderr" }, { ...DEFAULT, to: { kind: "stderr" } }],
    ["a file", { type: "file", path: "/v/l" }, { ...DEFAULT, to: { kind: "file", path: "/v/l" } }],
    ["no listener's lines", { disableListenerLogs: true }, { ...DEFAULT, listeners: false }],
    ["a text", { textFormat: "%PROTOCOL%" }, {
      ...DEFAULT,
      format: { kind: "text", text: "%PROTOCOL%" },
    }],
    ["JSON where the merge gave both", { textFormat: "x", jsonFormat: '{"a":"b"}' }, {
      ...DEFAULT,
      format: { kind: "json", json: '{"a":"b"}' },
    }],
  ] as const
) {
  test(`accessLogPart() takes ${name}`, () => {
    assert.deepEqual(read(settings), { part: want, refused: [] });
  });
}

for (
  const [settings, part, reason] of [
    [{ type: "file" }, null, /^Type is file and Path is empty; nothing is written$/],
    [{ type: "syslog" }, null, /^Type "syslog" is none of stdout, stderr and file; nothing/],
    [
      { textFormat: "%NOPE%" },
      DEFAULT,
      /^TextFormat has the operator NOPE, .* The default format is written instead$/,
    ],
    [{ jsonFormat: "[]" }, DEFAULT, /^JSONFormat is no JSON object\. The default/],
  ] as const
) {
  test(`accessLogPart() refuses ${JSON.stringify(settings)}`, () => {
    const got = read(settings);
    assert.deepEqual(got.part, part);
    assert.deepEqual(got.refused.map(({ what }) => what), ["access log"]);
    assert.match(got.refused[0]?.reason ?? "", reason);
  });
}

test("accessLogPart() keeps its version while nothing changes", () => {
  const context = { previous: undefined, version: 3, refused: [] };
  const accessLog = accessLogPart(SETTINGS, context);
  // Only this member of a snapshot is looked at.
  const previous = { accessLog } as never;
  assert.equal(accessLogPart(SETTINGS, { ...context, previous, version: 4 }), accessLog);
});

test("accessLogSampling() reads rules as they are written in Consul", () => {
  const refused: Refusal[] = [];
  const rules = accessLogSampling([
    { status: "5xx", every: 1 },
    { slow: "500ms", denied: false, path: "/a", every: 2 },
    { every: 100 },
  ], refused);
  assert.deepEqual(rules, [
    { status: "5xx", every: 1 },
    { slowMs: 500, isDenied: false, path: "/a", every: 2 },
    { every: 100 },
  ]);
  assert.deepEqual(refused, []);
});

for (
  const [given, reason] of [
    [[{ every: 0 }], /^postern_access_log_sampling\[0\]\.every must be at least 1.*every line is/],
    [[{ status: "6xx", every: 1 }], /\[0\]\.status must be a status such as 503 or 5xx/],
    [[{ every: 9 }, { status: "5xx", every: 1 }], /without a condition before its last one/],
    [[{ rate: 9 }], /is missing|not known/],
    ["1%", /must be a list/],
  ] as const
) {
  test(`accessLogSampling() refuses ${JSON.stringify(given)}, and every line is written`, () => {
    const refused: Refusal[] = [];
    assert.equal(accessLogSampling(given, refused), undefined);
    assert.equal(refused.length, 1);
    assert.match(refused[0]?.reason ?? "", reason);
  });
}
