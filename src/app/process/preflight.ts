/**
 * Says at start which rights the token lacks, on what, and what will not work without them. A proxy
 * that lacks one goes on: rights may be granted any moment, and the agent's own errors are quiet.
 *
 * @module
 */

import { type Log, messageOf } from "../../base/mod.ts";
import type { Consul, Registration } from "../../consul/mod.ts";
import type { RegistrationSource } from "../../source/mod.ts";

/** Logs each missing right; never rejects. */
export async function reportMissingRights(
  agent: Consul,
  source: RegistrationSource,
  log: Log,
): Promise<void> {
  try {
    const registration = source.kind === "static"
      ? source.registration
      : await firstRegistration(agent, source.proxyId);
    for (const { right, on, neededFor } of await agent.missingRights(registration)) {
      log.error("the token lacks a right", { right, on, needed_for: neededFor });
    }
  } catch (error) {
    log.warn("rights of the token not checked", { error: messageOf(error) });
  }
}

function firstRegistration(agent: Consul, proxyId: string): Promise<Registration> {
  return new Promise((resolve) => {
    const watch = agent.watchRegistration(proxyId, {
      onValue(registration) {
        watch.stop();
        resolve(registration);
      },
      // The source's own watch reports failures; this one waits for the first answer.
      onError() {},
    });
  });
}
