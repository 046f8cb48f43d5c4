/**
 * One plan brought to life: the subscriptions it uses and what can be said of it. Pure of time: told
 * what time it is.
 *
 * @module
 */

import { type CredentialsState } from "../held.ts";
import { MESH_KEY } from "../../snapshot/mod.ts";
import type { OnDemand } from "../on_demand/on_demand.ts";
import type { CredentialsPlan, SecretRef } from "../plan.ts";
import { refOfValidation } from "./key.ts";
import type { ExternalRef } from "./shared_providers.ts";
import type { Subscription } from "./subscription.ts";

/** A secret wanted: the agent's own, which is always there, or one that is followed. */
export interface Wanted {
  readonly ref: SecretRef;
  /** `null`: the agent's. */
  readonly subscription: Subscription | null;
}

export interface LivePlan {
  readonly plan: CredentialsPlan;
  /** Equal of equal plans. */
  readonly fingerprint: string;
  readonly certificates: readonly Wanted[];
  readonly validation: Wanted | null;
  readonly onDemand: OnDemand | null;
}

/** Follows everything that a plan names. */
export function livePlan(
  plan: CredentialsPlan,
  options: {
    readonly fingerprint: string;
    readonly onDemand: OnDemand | null;
    readonly follow: (ref: ExternalRef) => Subscription;
  },
): LivePlan {
  const { fingerprint, onDemand, follow } = options;
  const want = (ref: SecretRef): Wanted => {
    const { source } = ref;
    return { ref, subscription: source.kind === "consul" ? null : follow({ ...ref, source }) };
  };
  const certificates = plan.certificates.map(want);
  const validation = plan.validation && want(refOfValidation(plan.validation));
  return { plan, fingerprint, certificates, validation, onDemand };
}

export function wantedOf({ certificates, validation }: LivePlan): readonly Wanted[] {
  return validation ? [...certificates, validation] : certificates;
}

/** When waiting for it ends on its own, on the monotonic clock; Infinity: never, or it is over. */
export function deadlineOf({ ref, subscription }: Wanted): number {
  if (!subscription || subscription.answered || ref.initialFetchTimeoutMs === 0) return Infinity;
  return subscription.startedMs + ref.initialFetchTimeoutMs;
}

/** Those whose first answer is still waited for. */
export function waitingOf(live: LivePlan, nowMs: number): readonly Wanted[] {
  return wantedOf(live).filter((wanted) =>
    wanted.subscription && !wanted.subscription.answered && deadlineOf(wanted) > nowMs
  );
}

export function warmingState(waiting: readonly Wanted[]): CredentialsState {
  return { kind: "warming", waitingFor: waiting.map(textOf) };
}

/** What there is now, whether or not it is enough. */
export function openState(live: LivePlan): CredentialsState {
  const { plan, onDemand } = live;
  const certificates = live.certificates.filter(isThere).map(keyOf);
  const onDemandKeys = (onDemand?.keys() ?? []).filter((key) => !certificates.includes(key));
  const missing: string[] = [];
  // One certificate is enough to open, as in Envoy; those that are late join when they come.
  if (live.certificates.length > 0 && certificates.length === 0 && !onDemand) {
    missing.push(...live.certificates.map(missingText));
  }
  const { validation } = live;
  const trusted = validation !== null && isThere(validation);
  if (validation && !trusted) missing.push(missingText(validation));
  return {
    kind: "open",
    certificates: [...certificates, ...onDemandKeys],
    validation: validation && trusted ? keyOf(validation) : null,
    missing,
    requireClientCertificate: plan.requireClientCertificate ||
      (plan.requireForSpiffe === true && isSpiffe(validation)),
    onDemand: plan.onDemand?.rules ?? null,
    ...(plan.onDemand?.defaultName === undefined ? {} : { defaultName: plan.onDemand.defaultName }),
    ...(plan.tls ? { tls: plan.tls } : {}),
  };
}

/** The same facts: whoever compares by identity need not notice. */
export function isSameState(a: CredentialsState, b: CredentialsState): boolean {
  if (a.kind === "warming" || b.kind === "warming") {
    return a.kind === "warming" && b.kind === "warming" && isSame(a.waitingFor, b.waitingFor);
  }
  return isSame(a.certificates, b.certificates) && a.validation === b.validation &&
    isSame(a.missing, b.missing) && a.onDemand === b.onDemand && a.tls === b.tls &&
    a.requireClientCertificate === b.requireClientCertificate && a.defaultName === b.defaultName;
}

function isSame(a: readonly string[], b: readonly string[]): boolean {
  return a.length === b.length && a.every((text, index) => text === b[index]);
}

/** The agent's roots take no rules of ours: with any, nobody is trusted rather than too many. */
function isThere({ ref, subscription }: Wanted): boolean {
  return subscription ? subscription.held !== undefined : ref.defaults === undefined;
}

function isSpiffe(wanted: Wanted | null): boolean {
  const value = wanted?.subscription?.held?.value;
  return value?.type === "validation" && value.validation.kind === "spiffe";
}

function keyOf({ subscription }: Wanted): string {
  return subscription?.key ?? MESH_KEY;
}

function textOf({ ref, subscription }: Wanted): string {
  return subscription ? `${ref.name} (${subscription.source})` : `${ref.name} (consul with rules)`;
}

function missingText(wanted: Wanted): string {
  const { ref, subscription } = wanted;
  if (!subscription) return textOf(wanted);
  return `${ref.name} (${subscription.source}, ${subscription.absence})`;
}
