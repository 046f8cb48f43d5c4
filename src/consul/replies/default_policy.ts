/**
 * What holds where no intention covers a source. `intentions/check` would fail open here: it ignores
 * `default_intention_policy`. The authorize call about a namespace that no rule names has nothing but
 * the default to answer with, and as no intention can change that answer, it does not freeze.
 *
 * @module
 */

import type { Log } from "../../base/mod.ts";
import { askAuthorize, type AuthorizeAnswer } from "./authorize.ts";
import type { Client } from "../http/client.ts";
import type { RepeatQuestion } from "../watch/repeat.ts";

/** It can change with the agent's configuration only, hence with a restart, which is noticed. */
const INTERVAL_MS = 180_000;
const TIMEOUT_MS = 10_000;

/** A rule that covers even the probe leaves nothing to the default: deny is safe then. */
export function defaultOf(answer: AuthorizeAnswer): "allow" | "deny" {
  return answer.allowed && /^Default /.test(answer.reason) ? "allow" : "deny";
}

export function defaultPolicyQuestion(
  client: Client,
  request: {
    readonly service: string;
    readonly trustDomain: string;
    readonly datacenter: string;
    readonly log: Log;
  },
): RepeatQuestion<"allow" | "deny"> {
  const { service, trustDomain, datacenter } = request;
  return {
    name: `default policy ${service}`,
    resource: "default_policy",
    kind: "call",
    intervalMs: INTERVAL_MS,
    askAfterLoss: true,
    async ask(signal) {
      const answer = await askAuthorize(client, {
        resource: "default_policy",
        target: service,
        uri: `spiffe://${trustDomain}/ns/postern-probe/dc/${datacenter}/svc/x`,
        serial: "00",
        timeoutMs: TIMEOUT_MS,
        signal,
      });
      if (!/^Default /.test(answer.reason)) {
        request.log.debug("an intention covers every source, default is deny", {
          reason: answer.reason,
        });
      }
      return defaultOf(answer);
    },
  };
}
