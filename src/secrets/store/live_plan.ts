/** A plan with its subscriptions, and the state of credentials that follows from them. Pure. @module */

import { isDeepStrictEqual } from "node:util";
import { MESH_KEY } from "../../snapshot/mod.ts";
import type { CredentialsPlan, ExternalRef, SecretRef } from "../model/plan.ts";
import type {
  CertificateSecret,
  CredentialsState,
  HeldSecret,
  HeldSecrets,
  Secret,
  ValidationSecret,
} from "../model/secret.ts";
import type { OnDemand } from "../on_demand/on_demand.ts";
import type { Subscription } from "./subscription.ts";

interface PlannedSecret {
  readonly ref: SecretRef;
  /** `null`: the agent's, which is always there. */
  readonly subscription: Subscription | null;
}

export interface LivePlan {
  readonly plan: CredentialsPlan;
  /** Equal for equal plans. */
  readonly fingerprint: string;
  readonly certificates: readonly PlannedSecret[];
  readonly validation: PlannedSecret | null;
  readonly onDemand: OnDemand | null;
}

export interface Credentials {
  /** In force. */
  open: LivePlan | undefined;
  /** Replaces `open` when its secrets are there; until then `open` serves. */
  next: LivePlan | undefined;
}

export function livePlan(
  plan: CredentialsPlan,
  { fingerprint, onDemand, follow }: {
    readonly fingerprint: string;
    readonly onDemand: OnDemand | null;
    readonly follow: (ref: ExternalRef) => Subscription;
  },
): LivePlan {
  const planned = (ref: SecretRef): PlannedSecret => {
    const { source } = ref;
    return { ref, subscription: source.kind === "consul" ? null : follow({ ...ref, source }) };
  };
  const certificates = plan.certificates.map(planned);
  const { secret, defaults } = plan.validation ?? {};
  const validation = secret ? planned(defaults ? { ...secret, defaults } : secret) : null;
  return { plan, fingerprint, certificates, validation, onDemand };
}

export function secretsOf({ certificates, validation }: LivePlan): readonly PlannedSecret[] {
  return validation ? [...certificates, validation] : certificates;
}

/** When the initial fetch timeout passes, on the monotonic clock; Infinity: never, or it is over. */
export function deadlineOf({ ref, subscription }: PlannedSecret): number {
  if (!subscription || subscription.answered || ref.initialFetchTimeoutMs === 0) return Infinity;
  return subscription.startedMs + ref.initialFetchTimeoutMs;
}

export function awaitedOf(live: LivePlan, nowMs: number): readonly PlannedSecret[] {
  return secretsOf(live).filter((secret) =>
    secret.subscription && !secret.subscription.answered && deadlineOf(secret) > nowMs
  );
}

/**
 * The held secrets with every unchanged part of `before`, so that a comparison by identity finds only
 * changes; `before` itself if nothing has changed.
 */
export function nextHeld(
  before: HeldSecrets,
  { subscriptions, credentials, nowMs }: {
    readonly subscriptions: readonly Subscription[];
    readonly credentials: ReadonlyMap<string, Credentials>;
    readonly nowMs: number;
  },
): HeldSecrets {
  const certificates: [string, HeldSecret<CertificateSecret>][] = [];
  const validations: [string, HeldSecret<ValidationSecret>][] = [];
  for (const { key, held } of subscriptions) {
    if (held && isCertificate(held)) certificates.push([key, held]);
    else if (held && isValidation(held)) validations.push([key, held]);
  }
  const states: [string, CredentialsState][] = [];
  for (const [key, { open, next }] of credentials) {
    const live = open ?? next;
    if (!live) continue;
    const state = open ? openState(open) : warmingState(live, nowMs);
    const old = before.credentials[key];
    states.push([key, old && isDeepStrictEqual(old, state) ? old : state]);
  }
  const held = {
    certificates: merged(before.certificates, certificates),
    validations: merged(before.validations, validations),
    credentials: merged(before.credentials, states),
  };
  const isSame = held.certificates === before.certificates &&
    held.validations === before.validations && held.credentials === before.credentials;
  return isSame ? before : held;
}

function warmingState(live: LivePlan, nowMs: number): CredentialsState {
  return { kind: "warming", waitingFor: awaitedOf(live, nowMs).map(textOf) };
}

function openState({ plan, certificates: planned, validation, onDemand }: LivePlan) {
  const certificates = planned.filter(isThere).map(keyOf);
  const onDemandKeys = (onDemand?.keys() ?? []).filter((key) => !certificates.includes(key));
  const missing: string[] = [];
  // As in Envoy, one certificate is enough to open; later ones are added.
  if (planned.length > 0 && certificates.length === 0 && !onDemand) {
    missing.push(...planned.map(missingText));
  }
  const isTrusted = validation !== null && isThere(validation);
  if (validation && !isTrusted) missing.push(missingText(validation));
  const { requireClientCertificate, requireForSpiffe, tls } = plan;
  const { rules, defaultName } = plan.onDemand ?? {};
  const state: CredentialsState = {
    kind: "open",
    certificates: [...certificates, ...onDemandKeys],
    validation: validation && isTrusted ? keyOf(validation) : null,
    missing,
    requireClientCertificate: requireClientCertificate ||
      (requireForSpiffe === true && isSpiffe(validation)),
    onDemand: rules ?? null,
    ...(defaultName !== undefined && { defaultName }),
    ...(tls && { tls }),
  };
  return state;
}

/** The agent's roots take no rules of ours: with rules, no peer is trusted rather than too many. */
function isThere({ ref, subscription }: PlannedSecret): boolean {
  return subscription ? subscription.held !== undefined : ref.defaults === undefined;
}

function isSpiffe(secret: PlannedSecret | null): boolean {
  const value = secret?.subscription?.held?.value;
  return value?.type === "validation" && value.validation.kind === "spiffe";
}

function keyOf({ subscription }: PlannedSecret): string {
  return subscription?.key ?? MESH_KEY;
}

function textOf({ ref, subscription }: PlannedSecret): string {
  return subscription ? `${ref.name} (${subscription.source})` : `${ref.name} (consul with rules)`;
}

function missingText(secret: PlannedSecret): string {
  const { ref, subscription } = secret;
  if (!subscription) return textOf(secret);
  return `${ref.name} (${subscription.source}, ${subscription.absence})`;
}

/** `before` if it has the very same entries. Keys may be any text, `__proto__` included. */
function merged<T>(
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
