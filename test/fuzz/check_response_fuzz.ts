/**
 * Answers of an authorization service: whatever the bytes, they are refused or read, no request passes
 * that another reader of them would not let pass, and nothing unlawful gets into a head.
 *
 * @module
 */

import assert from "node:assert/strict";
import { decodeCheckResponse } from "../../plugins/ext_authz/check_messages.ts";
import { type AuthzVerdict, mutated } from "../../plugins/ext_authz/verdict.ts";
import { isPlainName, isValue } from "../../src/http/mod.ts";
import { HeaderList } from "../../src/plugin/mod.ts";
import type { PlainMessage } from "../../src/wire/mod.ts";
import { CHECK_MESSAGES } from "../kit/peers/ext_authz.ts";
import type { FuzzTarget } from "./fuzz.ts";

const encode = (message: PlainMessage) => CHECK_MESSAGES.encode("CheckResponse", message);
const header = (key: string, value: string, more: PlainMessage = {}) => ({
  header: { key, value },
  ...more,
});
const NONE = new HeaderList([]);

function decoded(input: Uint8Array): AuthzVerdict | undefined {
  try {
    return decodeCheckResponse(input);
  } catch (error) {
    assert.ok(error instanceof RangeError, String(error));
    return undefined;
  }
}

function codeIn(input: Uint8Array): number | undefined {
  try {
    const { status } = CHECK_MESSAGES.decode("CheckResponse", input) as {
      readonly status?: { readonly code?: number };
    };
    return status?.code ?? 0;
  } catch {
    // It refuses texts that are not UTF-8.
    return undefined;
  }
}

export const target: FuzzTarget = {
  name: "check_response",
  corpus: [
    encode({ status: { code: 7 }, denied: { status: { code: 401 }, body: "no" } }),
    encode({
      status: {},
      ok: {
        headers: [header("x-user", "ada"), header("x-a", "1", { append: { value: true } })],
        headersToRemove: ["x-gone"],
        responseHeadersToAdd: [header("set-cookie", "a=1", { appendAction: 2 })],
      },
    }),
  ],
  dictionary: ["\r\n", ":path", "host", "content-length", "\x0a\x02\x08\x07", "\x1a\x00"],
  run(input) {
    const verdict = decoded(input);
    if (!verdict || verdict.kind === "error") return;
    const code = codeIn(input);
    if (verdict.kind === "ok") assert.ok(code === undefined || code === 0, "it was not let pass");
    const { headers } = verdict.kind === "ok" ? verdict.request : verdict;
    try {
      for (const [name, value] of mutated(NONE, headers)) {
        assert.ok(isPlainName(name) && isValue(value), name);
      }
    } catch (error) {
      assert.ok(error instanceof TypeError, String(error));
    }
  },
};
