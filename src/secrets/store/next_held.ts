/**
 * Puts together what is held, with every part that has not changed as it was, so that whoever compares
 * by identity sees only what is new.
 *
 * @module
 */

import type { CredentialsState, HeldSecret, HeldSecrets } from "../held.ts";
import type { CertificateSecret, Secret, ValidationSecret } from "../secret.ts";
import { isSameState, type LivePlan, openState, waitingOf, warmingState } from "./live_plan.ts";
import type { Subscription } from "./subscription.ts";

/** The credentials of one listener or upstream. */
export interface Credentials {
  /** In force. */
  open: LivePlan | undefined;
  /** Takes the place of `open` when its secrets are there: what serves goes on serving until then. */
  next: LivePlan | undefined;
}

export interface HeldParts {
  readonly subscriptions: readonly Subscription[];
  readonly credentials: ReadonlyMap<string, Credentials>;
  readonly nowMs: number;
}

/** Returns `before` itself where nothing has changed. */
export function nextHeld(before: HeldSecrets, parts: HeldParts): HeldSecrets {
  const certificates: [string, HeldSecret<CertificateSecret>][] = [];
  const validations: [string, HeldSecret<ValidationSecret>][] = [];
  for (const { key, held } of parts.subscriptions) {
    if (!held) continue;
    if (isCertificate(held)) certificates.push([key, held]);
    else if (isValidation(held)) validations.push([key, held]);
  }
  const credentials: [string, CredentialsState][] = [];
  for (const [key, { open, next }] of parts.credentials) {
    const live = open ?? next;
    if (!live) continue;
    const state = open ? openState(open) : warmingState(waitingOf(live, parts.nowMs));
    const old = before.credentials[key];
    credentials.push([key, old && isSameState(old, state) ? old : state]);
  }
  const held = {
    certificates: merge(before.certificates, certificates),
    validations: merge(before.validations, validations),
    credentials: merge(before.credentials, credentials),
  };
  const isSame = held.certificates === before.certificates &&
    held.validations === before.validations && held.credentials === before.credentials;
  return isSame ? before : held;
}

/** `before` where it has the very same entries. Keys may be any text, `__proto__` too. */
function merge<T>(
  before: Readonly<Record<string, T>>,
  entries: readonly (readonly [string, T])[],
): Readonly<Record<string, T>> {
  const isSame = Object.keys(before).length === entries.length &&
    entries.every(([key, value]) => Object.hasOwn(before, key) && before[key] === value);
  return isSame ? before : Object.fromEntries(entries);
}

function isCertificate(held: HeldSecret<Secret>): held is HeldSecret<CertificateSecret> {
  return held.value.type === "certificate";
}

function isValidation(held: HeldSecret<Secret>): held is HeldSecret<ValidationSecret> {
  return held.value.type === "validation";
}
