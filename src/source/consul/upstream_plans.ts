/**
 * What is planned for each upstream, from the last chain that the agent gave for it. One that cannot be
 * used leaves the last usable plan in force.
 *
 * @module
 */

import { isRouted } from "../../chain/mod.ts";
import type { DiscoveryChain, Registration, UpstreamDeclaration } from "../../consul/mod.ts";
import type { Refusal } from "../../snapshot/mod.ts";
import { chainRequest, planChain, planQuery, type UpstreamPlan } from "./plan.ts";

/** With the key of the question that it was made from. */
interface Planned {
  readonly key: string;
  readonly plan: UpstreamPlan;
}

export class UpstreamPlans {
  readonly #queryIntervalMs: number;
  /** By the key of their question. */
  readonly #chains = new Map<string, DiscoveryChain>();
  /** By upstream id. */
  readonly #plans = new Map<string, Planned>();
  #refusals: Refusal[] = [];

  /** `queryIntervalMs`: of prepared queries that have none of their own. */
  constructor(queryIntervalMs: number) {
    this.#queryIntervalMs = queryIntervalMs;
  }

  /** Chains that were not taken as they are. */
  get refusals(): readonly Refusal[] {
    return this.#refusals;
  }

  of(id: string): UpstreamPlan | undefined {
    return this.#plans.get(id)?.plan;
  }

  /** Of these upstreams. */
  *among(ids: readonly string[]): Iterable<Planned> {
    for (const [id, planned] of this.#plans) if (ids.includes(id)) yield planned;
  }

  takeChain(key: string, chain: DiscoveryChain): void {
    this.#chains.set(key, chain);
  }

  /** Nobody asks that any more. */
  forgetChain(key: string): void {
    this.#chains.delete(key);
  }

  /** Its chain has routes or splits: {@link plainKey} has to be asked, too. */
  isRouted(declaration: UpstreamDeclaration): boolean {
    const chain = this.#chains.get(upstreamKey(declaration));
    return chain !== undefined && isRouted(chain);
  }

  /** Plans of all upstreams from their present chains. */
  update(registration: Registration | undefined): void {
    const declared = new Set<string>();
    this.#refusals = [];
    for (const declaration of registration?.upstreams ?? []) {
      declared.add(declaration.id);
      if (registration) this.#plan(declaration, registration);
    }
    for (const id of this.#plans.keys()) if (!declared.has(id)) this.#plans.delete(id);
  }

  #plan(declaration: UpstreamDeclaration, registration: Registration): void {
    const { id } = declaration;
    const key = upstreamKey(declaration);
    if (declaration.kind === "prepared_query") {
      this.#plans.set(id, { key, plan: planQuery(declaration, this.#queryIntervalMs) });
      return;
    }
    const before = this.#plans.get(id);
    const isRouted = this.isRouted(declaration);
    const chain = this.#chains.get(isRouted ? plainKey(declaration) : key);
    if (isRouted) {
      this.#refuse(
        id,
        "its chain has routes or splits, which are not followed yet: its connections are carried as " +
          "they are, to where they would go without",
      );
    }
    if (!chain) {
      if (before?.key !== key) this.#plans.delete(id);
      return;
    }
    const plan = planChain(declaration, chain, registration);
    if (plan.kind === "refused" && before?.key === key && before.plan.kind === "targets") {
      return this.#refuse(id, `${plan.reason}; its last usable chain stays in force`);
    }
    this.#plans.set(id, { key, plan });
  }

  #refuse(id: string, reason: string): void {
    this.#refusals.push({ what: `upstream ${id}`, reason });
  }
}

/** One key per question: another question is another watch. */
export function upstreamKey(declaration: UpstreamDeclaration): string {
  if (declaration.kind === "prepared_query") {
    const { name, datacenter, queryIntervalMs } = declaration;
    return `query ${JSON.stringify([name, datacenter, queryIntervalMs])}`;
  }
  return `chain ${JSON.stringify(chainRequest(declaration))}`;
}

/** Of the chain without routes and splits. */
export function plainKey(declaration: UpstreamDeclaration): string {
  return `chain ${JSON.stringify(chainRequest(declaration, "tcp"))}`;
}
