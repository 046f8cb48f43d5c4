/**
 * One of two instances hangs: its kernel keeps the connections, and no program answers on them. Passive
 * health finds out without Consul, and hardly a caller notices.
 *
 * @module
 */

import assert from "node:assert/strict";
import test from "node:test";
import { HttpLoad } from "../kit/wire/http_load.ts";
import { startCountingOrigin } from "../kit/wire/http_origin.ts";
import { startFilePair } from "../kit/mesh/file_pair.ts";
import { eventually } from "../kit/process/process.ts";

for (const protocol of ["http", "http2"] as const) {
  test(`${protocol}: a hung instance of two is ejected, and only the requests sent to it fail`, async () => {
    await using first = await startCountingOrigin({ protocol });
    await using second = await startCountingOrigin({ protocol, counts: first.counts });
    await using pair = await startFilePair({ protocol, apps: [first, second] });
    await using load = new HttpLoad(pair.upstream, first.counts, { keptAlive: 3, shortLived: 2 });
    await load.past(200);
    pair.dbs[0]?.kill("SIGSTOP");
    const beganMs = performance.now();
    try {
      const [line] = await eventually(
        "it is ejected",
        () => /endpoint ejected[^\n]*/.exec(pair.web.output) ?? undefined,
        { timeoutMs: 30_000 },
      );
      const tookMs = performance.now() - beganMs;
      assert.match(line, /reason="it hangs: [^"]*" until=\S+ for_ms=\d+/);
      // Each of five callers may have had one request under way.
      const { exchanges } = load.result;
      await load.past(exchanges + 300);
      const { errors, messages } = load.result;
      console.log(`${protocol}: ejected after ${Math.round(tookMs)} ms, ${errors} requests failed`);
      assert.ok(errors <= 5, `${errors} failed:\n${messages.join("\n")}`);
    } finally {
      pair.dbs[0]?.kill("SIGCONT");
    }
  });
}
