/**
 * Intentions: may this source reach our service. The list from Consul's `intentions/match` stays in its order:
 * precedence first, and the first that covers a source decides (`consul` reference 4.2, 4.3). Pure and
 * synchronous, so live connections can be judged again whenever rules change.
 *
 * @module
 */

import type { ServiceId } from "../identity/mod.ts";
import type { Permission } from "./permission.ts";
import type { TokenNeed } from "./token_need.ts";

/** The caller's identity, as its certificate proves it. */
export interface Source {
  /** Absent: no service of this mesh; only rules about its URI, and the default, can allow it. */
  readonly id: ServiceId | undefined;
  /** The URI name of its certificate; `""`: none, several, or no certificate at all. */
  readonly uri: string;
  /** For several URI names: the source by each of them. A denial of one is enough. */
  readonly claims?: readonly Source[];
}

/** The statement of an intention about a source it covers. */
export type IntentionAction =
  | "allow"
  | "deny"
  /** It has {@link Intention.permissions}: no statement at L4, which Consul's authorize treats as deny. */
  | "permissions";

/** Plain data, sent between threads. `"*"` in `name`, `namespace` or `partition` covers any. */
export interface Intention {
  /** Its name in logs: `default/web => default/db (precedence 9, deny)`; the action is at the end. */
  readonly rule: string;
  readonly source: {
    readonly name: string;
    readonly namespace: string;
    readonly partition: string;
    /** Cluster peer the source lives in; `""` is this cluster. */
    readonly peer: string;
    /** In place of names, outside the mesh: a URI, or all below one (`spiffe://td/ns/*`). Only in configuration files. */
    readonly uri?: string;
  };
  readonly action: IntentionAction;
  /** In order of evaluation; the first that covers a request decides. */
  readonly permissions?: readonly Permission[];
  /** Tokens demanded of all requests it would allow; not of plain connections, as in Consul. */
  readonly tokens?: readonly TokenNeed[];
  /** A demand on requests that cannot be checked: a service that speaks HTTP denies them all. */
  readonly refused?: string;
  readonly precedence: number;
}

/**
 * Rules of a mesh without namespaces and partitions: a source that claims to be in one is denied like a
 * service of its name, and allowed nothing, by permissions neither.
 */
export function withoutTenancy(intentions: readonly Intention[]): readonly Intention[] {
  return intentions.flatMap((intention) => {
    if (intention.action === "allow") return [intention];
    const { permissions: _, ...rest } = intention;
    const source = { ...intention.source, namespace: "*", partition: "*" };
    const denial: Intention = { ...rest, source, action: "deny" };
    return intention.action === "deny" ? [denial] : [intention, denial];
  });
}

/**
 * Whether this intention covers that source. An allowance is for names in its own letter case, as in Consul, a
 * denial and permissions for those in any: see {@link mayAllow}. A source that is no service of the mesh is
 * allowed nothing by rules about services, but a denial of all sources covers it, too.
 */
export function covers(intention: Intention, source: Source): boolean {
  const isAllow = intention.action === "allow";
  if (speaksOf(intention, source, isAllow)) return true;
  const { claims } = source;
  if (!claims || isAllow) return false;
  return claims.some((claim) => speaksOf(intention, claim, false));
}

/** Whether the intention names exactly this source; its action does not matter. It lets no other in. */
export function mayAllow(intention: Intention, source: Source): boolean {
  return speaksOf(intention, source, true);
}

function speaksOf(intention: Intention, { id, uri }: Source, isAllow: boolean): boolean {
  const { name, namespace, partition, peer, uri: pattern } = intention.source;
  if (pattern !== undefined) {
    return isAllow ? matchesUri(pattern, uri) : matchesUri(plainly(pattern), plainly(uri));
  }
  if (!id) return !isAllow && name === "*" && peer === "";
  // A source in a peer has another trust domain; nothing of that kind gets past our chain check.
  const isMatch = isAllow ? matchesExactly : matchesPlainly;
  return peer === "" &&
    isMatch(name, id.service) &&
    isMatch(namespace, id.namespace) &&
    isMatch(partition, id.partition);
}

/** A URI in the form that denials compare: in any letter case, percent-encoded or not. */
function plainly(uri: string): string {
  // A URI that decodes to no text cannot be named by a rule.
  const decoded = uri.replace(/(?:%[0-9a-f]{2})+/gi, (escaped) => {
    try {
      return decodeURIComponent(escaped);
    } catch {
      return escaped;
    }
  });
  return decoded.toLowerCase();
}

function matchesUri(pattern: string, uri: string): boolean {
  return pattern.endsWith("/*") ? uri.startsWith(pattern.slice(0, -1)) : uri === pattern;
}

function matchesExactly(pattern: string, value: string): boolean {
  return pattern === "*" || pattern === value;
}

function matchesPlainly(pattern: string, value: string): boolean {
  return pattern === "*" || pattern.toLowerCase() === value.toLowerCase();
}

/** The rules for all sources. Plain data, replaced whole. */
export interface IntentionPolicy {
  /** In Consul's order: the first intention that covers the source decides. */
  readonly intentions: readonly Intention[];
  /** For sources that no intention covers; unknown is deny. */
  readonly defaultAction: "allow" | "deny";
}

/** The outcome and the rule it rests on, for the log line. */
export type IntentionVerdict =
  | { readonly kind: "allow"; readonly rule: string }
  | { readonly kind: "deny"; readonly rule: string };

/** The first covering intention decides; permissions cannot be judged at L4 and deny. */
export function authorize(source: Source, policy: IntentionPolicy): IntentionVerdict {
  const intention = policy.intentions.find((candidate) => covers(candidate, source));
  if (!intention) return { kind: policy.defaultAction, rule: `default ${policy.defaultAction}` };
  return { kind: intention.action === "allow" ? "allow" : "deny", rule: intention.rule };
}
