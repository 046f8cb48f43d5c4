import assert from "node:assert/strict";
import { test } from "node:test";
import type { AccessLogSettings } from "../../consul/mod.ts";
import type { Refusal } from "../../snapshot/mod.ts";
import { accessLogPart } from "./access_logs.ts";

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
