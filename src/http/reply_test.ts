import assert from "node:assert/strict";
import { test } from "node:test";
import { ERROR_CODES, type Reply, replyOf } from "../base/mod.ts";
import type { Denial } from "./denial.ts";
import type { ServerExchange } from "./exchange.ts";
import { FIELD, type ResponseHead, UNKNOWN_LENGTH } from "./head.ts";
import { REDIRECT, type ReplyOptions, sendReply } from "./reply.ts";

interface Sent {
  status: number;
  fields: Record<string, string>;
  length: number;
  body: string;
  ended: boolean;
}

/** The response that `sendReply()` sends on an exchange. */
function sentFor(
  reply: Reply,
  { method = "GET", type = "", ...options }: ReplyOptions & { method?: string; type?: string } = {},
): Sent {
  const sent: Sent = { status: 0, fields: {}, length: -1, body: "", ended: false };
  const exchange = {
    request: { method, fields: type === "" ? [] : ["content-type", type, "content-type"] },
    respond({ status, fields, length }: ResponseHead, ends: boolean) {
      assert.equal(sent.status, 0);
      sent.status = status;
      sent.length = length;
      sent.ended = ends;
      for (let i = 0; i < fields.length; i += FIELD) {
        sent.fields[fields[i] ?? ""] = fields[i + 1] ?? "";
      }
    },
    send(chunk: Uint8Array) {
      assert.ok(!sent.ended && chunk.length > 0);
      sent.body += new TextDecoder().decode(chunk);
      // The receiver owns the chunk: a change must not show in the next reply.
      chunk.fill(0);
      return true;
    },
    end() {
      assert.ok(!sent.ended);
      sent.ended = true;
    },
  };
  sendReply(exchange as unknown as ServerExchange, reply, options);
  assert.ok(sent.ended);
  return sent;
}

const RESET = "upstream connect error or disconnect/reset before headers. reset reason: ";

for (
  const [code, status, flag, text] of [
    ["no_endpoint", 503, "UH", "no healthy upstream"],
    ["limit_reached", 503, "UO", `${RESET}overflow`],
    ["endpoint_refused", 503, "UF", `${RESET}remote connection failure`],
    ["endpoint_timed_out", 503, "UF", `${RESET}connection timeout`],
    ["endpoint_reset", 503, "UC", `${RESET}connection termination`],
    ["response_reset", 503, "UR", `${RESET}remote reset`],
    ["response_invalid", 502, "UPE", `${RESET}protocol error`],
    ["response_timed_out", 504, "UT", "upstream request timeout"],
    ["idle_timed_out", 408, "SI", "stream timeout"],
    ["intention_denied", 403, "", "RBAC: access denied"],
    ["route_not_found", 404, "NR", ""],
    ["request_invalid", 400, "", ""],
    ["request_too_large", 413, "", "Payload Too Large"],
    ["rate_limited", 429, "RL", "local_rate_limited"],
    ["plugin_denied", 403, "", "RBAC: access denied"],
    // A fault of the proxy is not described to the client.
    ["credentials_invalid", 500, "", "internal error"],
  ] as const
) {
  test(`sendReply() ${code} is ${status} ${flag}`, () => {
    const reply = replyOf(code);
    assert.equal(reply.flag, flag);
    for (let times = 0; times < 2; times++) {
      const sent = sentFor(reply);
      assert.equal(sent.status, status);
      assert.equal(sent.body, text);
      assert.equal(sent.length, text.length);
      assert.equal(sent.fields["content-type"], text === "" ? undefined : "text/plain");
      assert.equal(
        sent.fields["x-envoy-overloaded"],
        code === "limit_reached" ? "true" : undefined,
      );
      assert.equal(
        sent.fields["x-envoy-ratelimited"],
        code === "rate_limited" ? "true" : undefined,
      );
    }
  });
}

test("replyOf() has a reply for every code", () => {
  for (const code of ERROR_CODES) assert.ok(replyOf(code).status >= 400);
});

test("replyOf() describes the fault of the client's credentials", () => {
  const reply = replyOf("unauthenticated", "Jwt is missing");
  assert.deepEqual([reply.status, reply.text], [401, "Jwt is missing"]);
  assert.equal(reply.details, "jwt_authn_access_denied{Jwt_is_missing}");
  const { fields } = sentFor(reply, { type: "application/grpc" });
  assert.deepEqual([fields["grpc-status"], fields["grpc-message"]], ["16", "Jwt is missing"]);
});

test("replyOf() details have Envoy's form", () => {
  assert.equal(
    replyOf("endpoint_reset").details,
    "upstream_reset_before_response_started{connection_termination}",
  );
});

test("sendReply() to HEAD claims the body's length and sends none", () => {
  const sent = sentFor(replyOf("no_endpoint"), { method: "HEAD" });
  assert.deepEqual([sent.status, sent.length, sent.body], [503, 19, ""]);
});

test("sendReply() to a gRPC client is trailers only", () => {
  const sent = sentFor(replyOf("no_endpoint"), { type: "application/grpc" });
  assert.deepEqual(sent, {
    status: 200,
    fields: {
      "content-type": "application/grpc",
      "grpc-status": "14",
      "grpc-message": "no healthy upstream",
    },
    length: UNKNOWN_LENGTH,
    body: "",
    ended: true,
  });
  const overflow = sentFor(replyOf("limit_reached"), { type: "application/grpc+proto" });
  assert.equal(overflow.fields["x-envoy-overloaded"], "true");
  assert.equal(
    sentFor(replyOf("intention_denied"), { type: "application/grpc" }).fields["grpc-status"],
    "7",
  );
});

test("sendReply() redirects, but not a gRPC client", () => {
  const sent = sentFor(REDIRECT, { location: "/a/b" });
  assert.deepEqual([sent.status, sent.fields], [307, { location: "/a/b" }]);
  const grpc = sentFor(REDIRECT, { location: "/a/b", type: "application/grpc" });
  assert.equal(grpc.fields["grpc-status"], "13");
  assert.equal(grpc.fields["location"], undefined);
});

test("sendReply() adds x-postern-denied-by only on request, with escaped characters", () => {
  const deniedBy = (denial?: Denial) =>
    sentFor(replyOf("intention_denied"), { denial }).fields["x-postern-denied-by"];
  assert.equal(deniedBy(), undefined);
  assert.equal(deniedBy({ code: "intention_denied", rule: "" }), "intention_denied");
  assert.equal(
    deniedBy({ code: "intention_denied", rule: "web\r\nx: y => \u00e9" }),
    "intention_denied web%0D%0Ax: y => %C3%A9",
  );
});
