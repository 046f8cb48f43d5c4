/**
 * What holds where no intention covers a source, as the servers have it. Of all that a service's own
 * token may ask them the authorize call alone goes by `default_intention_policy`: intentions/check and
 * the UI's topology know the ACL default only, and would fail open where the two differ. About a
 * namespace that no rule names it has nothing to answer with but the configuration of the server that is
 * asked, which is what that server tells Envoy, too. What it keeps in its cache by that are intentions,
 * and those are never asked for there.
 *
 * Each server answers for itself: while those that were asked lately disagree, nothing is allowed.
 *
 * @module
 */

import { type Clock, type Log, ProxyError } from "../../../base/mod.ts";
import type { Client } from "../../http/client.ts";
import { defaultPolicyQuestion } from "../../replies/default_policy.ts";
import type { RepeatQuestion } from "../../watch/repeat.ts";
import type { Servers } from "../types.ts";

/** Unlike an agent, a server may be another one without a connection having been lost. */
const INTERVAL_MS = 60_000;
/** How long the word of a server counts that is not asked any more: by now it may be gone, or another. */
const REMEMBERED_MS = 900_000;
const REMEMBERED_SERVERS = 16;

export function serversDefaultPolicyQuestion(
  client: Client,
  request: {
    readonly servers: Pick<Servers, "current">;
    readonly service: string;
    readonly trustDomain: string;
    readonly datacenter: string;
    readonly clock: Clock;
    readonly log: Log;
  },
): RepeatQuestion<"allow" | "deny"> {
  const { servers, clock, log } = request;
  const question = defaultPolicyQuestion(client, request);
  /** By host; the one that was asked last is last. */
  const answers = new Map<string, { readonly policy: "allow" | "deny"; readonly atMs: number }>();
  let agreed = true;
  return {
    ...question,
    intervalMs: INTERVAL_MS,
    async ask(signal) {
      const server = servers.current;
      const policy = await question.ask(signal);
      if (!server || servers.current !== server) {
        throw new ProxyError(
          "agent_unreachable",
          `Cannot tell whose default policy ${policy} is: the server has changed meanwhile`,
        );
      }
      const atMs = clock.monotonic();
      answers.delete(server.host);
      answers.set(server.host, { policy, atMs });
      for (const [host, answer] of answers) {
        const isOld = atMs - answer.atMs > REMEMBERED_MS;
        if (isOld || answers.size > REMEMBERED_SERVERS) answers.delete(host);
      }
      const agree = [...answers.values()].every((answer) => answer.policy === policy);
      if (agreed && !agree) {
        log.warn("the servers' default intention policies differ: it is deny until they agree", {
          servers: [...answers].map(([host, answer]) => `${host} ${answer.policy}`).join(", "),
        });
      }
      agreed = agree;
      return agree ? policy : "deny";
    },
  };
}
