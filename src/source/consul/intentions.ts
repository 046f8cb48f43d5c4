/**
 * The agent's intentions as they hold here, and what is to be said about them.
 *
 * @module
 */

import type { Intentions, Registration } from "../../consul/mod.ts";
import { withoutTenancy } from "../../policy/mod.ts";
import type { Refusal } from "../../snapshot/mod.ts";

/** More are only counted: a line is for people. */
const NAMED = 5;

export function intentionsFor(registration: Registration, intentions: Intentions): Intentions {
  return registration.hasTenancy ? intentions : withoutTenancy(intentions);
}

/** Permissions look like an allowance and are none. */
export function refusedIntentions(intentions: Intentions): readonly Refusal[] {
  const rules = intentions.filter(({ action }) => action === "permissions")
    .map(({ rule }) => rule);
  if (rules.length === 0) return [];
  const more = rules.length > NAMED ? ` and ${rules.length - NAMED} more` : "";
  return [{
    what: "intentions with permissions",
    reason:
      "permissions are about HTTP requests, which are not looked at here: each denies every " +
      "connection of its source, as on any tcp service; write Action instead: " +
      `${rules.slice(0, NAMED).join(", ")}${more}`,
  }];
}
