/**
 * `postern explain`: asks a running proxy's admin server what would become of a request.
 *
 * @module
 */

import process from "node:process";
import { type AskAdmin, askAdmin } from "../../admin/mod.ts";
import { escapeUnseen, formatAddress, messageOf, printable, ProxyError } from "../../base/mod.ts";
import type { ExplainOptions } from "../command_line/args_explain.ts";
import { findProxy, whyNotFound } from "./find_admin.ts";

/** Longer than the data workers and Consul are waited for. */
const ASK_TIMEOUT_MS = 10_000;
/** Of an answer: some ten thousand endpoints. */
const LIMIT_BYTES = 4 * 1_048_576;

/** The exit code; the answer goes to standard output. */
export async function runExplain(options: ExplainOptions): Promise<number> {
  process.stdout.write(await explained(options, askAdmin));
  return 0;
}

/** Throws, in words for people, where there is no answer. */
export async function explained(options: ExplainOptions, ask: AskAdmin): Promise<string> {
  const found = await findProxy(options.proxy, { ask });
  if (found.kind !== "found") {
    throw new ProxyError("internal", `Cannot ask the proxy ${whyNotFound(found)}`);
  }
  const { admin } = found;
  const at = `the proxy at ${formatAddress({ ...admin, kind: "tcp" })}`;
  const question = { path: pathOf(options), timeoutMs: ASK_TIMEOUT_MS, limitBytes: LIMIT_BYTES };
  const { status, body } = await ask(admin, question).catch((error) => {
    throw new ProxyError("internal", `Cannot ask ${at}: ${messageOf(error)}`);
  });
  // Whoever listens there may not be a proxy.
  if (status === 200) return escapeUnseen(body);
  throw new ProxyError("internal", printable(body.trim()) || `Cannot ask ${at}: status ${status}`);
}

/** Of the admin server. */
function pathOf(options: ExplainOptions): string {
  const { method, upstream, host, path, headers, source, json, connects } = options;
  const query = new URLSearchParams({ method, ...(host !== "" && { host }), path });
  if (upstream === undefined) query.set("source", source);
  else query.set("upstream", upstream);
  for (const header of headers) query.append("header", header);
  if (!connects) query.set("connect", "no");
  if (!json) query.set("format", "text");
  return `/explain?${query}`;
}
