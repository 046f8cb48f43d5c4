/**
 * The default policy beside servers. A server answers with its own configuration, which Envoy gets from it,
 * too. (The call fills that server's cache with intentions, and those are never read from there.) Each
 * server answers for itself: while the servers that answered lately disagree, nothing is allowed.
 *
 * @module
 */

import { type Clock, type Log, ProxyError } from "../../../base/mod.ts";
import type { Client } from "../../http/client.ts";
import type { DefaultPolicyRequest } from "../../model/consul.ts";
import { defaultPolicyQuestion } from "../../replies/default_policy.ts";
import type { RepeatQuestion } from "../../watch/repeat.ts";
import type { ConsulServers } from "../types.ts";

/**
 * Shorter than beside an agent: the server that answers may change without a lost connection, and each
 * server has its own configuration.
 */
const INTERVAL_MS = 60_000;
/** How long the last answer of a server counts that is not in use any more. */
const REMEMBERED_MS = 900_000;
const REMEMBERED_SERVERS = 16;

export function agreedPolicyQuestion(
  client: Client,
  request: DefaultPolicyRequest & {
    readonly servers: Pick<ConsulServers, "current">;
    readonly clock: Clock;
    readonly log: Log;
  },
): RepeatQuestion<"allow" | "deny"> {
  const { servers, clock, log } = request;
  const question = defaultPolicyQuestion(client, request);
  /** By host, in the order of the answers. */
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
