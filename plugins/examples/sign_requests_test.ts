import assert from "node:assert/strict";
import { createHmac } from "node:crypto";
import { test } from "node:test";
import { mount } from "../../src/kit/mod.ts";
import signRequests from "./sign_requests.ts";

const secret = "0123456789abcdef0123456789abcdef";

test("sign_requests signs time, method, host and path, and replaces the caller's own signature", async () => {
  await using it = await mount(signRequests, { config: { keyId: "k1", secret } });
  const headers = { "x-signature": "forged" };
  await it.request({ method: "PUT", authority: "db:80", path: "/a?b", headers });
  const at = Math.floor(it.clock.now() / 1_000);
  const want = createHmac("sha256", secret).update(`${at}\nPUT\ndb:80\n/a?b`).digest("hex");
  assert.deepEqual(it.upstream.requests[0]?.headers("x-signature"), [`k1:${at}:${want}`]);
});

test("sign_requests refuses a short secret", async () => {
  await assert.rejects(
    mount(signRequests, { config: { keyId: "k1", secret: "short" } }),
    /config\.secret/,
  );
});
