/** Requests as bytes of HTTP/1.1: odd ones, and invalid ones. */

import type { WrittenRequest } from "../../kit/wire/send_request.ts";
import type { Area, Case, Wire } from "../case.ts";

type Row = readonly [name: string, want: string, ask: Partial<WrittenRequest>, wire?: Wire];

const ROWS: readonly Row[] = [
  ["an absolute target", "200", { path: "http://app.test/a?b" }],
  ["an absolute target of another host", "200", { path: "http://other.test/a" }],
  ["an absolute target without a path", "200", { path: "http://app.test" }],
  ["OPTIONS *", "404", { method: "OPTIONS", path: "*" }],
  ["OPTIONS of a path", "200", { method: "OPTIONS", path: "/a" }],
  ["TRACE", "200", { method: "TRACE", path: "/a" }],
  ["CONNECT", "404", { method: "CONNECT", path: "app.test:80" }],
  ["a method in lower case", "400", { method: "get", path: "/a" }],
  ["an unknown method", "400", { method: "BREW", path: "/a" }],
  ["HTTP/1.0", "426", { version: "HTTP/1.0", path: "/a" }],
  ["HTTP/1.2", "426", { version: "HTTP/1.2", path: "/a" }],
  ["no host", "400", { host: null }],
  ["an empty host", "200", { host: "" }],
  ["a host with a port", "200", { host: "app.test:8080" }],
  ["two hosts", "200", { fields: ["host: other.test"] }],
  ["a target without a slash", "400", { path: "a" }],
  ["a target with a space", "400", { path: "/a b" }],
  ["two equal lengths", "400", {
    method: "PUT",
    path: "/echo",
    fields: ["content-length: 3"],
    body: "abc",
  }],
  ["two lengths", "400", {
    method: "PUT",
    path: "/echo",
    fields: ["content-length: 2"],
    body: "abc",
  }],
  ["a length and chunks", "400", {
    method: "PUT",
    path: "/echo",
    fields: ["content-length: 3"],
    body: "abc",
    streamed: true,
  }],
  ["a coding that is not known", "501", {
    method: "PUT",
    path: "/echo",
    fields: ["transfer-encoding: gzip"],
  }],
  ["a length that is none", "400", { method: "PUT", fields: ["content-length: -1"] }],
  ["a name with a space", "400", { fields: ["x a: 1"] }],
  ["a space before the colon", "400", { fields: ["x-a : 1"] }],
  ["a line that goes on", "200", { fields: ["x-a: 1\r\n 2"] }],
  ["a field without a colon", "400", { fields: ["x-a"] }],
  ["a control character in a value", "400", { fields: ["x-a: \x01"] }],
  ["octets in a value", "200", { fields: ["x-a: caf\xe9"] }],
  ["an empty value", "200", { fields: ["x-a: "] }],
  ["white space around a value", "200", { fields: ["x-a: \t a b \t"] }],
  ["fields of one connection", "200", {
    fields: ["connection: keep-alive, x-hop", "x-hop: 1", "keep-alive: timeout=5"],
  }],
  ["proxy-connection", "200", { fields: ["proxy-connection: keep-alive"] }],
  ["te", "200", { fields: ["te: gzip, trailers"] }],
  ["close", "200", { fields: ["connection: close"] }],
  ["an upgrade to h2c", "200", {
    fields: ["connection: Upgrade, HTTP2-Settings", "upgrade: h2c", "http2-settings: AAMAAABk"],
  }],
  ["an upgrade to something", "403", { fields: ["connection: Upgrade", "upgrade: something"] }],
  ["an upgrade without a Connection field", "200", { fields: ["upgrade: websocket"] }],
  ["expect something", "200", { fields: ["expect: something"] }],
  ["x_forwarded_for", "200", { fields: ["x_forwarded_for: 1.1.1.1", "x_b: 1"] }],
  ["two cookies", "200", { fields: ["cookie: a=1", "cookie: b=2"] }],
  ["a head that is large", "200", { fields: [`x-large: ${"a".repeat(50_000)}`] }],
  ["a target that is long", "200", { path: `/${"a".repeat(8_000)}` }],
  ["many fields", "200", { fields: Array.from({ length: 80 }, (_, at) => `x-${at}: 1`) }],
  ["a field often", "200", { fields: Array.from({ length: 20 }, (_, at) => `x-a: ${at}`) }],
  ["a head that is too large", "0 reset 2", {
    fields: [`x-large: ${"a".repeat(62_000)}`],
  }, "2"],
  ["a head that is large", "200", { fields: [`x-large: ${"a".repeat(30_000)}`] }, "2"],
  ["a cookie in pieces", "200", { fields: ["cookie: a=1; b=2; c=3"] }, "2"],
  ["HEAD of what is there", "200", { method: "HEAD", path: "/pieces" }],
  ["HEAD of what fails", "500", { method: "HEAD", path: "/500" }],
  ["DELETE without a body", "200", { method: "DELETE" }],
  ["PATCH", "200", { method: "PATCH", path: "/echo", body: "abc" }],
];

export const wires: Area = {
  name: "wires",
  entries: () => [],
  cases: ROWS.map(([name, want, ask, wire = "1.1"]): Case => ({
    name,
    to: wire === "2" ? "http2" : "http",
    wire,
    ask,
    want,
  })),
};
