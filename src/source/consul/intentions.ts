/** The agent's intentions as they hold here, and those that cannot be judged. @module */

import type { Intentions, Registration } from "../../consul/mod.ts";
import { withoutTenancy } from "../../policy/mod.ts";
import { UNREAD } from "./token_providers.ts";
import type { Refusal } from "../../snapshot/mod.ts";

/** More are only counted: a line is for people. */
const NAMED = 5;

export function intentionsFor(registration: Registration, intentions: Intentions): Intentions {
  return registration.hasTenancy ? intentions : withoutTenancy(intentions);
}

/**
 * Intentions that look like an allowance and are none: permissions on a service that does not speak HTTP,
 * and permissions of an HTTP service that cannot be judged.
 */
export function refusedIntentions(
  intentions: Intentions,
  { http, isAwaited = false }: {
    readonly http: boolean;
    /** Missing entries are still being read: they are not reported yet. */
    readonly isAwaited?: boolean;
  },
): readonly Refusal[] {
  if (http) {
    const what = "intentions that cannot be judged";
    const faults = intentions.flatMap(faultsOf)
      .filter((fault) => !isAwaited || !fault.endsWith(`: ${UNREAD}`));
    return refusalOf(what, "what they cover is denied", faults);
  }
  const named = (wanted: (intention: Intentions[number]) => boolean) =>
    intentions.filter(wanted).map(({ rule }) => rule);
  return [
    ...refusalOf(
      "intentions with permissions",
      "permissions are about HTTP requests, which are not looked at on a tcp service: each denies " +
        "every connection of its source; write Action instead, or say what it speaks",
      named(({ action }) => action === "permissions"),
    ),
    ...refusalOf(
      "intentions with JWT",
      "tokens are in HTTP requests, which are not looked at on a tcp service: as in Consul each " +
        "allows its source without one",
      named(({ action, tokens }) => action === "allow" && tokens !== undefined),
    ),
  ];
}

function refusalOf(what: string, fact: string, rules: readonly string[]): readonly Refusal[] {
  if (rules.length === 0) return [];
  const more = rules.length > NAMED ? ` and ${rules.length - NAMED} more` : "";
  return [{ what, reason: `${fact}: ${rules.slice(0, NAMED).join(", ")}${more}` }];
}

function faultsOf({ rule, refused, permissions = [] }: Intentions[number]): readonly string[] {
  if (refused !== undefined) return [`${rule}: ${refused}`];
  return permissions.flatMap((permission, index) =>
    permission.refused === undefined
      ? []
      : [`${rule}, permission ${index + 1}: ${permission.refused}`]
  );
}
