/** Plans of upstreams, from their last chains. An unusable chain leaves the last plan. @module */

import { isRouted } from "../../chain/mod.ts";
import type { DiscoveryChain, Registration, UpstreamDeclaration } from "../../consul/mod.ts";
import type { Refusal } from "../../snapshot/mod.ts";
import { chainRequest, planChain, planQuery, type UpstreamPlan } from "./plan.ts";

/** With the key of the question that it was made from. */
interface Planned {
  readonly key: string;
  readonly plan: UpstreamPlan;
  /** Made from the chain without routes and splits, as those cannot be followed. */
  readonly isPlain: boolean;
}

export class UpstreamPlans {
  readonly #queryIntervalMs: number;
  /** By the key of their question: the last answers of the watches that run. */
  readonly chains: Map<string, DiscoveryChain> = new Map();
  /** By upstream id. */
  readonly #plans = new Map<string, Planned>();
  /** Ids of chains with routes or splits that cannot be followed: {@link plainKey} is watched, too. */
  readonly needPlain: Set<string> = new Set();
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

  *among(ids: readonly string[]): Iterable<Planned> {
    for (const [id, planned] of this.#plans) if (ids.includes(id)) yield planned;
  }

  /** Plans of all upstreams from their present chains. */
  update(registration: Registration | undefined): void {
    const declared = new Set<string>();
    this.#refusals = [];
    this.needPlain.clear();
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
      const plan = planQuery(declaration, this.#queryIntervalMs);
      this.#plans.set(id, { key, plan, isPlain: false });
      return;
    }
    const before = this.#plans.get(id);
    const isOfThis = before?.key === key;
    const chain = this.chains.get(key);
    if (!chain) {
      if (!isOfThis) this.#plans.delete(id);
      return;
    }
    const plan = planChain(declaration, chain, registration);
    const isRefused = plan.kind === "refused";
    if (isRefused && isOfThis && before.plan.kind === "targets" && !before.isPlain) {
      this.#refuse(id, `${plan.reason}; its last usable chain stays in force`);
    } else if (isRefused && isRouted(chain)) {
      this.#planPlain(declaration, registration, plan.reason);
    } else this.#plans.set(id, { key, plan, isPlain: false });
  }

  #planPlain(declaration: UpstreamDeclaration, registration: Registration, reason: string): void {
    const { id } = declaration;
    const key = upstreamKey(declaration);
    this.needPlain.add(id);
    this.#refuse(
      id,
      `${reason}: its connections are carried as they are, to where they would go without routes ` +
        "and splits",
    );
    const chain = this.chains.get(plainKey(declaration));
    if (!chain) {
      if (this.#plans.get(id)?.key !== key) this.#plans.delete(id);
      return;
    }
    const plan = planChain(declaration, chain, registration);
    this.#plans.set(id, { key, plan, isPlain: true });
  }

  #refuse(id: string, reason: string): void {
    this.#refusals.push({ what: `upstream ${id}`, reason });
  }
}

/** One key per request: another request is another watch. */
export function upstreamKey(declaration: UpstreamDeclaration): string {
  if (declaration.kind === "prepared_query") {
    const { name, datacenter, queryIntervalMs } = declaration;
    return `query ${JSON.stringify([name, datacenter, queryIntervalMs])}`;
  }
  return `chain ${JSON.stringify(chainRequest(declaration))}`;
}

/** Watch key of the chain without routes and splits. */
export function plainKey(declaration: UpstreamDeclaration): string {
  return `chain ${JSON.stringify(chainRequest(declaration, "tcp"))}`;
}
