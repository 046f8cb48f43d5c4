import assert from "node:assert/strict";
import { test } from "node:test";
import {
  DOWNSTREAM,
  exchangeRecord,
  requestHead,
  START_MS,
} from "../../../test/kit/wire/exchange_records.ts";
import { ExchangeRecord, FLAG } from "./exchange_record.ts";
import { compileFormat, DEFAULT_TEXT, KNOWN_OPERATORS, type LogFormat } from "./line_format.ts";

const AROUND = { hostname: "host-1", now: () => START_MS + 500 };

function lineOf(format: LogFormat, record = exchangeRecord()): string {
  const compiled = compileFormat(format, AROUND);
  assert.equal(compiled.kind, "compiled", compiled.kind === "refused" ? compiled.reason : "");
  return compiled.kind === "compiled" ? compiled.line(record) : "";
}
const text = (format: string, record = exchangeRecord()) =>
  lineOf({ kind: "text", text: format }, record).replace(/\n$/, "");
const json = (format: unknown, record = exchangeRecord()) =>
  JSON.parse(lineOf({ kind: "json", json: JSON.stringify(format) }, record));
function refusal(format: LogFormat): string {
  const compiled = compileFormat(format, AROUND);
  return compiled.kind === "refused" ? compiled.reason : assert.fail("it was accepted");
}

/** A record of a connection without a request or a response. */
const NOTHING = () =>
  new ExchangeRecord(
    {
      id: 8,
      remote: "unix",
      local: "",
      requestedServerName: "",
      tlsVersion: "",
      peer: undefined,
      localUri: "",
    },
    undefined,
    { wallMs: START_MS, monotonicMs: 1_000 },
  );

const SHA256 = "039058c6f2c0cb492c533b0a4d14ef77cc0f78abccced5287d84a1a2011cfb81";
const grpc = exchangeRecord({ responseTrailers: ["grpc-status", "5", "grpc-status"] });

for (
  const [operator, value, record, missing] of [
    ["%START_TIME%", "2026-11-21T07:30:00.042Z", , "2026-11-21T07:30:00.042Z"],
    ["%EMIT_TIME%", "2026-11-21T07:30:00.542Z", , "2026-11-21T07:30:00.542Z"],
    ["%REQ(:METHOD)%", "GET", , "-"],
    ["%REQ(:PATH)%", "/items?id=5", , "-"],
    ["%REQ(:AUTHORITY)%", "db.example", , "-"],
    ["%REQ(Host)%", "db.example", , "-"],
    ["%REQ(:SCHEME)%", "http", , "-"],
    ["%REQ(Content-Length)%", "0", , "-"],
    ["%REQ(Upgrade)%", "-", , "-"],
    ["%REQ(User-Agent)%", "curl/8.5.0", , "-"],
    ["%REQ(USER-AGENT):4%", "curl", , "-"],
    ["%REQ(USER-AGENT):0%", "-", , "-"],
    ["%REQ(X-NONE)%", "-", , "-"],
    ["%REQ(X-NONE?X-REQUEST-ID)%", "0d7e", , "-"],
    ["%REQ(X-ENVOY-ORIGINAL-PATH?:PATH)%", "/items?id=5", , "-"],
    [
      "%REQ(X-ENVOY-ORIGINAL-PATH?:PATH)%",
      "/a/../items",
      exchangeRecord({ originalPath: "/a/../items" }),
      "-",
    ],
    ["%RESP(Content-Type)%", "text/plain", , "-"],
    ["%RESP(:STATUS)%", "200", , "-"],
    ["%RESP(CONTENT-LENGTH)%", "25", , "-"],
    ["%RESP(X-ENVOY-UPSTREAM-SERVICE-TIME)%", "8", , "-"],
    ["%TRAILER(Grpc-Status)%", "5", grpc, "-"],
    ["%QUERY_PARAM(id)%", "5", , "-"],
    ["%QUERY_PARAM(i)%", "-", , "-"],
    ["%PATH%", "/items?id=5", , "-"],
    ["%PATH(NQ)%", "/items", , "-"],
    ["%PATH(NQ:ORIG)%", "/a", exchangeRecord({ originalPath: "/a?b" }), "-"],
    ["%PATH(WQ:ORIG_OR_PATH)%", "/items?id=5", , "-"],
    ["%PROTOCOL%", "HTTP/1.1", , "-"],
    ["%RESPONSE_CODE%", "200", , "0"],
    ["%RESPONSE_CODE_DETAILS%", "via_upstream", , "-"],
    ["%CONNECTION_TERMINATION_DETAILS%", "-", , "-"],
    ["%RESPONSE_FLAGS%", "UF,URX", exchangeRecord({ flags: FLAG.UF | FLAG.URX }), "-"],
    ["%RESPONSE_FLAGS_LONG%", "NoHealthyUpstream", exchangeRecord({ flags: FLAG.UH }), "-"],
    ["%BYTES_RECEIVED% %BYTES_SENT%", "0 25", , "0 0"],
    ["%DURATION%", "12", , "-"],
    ["%REQUEST_DURATION%", "1", , "-"],
    ["%RESPONSE_DURATION%", "9", , "-"],
    ["%RESPONSE_TX_DURATION%", "2", , "-"],
    ["%COMMON_DURATION(DS_RX_BEG:US_RX_BEG:us)%", "9750", , "-"],
    ["%COMMON_DURATION(US_TX_BEG:DS_TX_END:ms)%", "10", , "-"],
    ["%UPSTREAM_HOST%", "127.0.0.1:8080", , "-"],
    ["%UPSTREAM_REMOTE_ADDRESS%", "127.0.0.1:8080", , "-"],
    ["%UPSTREAM_REMOTE_ADDRESS_WITHOUT_PORT%", "127.0.0.1", , "-"],
    ["%UPSTREAM_REMOTE_PORT%", "8080", , "-"],
    ["%UPSTREAM_CLUSTER%", "local_app", , "-"],
    ["%UPSTREAM_CHOSEN_BY%", "canary", exchangeRecord({ chosenBy: "canary" }), "-"],
    ["%UPSTREAM_LOCAL_ADDRESS%", "127.0.0.1:51234", , "-"],
    ["%UPSTREAM_LOCAL_ADDRESS_WITHOUT_PORT%", "127.0.0.1", , "-"],
    ["%UPSTREAM_LOCAL_PORT%", "51234", , "-"],
    ["%UPSTREAM_REQUEST_ATTEMPT_COUNT%", "1", , "0"],
    [
      "%UPSTREAM_TRANSPORT_FAILURE_REASON%",
      "refused",
      exchangeRecord({ upstreamFailure: "refused" }),
      "-",
    ],
    ["%DOWNSTREAM_REMOTE_ADDRESS%", "10.0.0.7:40312", , "unix"],
    ["%DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT%", "10.0.0.7", , "unix"],
    ["%DOWNSTREAM_REMOTE_PORT%", "40312", , "-"],
    ["%DOWNSTREAM_DIRECT_REMOTE_ADDRESS%", "10.0.0.7:40312", , "unix"],
    ["%DOWNSTREAM_DIRECT_REMOTE_ADDRESS_WITHOUT_PORT%", "10.0.0.7", , "unix"],
    ["%DOWNSTREAM_DIRECT_REMOTE_PORT%", "40312", , "-"],
    ["%DOWNSTREAM_LOCAL_ADDRESS%", "10.0.0.8:20000", , "-"],
    ["%DOWNSTREAM_LOCAL_ADDRESS_WITHOUT_PORT%", "10.0.0.8", , "-"],
    ["%DOWNSTREAM_LOCAL_PORT%", "20000", , "-"],
    ["%DOWNSTREAM_PEER_URI_SAN%", "spiffe://td.consul/ns/default/dc/dc1/svc/web", , "-"],
    ["%DOWNSTREAM_PEER_SERIAL%", "0e1f", , "-"],
    ["%DOWNSTREAM_PEER_FINGERPRINT_256%", SHA256, , "-"],
    ["%DOWNSTREAM_LOCAL_URI_SAN%", "spiffe://td.consul/ns/default/dc/dc1/svc/db", , "-"],
    ["%DOWNSTREAM_TLS_VERSION%", "TLSv1.3", , "-"],
    ["%REQUESTED_SERVER_NAME%", "db.default.dc1.internal.td.consul", , "-"],
    ["%ROUTE_NAME%", "-", , "-"],
    ["%CONNECTION_ID%", "7", , "8"],
    ["%GRPC_STATUS%", "NotFound", grpc, "-"],
    ["%GRPC_STATUS(SNAKE_STRING)%", "NOT_FOUND", grpc, "-"],
    ["%GRPC_STATUS(NUMBER)% %GRPC_STATUS_NUMBER%", "5 5", grpc, "- -"],
    ["%HOSTNAME%", "host-1", , "host-1"],
    ["100%% of %REQ(:METHOD)%", "100% of GET", , "100% of -"],
  ] as const
) {
  test(`compileFormat() of ${operator}`, () => {
    assert.equal(text(operator, record), value);
    assert.equal(text(operator, NOTHING()), missing);
  });
}

test("every operator has a row in the table above", async () => {
  const own = await import("node:fs").then(({ readFileSync }) =>
    readFileSync(new URL(import.meta.url), "utf8")
  );
  for (const name of KNOWN_OPERATORS) assert.match(own, new RegExp(`%${name}[(%]`), name);
});

for (
  const [format, want] of [
    ["%Y/%m/%dT%H:%M:%S%z %s", "2026/11/21T07:30:00+0000 1795246200"],
    ["%s.%3f", "1795246200.042"],
    ["%H:%M:%S.%f", "07:30:00.042000000"],
    ["%1f %6f", "0 042000"],
    ["%a, %d %b %Y %T %Z", "Sat, 21 Nov 2026 07:30:00 UTC"],
    [
      "%A %B %e %I %p %j %y %D %F %R %%",
      "Saturday November 21 07 AM 325 26 11/21/26 2026-11-21 07:30 %",
    ],
  ] as const
) {
  test(`START_TIME(${format})`, () => assert.equal(text(`%START_TIME(${format})%`), want));
}

test("START_TIME changes with the second", () => {
  const compiled = compileFormat({ kind: "text", text: "%START_TIME%" }, AROUND);
  if (compiled.kind === "refused") return assert.fail();
  const lines = [0, 957, 958, 1_958, -43].map((ms) =>
    compiled.line(
      new ExchangeRecord(DOWNSTREAM, undefined, { wallMs: START_MS + ms, monotonicMs: 0 }),
    ).slice(17, 23)
  );
  assert.deepEqual(lines, ["00.042", "00.999", "01.000", "02.000", "59.999"]);
});

test("compileFormat() of Consul's default has 24 keys with their types", () => {
  const line = lineOf({ kind: "default" });
  assert.ok(line.endsWith("}\n"));
  assert.deepEqual(JSON.parse(line), {
    start_time: "2026-11-21T07:30:00.042Z",
    route_name: null,
    method: "GET",
    path: "/items?id=5",
    protocol: "HTTP/1.1",
    response_code: 200,
    response_flags: "-",
    response_code_details: "via_upstream",
    connection_termination_details: null,
    bytes_received: 0,
    bytes_sent: 25,
    duration: 12,
    upstream_service_time: "8",
    x_forwarded_for: "192.0.2.1",
    user_agent: "curl/8.5.0",
    request_id: "0d7e",
    authority: "db.example",
    upstream_host: "127.0.0.1:8080",
    upstream_cluster: "local_app",
    upstream_local_address: "127.0.0.1:51234",
    downstream_local_address: "10.0.0.8:20000",
    downstream_remote_address: "10.0.0.7:40312",
    requested_server_name: "db.default.dc1.internal.td.consul",
    upstream_transport_failure_reason: null,
  });
  const nothing = JSON.parse(lineOf({ kind: "default" }, NOTHING()));
  assert.deepEqual([nothing.method, nothing.response_code, nothing.duration], [null, 0, null]);
});

test("compileFormat() of Envoy's default text", () => {
  assert.equal(
    lineOf({ kind: "text", text: DEFAULT_TEXT }),
    '[2026-11-21T07:30:00.042Z] "GET /items?id=5 HTTP/1.1" 200 - 0 25 12 8 "192.0.2.1" ' +
      '"curl/8.5.0" "0d7e" "db.example" "127.0.0.1:8080"\n',
  );
});

test("compileFormat() of JSON keeps nesting and types, and joins words", () => {
  assert.deepEqual(
    json({
      'a "b"': { status: "%RESPONSE_CODE%", who: ["%REQ(:METHOD)%", "%REQ(X-NONE)%"] },
      line: 'say "%REQ(X-NONE)%" to %REQ(:METHOD)% 100%%',
      number: 5,
      yes: true,
      none: null,
      empty: "",
    }),
    {
      'a "b"': { status: 200, who: ["GET", null] },
      line: 'say "-" to GET 100%',
      number: 5,
      yes: true,
      none: null,
      empty: "",
    },
  );
});

const HOSTILE = [
  ["a quote", 'x" 200 forged="', '"x\\" 200 forged=\\""'],
  ["a backslash before the closing quote", "x\\", '"x\\\\"'],
  ["line ends", 'x\r\n{"forged":1}', '"x\\r\\n{\\"forged\\":1}"'],
  ["what acts on a terminal", "x\x1b[2J\x9b1m\x7f", '"x\\u001b[2J\\u009b1m\\u007f"'],
  ["UTF-8", "caf\xc3\xa9", '"café"'],
  ["UTF-8 that turns the direction", "\xe2\x80\xaegpj.exe", '"\\u202egpj.exe"'],
  ["another encoding", "caf\xe9", '"caf\u00e9"'],
  ["NUL and the like", "x\0\x01", '"x\\u0000\\u0001"'],
] as const;

for (const [name, value, want] of HOSTILE) {
  test(`a header with ${name} ends no line and no quoted value`, () => {
    const request = requestHead({ fields: ["user-agent", value, "User-Agent"] });
    const record = exchangeRecord({}, { request });
    assert.equal(text('"%REQ(USER-AGENT)%"', record), want);
    const line = lineOf({ kind: "json", json: '{"ua":"%REQ(USER-AGENT)%"}' }, record);
    assert.equal(line, `{"ua":${want}}\n`);
    assert.doesNotThrow(() => JSON.parse(line));
    assert.equal(line.trimEnd().split(/[\r\n\u2028\u2029]/).length, 1);
  });
}

for (
  const [format, reason] of [
    [
      { kind: "text", text: "%UPSTREAM_HOSTS%" },
      /operator UPSTREAM_HOSTS, which is not known here \(is it UPSTREAM_HOST\?\); known are BYTES_RECEIVED, /,
    ],
    [
      { kind: "json", json: '{"a":{"b":"x %FILTER_STATE(x)%"}}' },
      /operator FILTER_STATE, which is not known/,
    ],
    [{ kind: "text", text: "%constructor%" }, /"%" without an operator at "%constructor%"/],
    [{ kind: "text", text: "50% of it" }, /"%" without an operator at "50% of it"/],
    [{ kind: "text", text: "%REQ%" }, /REQ needs the name of a header/],
    [{ kind: "text", text: "%REQ(a?b?c)%" }, /REQ needs the name of a header, or two/],
    [{ kind: "text", text: "%PROTOCOL(x)%" }, /PROTOCOL takes no "x"/],
    [{ kind: "text", text: "%HOSTNAME(x)%" }, /HOSTNAME takes no "x"/],
    [{ kind: "text", text: "%PATH(XX)%" }, /PATH does not know "XX"/],
    [{ kind: "text", text: "%QUERY_PARAM%" }, /QUERY_PARAM needs a name/],
    [{ kind: "text", text: "%GRPC_STATUS(x)%" }, /takes CAMEL_STRING, SNAKE_STRING or NUMBER/],
    [{ kind: "text", text: "%START_TIME(%Q)%" }, /START_TIME does not know "%Q"/],
    [{ kind: "text", text: "%START_TIME(%)%" }, /START_TIME does not know "%"/],
    [
      { kind: "text", text: "%COMMON_DURATION(DS_RX_BEG:XX:ms)%" },
      /needs FROM:TO:UNIT with points of DS_RX_BEG/,
    ],
    [{ kind: "text", text: "%COMMON_DURATION(toString:DS_RX_BEG:ms)%" }, /needs FROM:TO:UNIT/],
    [{ kind: "json", json: "{" }, /^is no JSON$/],
    [{ kind: "json", json: '["%PROTOCOL%"]' }, /^is no JSON object$/],
    [{ kind: "json", json: `{"a":${"[".repeat(20)}${"]".repeat(20)}}` }, /nested deeper than 16/],
    [{ kind: "text", text: "x".repeat(70_000) }, /more than 65536 characters/],
    [{ kind: "json", json: `{"a":"${"x".repeat(70_000)}"}` }, /more than 65536 characters/],
  ] as readonly (readonly [LogFormat, RegExp])[]
) {
  test(`compileFormat() refuses a format: ${reason.source.slice(0, 60)}`, () => {
    assert.match(refusal(format), reason);
  });
}
