/**
 * Describes the listeners of a snapshot: protocol, treatment of requests, and the meaning of the permissions
 * of intentions.
 *
 * @module
 */

import { formatAddress, formatSpanMs, prepareRegexes } from "../../base/mod.ts";
import { compilePermission, policyNeedsRegexes } from "../../policy/mod.ts";
import type { HttpRules, Snapshot } from "../../snapshot/mod.ts";

/** One line each. */
export async function describeListeners(snapshot: Snapshot): Promise<readonly string[]> {
  const { inbound, upstreams, policy } = snapshot;
  const lines: string[] = [];
  for (const [name, { bind, local, http }] of Object.entries(inbound)) {
    const where = `${formatAddress(bind)} for ${formatAddress(local)}`;
    lines.push(`listener ${name} on ${where}: ${wordsOf(http)}`);
  }
  for (const { name, bind, http } of Object.values(upstreams)) {
    const where = bind ? ` on ${formatAddress(bind)}` : "";
    lines.push(`upstream ${name}${where}: ${wordsOf(http)}`);
  }
  if (!Object.values(inbound).some(({ http }) => http)) return lines;
  if (policyNeedsRegexes(policy)) await prepareRegexes();
  for (const { rule, permissions = [] } of policy.intentions) {
    for (const [index, permission] of permissions.entries()) {
      const { text } = compilePermission(permission);
      lines.push(`intention ${rule}, permission ${index + 1}: ${text}`);
    }
  }
  return lines;
}

/** Every setting that differs from its default, and the common ones. */
function wordsOf(http: HttpRules | null): string {
  if (!http) return "tcp, carried as it is";
  const { path } = http;
  const words: string[] = [http.protocol];
  if (path.normalize) words.push("paths normalized");
  if (path.mergeSlashes) words.push("slashes merged");
  if (path.escapedSlashes !== "keep") words.push(`escaped slashes: ${path.escapedSlashes}`);
  if (path.underscores !== "allow") words.push(`underscores in names: ${path.underscores}`);
  words.push(`heads of at most ${Math.floor(http.headBytes / 1024)} KB`);
  const time = (ms: number) =>
    ms === 0 ? "no limit" : ms % 1_000 === 0 ? formatSpanMs(ms) : `${ms}ms`;
  words.push(`time for a request: ${time(http.requestTimeoutMs)}`);
  words.push(`silence: ${time(http.streamIdleTimeoutMs)}`);
  if (http.sanitizeForwardedClientCert) words.push("x-forwarded-client-cert is dropped");
  if (http.showDenials) words.push("denied callers get the rule in the response");
  return words.join(", ");
}
