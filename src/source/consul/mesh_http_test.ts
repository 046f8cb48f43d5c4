import assert from "node:assert/strict";
import { test } from "node:test";
import type { MeshHttp } from "../../consul/mod.ts";
import { judgeMeshHttp } from "./mesh_entry.ts";

const EMPTY: MeshHttp = {
  sanitizesForwardedClientCert: false,
  normalizesPaths: true,
  mergesSlashes: false,
  escapedSlashesAction: "",
  underscoresAction: "",
};

const DEFAULTS = {
  normalize: true,
  mergeSlashes: false,
  escapedSlashes: "keep",
  underscores: "allow",
};

for (
  const [name, block, want] of [
    ["nothing", {}, {}],
    ["no normalisation", { normalizesPaths: false }, { normalize: false }],
    ["single slashes", { mergesSlashes: true }, { mergeSlashes: true }],
    ["the default of escaped slashes", {
      escapedSlashesAction: "IMPLEMENTATION_SPECIFIC_DEFAULT",
    }, {}],
    ["escaped slashes kept", { escapedSlashesAction: "KEEP_UNCHANGED" }, {}],
    ["escaped slashes refused", { escapedSlashesAction: "REJECT_REQUEST" }, {
      escapedSlashes: "reject",
    }],
    ["escaped slashes redirected", { escapedSlashesAction: "UNESCAPE_AND_REDIRECT" }, {
      escapedSlashes: "redirect",
    }],
    ["escaped slashes unescaped", { escapedSlashesAction: "UNESCAPE_AND_FORWARD" }, {
      escapedSlashes: "unescape",
    }],
    ["underscores allowed", { underscoresAction: "ALLOW" }, {}],
    ["underscores refused", { underscoresAction: "REJECT_REQUEST" }, { underscores: "reject" }],
    ["underscores dropped", { underscoresAction: "DROP_HEADER" }, { underscores: "drop" }],
  ] as const
) {
  test(`judgeMeshHttp() takes ${name}`, () => {
    assert.deepEqual(judgeMeshHttp({ ...EMPTY, ...block }), {
      kind: "taken",
      path: { ...DEFAULTS, ...want },
      sanitizeForwardedClientCert: false,
    });
  });
}

test("judgeMeshHttp() takes no block for the defaults", () => {
  assert.deepEqual(judgeMeshHttp(undefined), { kind: "taken" });
});

for (
  const [block, reason] of [
    [
      { escapedSlashesAction: "FOLD" },
      /PathWithEscapedSlashesAction "FOLD" is not.*REJECT_REQUEST/,
    ],
    [{ underscoresAction: "constructor" }, /HeadersWithUnderscoresAction "constructor" is not/],
  ] as const
) {
  test(`judgeMeshHttp() refuses ${JSON.stringify(block)} and names the valid setting`, () => {
    const judgement = judgeMeshHttp({ ...EMPTY, ...block });
    assert.ok(judgement.kind === "refused");
    assert.match(judgement.reason, reason);
  });
}
