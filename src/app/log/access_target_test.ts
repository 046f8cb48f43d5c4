import assert from "node:assert/strict";
import { test } from "node:test";
import { createAuthority } from "../../../test/kit/certs/certificates.ts";
import { snapshotOf, withInbound } from "../../../test/kit/engine/snapshots.ts";
import type { AccessLogPart, PluginUse } from "../../snapshot/mod.ts";
import { accessTargetOf } from "./access_target.ts";

test("accessTargetOf() is the configured target, else standard output when a plugin may write", () => {
  const local = { kind: "tcp", host: "127.0.0.1", port: 1 } as const;
  const snapshot = snapshotOf({ ca: createAuthority(), service: "web", local });
  const use: PluginUse = { plugin: "access_log", config: {}, onFailure: "refuse", at: "" };
  const withPlugin = withInbound(snapshot, { plugins: [use] });
  const to = { kind: "file", path: "/v/a" } as const;
  const accessLog: AccessLogPart = {
    version: 1,
    to,
    format: { kind: "default" },
    listeners: true,
  };
  assert.equal(accessTargetOf(snapshot), null);
  assert.deepEqual(accessTargetOf(withPlugin), { kind: "stdout" });
  assert.equal(accessTargetOf({ ...withPlugin, accessLog }), to);
});
