import assert from "node:assert/strict";
import { test } from "node:test";
import { forwardRequest, RequestIds } from "./forwarded.ts";
import { FIELD, type Fields, type RequestHead, UNKNOWN_LENGTH } from "./head.ts";

function headOf(pairs: readonly (readonly [string, string])[], scheme = ""): RequestHead {
  const fields: Fields = [];
  for (const [name, value] of pairs) fields.push(name, value, name);
  return {
    method: "GET",
    scheme,
    authority: "web",
    path: "/",
    upgrade: "",
    length: UNKNOWN_LENGTH,
    saysLength: false,
    expectsContinue: false,
    fields,
    version: "HTTP/1.1",
  };
}

function pairsOf(fields: Fields): [string, string][] {
  const pairs: [string, string][] = [];
  for (let i = 0; i < fields.length; i += FIELD) pairs.push([fields[i] ?? "", fields[i + 1] ?? ""]);
  return pairs;
}

const PROTO = ["x-forwarded-proto", "https"] as const;
type Pairs = readonly (readonly [string, string])[];

for (
  const [name, given, left] of [
    ["adds x-forwarded-proto", [["a", "1"]], [["a", "1"], PROTO]],
    [
      "keeps received forwarding fields",
      [["x-forwarded-proto", "http"], ["x-forwarded-for", "10.0.0.1"], ["x-forwarded-host", "h"]],
      [["x-forwarded-proto", "http"], ["x-forwarded-for", "10.0.0.1"], ["x-forwarded-host", "h"]],
    ],
    [
      "removes fields that control a proxy",
      [
        ["x-envoy-retry-on", "5xx"],
        ["x-envoy-max-retries", "9"],
        ["x-envoy-original-path", "/x"],
        ["x-envoy-internal", "true"],
        ["x-envoy-decorator-operation", "op"],
      ],
      [PROTO],
    ],
    [
      "removes aliases of trusted fields",
      [
        ["x_forwarded_client_cert", "a"],
        ["x-forwarded_proto", "a"],
        ["x_request_id", "a"],
        ["x_envoy_internal", "a"],
        ["x-envoy-retry_on", "a"],
        ["x_envoy_peer_metadata", "a"],
        ["x.forwarded.for", "a"],
        ["x-request.id", "a"],
        ["x~forwarded+host", "a"],
        ["my_field", "a"],
      ],
      [["my_field", "a"], PROTO],
    ],
    ["keeps names that are no alias", [["x-forwardedfor", "a"], ["xx_forwarded_for", "a"]], [
      ["x-forwardedfor", "a"],
      ["xx_forwarded_for", "a"],
      PROTO,
    ]],
    ["keeps the coding that gRPC needs", [["te", "trailers"]], [["te", "trailers"], PROTO]],
    [
      "keeps no other coding",
      [["te", "gzip;q=0.5, Trailers"], ["te", "deflate"]],
      [["te", "trailers"], PROTO],
    ],
    ["keeps a referer", [["referer", "http://a/"]], [["referer", "http://a/"], PROTO]],
    ...["a", "/a?b=c:d", "", "HTTPS://a:1/b//c?d@e"].map((value) =>
      [`keeps the referer "${value}"`, [["referer", value]], [["referer", value], PROTO]] as const
    ),
    ...["a:b", "http:/a", "http://u@a/", "http://a/#b", "/a#b", "a b"].map((value) =>
      [`keeps no referer "${value}"`, [["referer", value]], [PROTO]] as const
    ),
    ["removes two referers", [["referer", "http://a/"], ["b", ""], ["referer", "http://c/"]], [
      ["b", ""],
      PROTO,
    ]],
  ] as readonly [string, Pairs, Pairs][]
) {
  test(`forwardRequest() ${name}`, () => {
    const head = headOf(given);
    forwardRequest(head, true);
    assert.deepEqual(pairsOf(head.fields), left);
  });
}

for (
  const [scheme, proto, secure, want] of [
    ["", undefined, true, "https"],
    ["", undefined, false, "http"],
    ["", "http", true, "http"],
    ["", "gopher", false, "http"],
    ["http", "https", true, "http"],
  ] as const
) {
  test(`forwardRequest() scheme "${scheme}", proto ${proto}, secure ${secure}: ${want}`, () => {
    const head = headOf(proto === undefined ? [] : [["x-forwarded-proto", proto]], scheme);
    forwardRequest(head, secure);
    assert.equal(head.scheme, want);
  });
}

test("RequestIds.next() makes unique UUIDs of version 4", () => {
  const ids = new RequestIds();
  const seen = new Set<string>();
  for (let i = 0; i < 1000; i++) {
    const id = ids.next();
    assert.match(id, /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
    seen.add(id);
  }
  assert.equal(seen.size, 1000);
});

test("RequestIds.next() uses the random bytes in order", () => {
  const ids = new RequestIds((bytes) => bytes.forEach((_, i) => bytes[i] = i));
  assert.equal(ids.next(), "00010203-0405-4607-8809-0a0b0c0d0e0f");
  assert.equal(ids.next(), "10111213-1415-4617-9819-1a1b1c1d1e1f");
});

test("RequestIds.ensure() adds an id, and keeps a received one", () => {
  const ids = new RequestIds((bytes) => bytes.fill(0xff));
  const fields: Fields = ["a", "1", "A"];
  const id = ids.ensure(fields);
  assert.equal(id, "ffffffff-ffff-4fff-bfff-ffffffffffff");
  assert.deepEqual(fields, ["a", "1", "A", "x-request-id", id, "x-request-id"]);
  assert.equal(ids.ensure(["x-request-id", "mine", "X-Request-ID"]), "mine");
  assert.equal(ids.ensure(["x-request-id", "", "X-Request-ID"]), id);
});
