/** Runs h2spec, which judges a server of HTTP/2 by 146 cases of its RFCs. @module */

import assert from "node:assert/strict";
import { peer } from "../../scripts/peers.ts";
import { runToEnd } from "../kit/process/process.ts";

const CASES = 146;

/** Fails with the report of h2spec unless the server there passes all cases in strict mode. */
export async function passesH2spec(
  address: { readonly host: string; readonly port: number },
  options: { readonly tls?: boolean } = {},
): Promise<void> {
  const { host, port } = address;
  const output = await runToEnd(peer("h2spec"), [
    ...["--host", host, "--port", String(port), "--path", "/", "--strict", "--timeout", "5"],
    ...options.tls ? ["--tls", "--insecure"] : [],
  ], { timeoutMs: 300_000 });
  const [, tests, passed] = /(\d+) tests, (\d+) passed/.exec(output) ?? [];
  assert.deepEqual([Number(tests), Number(passed)], [CASES, CASES], output.slice(-20_000));
}
