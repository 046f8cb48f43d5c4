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

/**
 * What looks like an allowance and is none: permissions on a service that does not speak HTTP, and what
 * nobody can judge on one that does.
 */
export function refusedIntentions(
  intentions: Intentions,
  { http }: { readonly http: boolean },
): readonly Refusal[] {
  const rules = http
    ? intentions.flatMap(faultsOf)
    : intentions.filter(({ action }) => action === "permissions").map(({ rule }) => rule);
  if (rules.length === 0) return [];
  const more = rules.length > NAMED ? ` and ${rules.length - NAMED} more` : "";
  const named = `${rules.slice(0, NAMED).join(", ")}${more}`;
  if (http) {
    const what = "intentions that cannot be judged";
    return [{ what, reason: `what they cover is denied: ${named}` }];
  }
  return [{
    what: "intentions with permissions",
    reason:
      "permissions are about HTTP requests, which are not looked at on a tcp service: each denies " +
      `every connection of its source; write Action instead, or say what it speaks: ${named}`,
  }];
}

function faultsOf({ rule, refused, permissions = [] }: Intentions[number]): readonly string[] {
  if (refused !== undefined) return [`${rule}: ${refused}`];
  return permissions.flatMap((permission, index) =>
    permission.refused === undefined
      ? []
      : [`${rule}, permission ${index + 1}: ${permission.refused}`]
  );
}
