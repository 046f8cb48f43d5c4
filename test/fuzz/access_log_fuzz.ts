/**
 * Formats of access logs: any is compiled or refused; and whatever a caller sends in a logged field, a
 * line stays one line, and JSON stays JSON with the keys that the format gave it.
 *
 * @module
 */

import assert from "node:assert/strict";
import { compileFormat, type LogFormat } from "../../src/http/mod.ts";
import { exchangeRecord, requestHead } from "../kit/wire/exchange_records.ts";
import type { FuzzTarget } from "./fuzz.ts";

const AROUND = { hostname: "host", now: () => 0 };
const encode = (text: string) => new TextEncoder().encode(text);
const FIXED: LogFormat = { kind: "json", json: '{"a":"%REQ(X)%","b":{"c":"<%REQ(X)%>"}}' };

function lineOf(format: LogFormat, header: string): string | undefined {
  const compiled = compileFormat(format, AROUND);
  if (compiled.kind === "refused") {
    assert.ok(compiled.reason.length < 4_000);
    return undefined;
  }
  const request = requestHead({ path: header, fields: ["x", header, "X"] });
  return compiled.line(exchangeRecord({}, { request }));
}

export const target: FuzzTarget = {
  name: "access_log",
  corpus: [
    '{"a":"%START_TIME(%Y-%m-%dT%H:%M:%S.%3fZ)%","b":["%REQ(A?B):20%",1,null]}',
    "%COMMON_DURATION(DS_RX_BEG:DS_TX_END:us)% %GRPC_STATUS(SNAKE_STRING)% 100%%\n",
    '[%EMIT_TIME%] "%PATH(NQ:ORIG)%" %QUERY_PARAM(x)% %RESPONSE_FLAGS_LONG%',
    'agent" \\ \x1b[2J caf\xe9 \u2028',
  ].map(encode),
  dictionary: ["%", "%%", "%REQ(", ")%", "):9%", "%START_TIME(%", '"', "\\", "{", "[", "\n", "?"],
  limitBytes: 2_000,
  run(input) {
    const text = new TextDecoder().decode(input);
    const octets = String.fromCharCode(...input);
    const own = lineOf({ kind: "text", text }, "x");
    if (own !== undefined) assert.ok(own.endsWith("\n"));
    const json = lineOf({ kind: "json", json: text }, octets);
    if (json !== undefined) JSON.parse(json);
    const line = lineOf(FIXED, octets) ?? "";
    assert.deepEqual(Object.keys(JSON.parse(line)), ["a", "b"]);
    assert.equal(line.split(/[\r\n\u2028\u2029]/).length, 2);
    const quoted = lineOf({ kind: "text", text: '"%REQ(X)%"' }, octets) ?? "";
    assert.match(quoted, /^"(?:[^"\\\p{Cc}]|\\.)*"\n$/u);
  },
};
