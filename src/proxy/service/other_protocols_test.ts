/** Bytes that cannot be HTTP are answered at once, and the log names the likely protocol. @module */

import assert from "node:assert/strict";
import { test } from "node:test";
import { createAuthority } from "../../../test/kit/certs/certificates.ts";
import { settle } from "../../../test/kit/clock/clock.ts";
import { callAs, sendThrough } from "../../../test/kit/engine/memory_caller.ts";
import { startMemoryPath } from "../../../test/kit/engine/memory_path.ts";
import {
  httpRules,
  intention,
  snapshotOf,
  withInbound,
} from "../../../test/kit/engine/snapshots.ts";

const CA = createAuthority();

function start(protocol: "http" | "http2") {
  const base = snapshotOf({
    ca: CA,
    service: "db",
    local: { kind: "tcp", host: "127.0.0.1", port: 8080 },
    intentions: [intention("web", "allow")],
  });
  return startMemoryPath(withInbound(base, { http: httpRules(protocol) }));
}

for (
  const [protocol, says, reason] of [
    ["http", "SSH-2.0-OpenSSH_9.6\r\n", "answers SSH where Protocol says http"],
    ["http", "\x15\x03\x03\0\x02\x02\x46", "answers a TLS alert where Protocol says http"],
    ["http", "text without an end", "answers no HTTP where Protocol says http"],
    ["http2", "HTTP/1.1 400 Bad Request\r\n", "answers HTTP/1.1 where Protocol says http2"],
    ["http2", "\x15\x03\x03\0\x02\x02\x46", "answers a TLS alert where Protocol says http2"],
  ] as const
) {
  test(`an application of ${protocol} that sends ${JSON.stringify(says)} fails the request`, async () => {
    await using path = await start(protocol);
    const caller = callAs("web", path, CA);
    const app = await sendThrough(caller, "GET / HTTP/1.1\r\nHost: db\r\n\r\n", path);
    app.send(says);
    await settle();
    assert.match(caller.received, /^HTTP\/1.1 502 /);
    const line = path.lines.find(({ message }) => message === "request failed");
    assert.deepEqual([line?.fields.code, line?.fields.reason], ["response_invalid", reason]);
    caller.connection.reset();
    await settle();
  });
}
