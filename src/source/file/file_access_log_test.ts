import assert from "node:assert/strict";
import { test } from "node:test";
import { parseFileConfig } from "./file_config.ts";

function read(accessLog: unknown) {
  const parsed = parseFileConfig(
    JSON.stringify({
      service: "web",
      credentials: { source: "file", cert: "a", key: "b", ca: "c" },
      inbound: { bind: ":20000", local: "127.0.0.1:8080" },
      accessLog,
    }),
    { file: "/etc/postern/web.json", env: {} },
  );
  return parsed.kind === "valid"
    ? parsed.config.accessLog
    : parsed.problems.map(({ path, message }) => `${path} ${message}`);
}

for (
  const [given, want] of [
    [undefined, undefined],
    [{}, { to: { kind: "stdout" }, format: { kind: "default" }, listeners: true }],
    [{ type: "file", path: "/v/l", textFormat: "%PROTOCOL%", disableListenerLogs: true }, {
      to: { kind: "file", path: "/v/l" },
      format: { kind: "text", text: "%PROTOCOL%" },
      listeners: false,
    }],
    [{ type: "stderr", jsonFormat: { a: ["%PROTOCOL%"] } }, {
      to: { kind: "stderr" },
      format: { kind: "json", json: '{"a":["%PROTOCOL%"]}' },
      listeners: true,
    }],
  ] as const
) {
  test(`accessLog of a configuration file: ${JSON.stringify(given)}`, () => {
    assert.deepEqual(read(given), want);
  });
}

for (
  const [given, want] of [
    [{ type: "syslog" }, /^accessLog\.type must be stdout, stderr or file$/],
    [{ type: "file" }, /^accessLog must have a path where its type is "file", and nowhere else$/],
    [{ path: "/v/l" }, /^accessLog must have a path where its type is "file", and nowhere else$/],
    [{ textFormat: "a", jsonFormat: {} }, /^accessLog must not have both/],
    [{ textFormat: "%NOPE%" }, /^accessLog\.textFormat has the operator NOPE, which is not known/],
    [{ textFormat: "" }, /^accessLog\.textFormat must not be empty$/],
    [{ jsonFormat: [] }, /^accessLog\.jsonFormat must be an object/],
    [{ jsonFormat: { a: "%" } }, /^accessLog\.jsonFormat has "%" without an operator/],
    [{ format: "x" }, /^accessLog\.format is not known here/],
  ] as const
) {
  test(`accessLog of a configuration file is refused: ${JSON.stringify(given)}`, () => {
    const problems = read(given);
    assert.ok(Array.isArray(problems));
    assert.equal(problems.length, 1, problems.join("\n"));
    assert.match(problems[0] ?? "", want);
  });
}
